"""Finds the bytes that every matching message contains, so that they can be searched for before any field is read.

Most filters accept few messages and compare some field with a text. If the bytes of the section do not contain that
text, the comparison cannot be true, and one search in C shows it.
"""

from __future__ import annotations

from typing import Final

from gateway.amqp.codec.types import Value
from gateway.filters import like
from gateway.filters.predicate import (
    Compare,
    Comparison,
    FieldReference,
    In,
    Like,
    Literal,
    Matches,
    MessageSection,
    Predicate,
    Text,
    ValueExpression,
)
from gateway.filters.values import TEXTS

RequiredBytes = tuple[MessageSection, tuple[bytes, ...]]
_MOST: Final = 4
"""Searching for more texts takes longer than reading the fields."""


def required_bytes(predicate: Predicate) -> RequiredBytes | None:
    """A section, and texts, one of which it contains whenever `predicate` is true; None if no such texts are known."""
    if isinstance(predicate, Compare):
        return _of_compare(predicate)
    if isinstance(predicate, In):
        return _known(predicate.value, [_constant(item) for item in predicate.items])
    if isinstance(predicate, Like):
        return _known(predicate.value, [_longest(predicate)])
    if isinstance(predicate, Matches):
        return _known(predicate.field, [predicate.reference])
    if isinstance(predicate, Text) and not predicate.fold:
        return _known(predicate.field, [predicate.operand])
    return None


def _of_compare(node: Compare) -> RequiredBytes | None:
    if node.comparison is not Comparison.EQ:
        return None
    return _known(node.left, [_constant(node.right)]) or _known(node.right, [_constant(node.left)])


def _constant(node: ValueExpression) -> Value:
    return node.value if isinstance(node, Literal) else None


def _longest(node: Like) -> str | None:
    """The longest run of literal characters in a pattern."""
    chunks = [chunk for part in like.constant(node) or () for _, chunk in part.chunks]
    return max(chunks, key=len, default=None)


def _known(value: ValueExpression, texts: list[Value]) -> RequiredBytes | None:
    if not isinstance(value, FieldReference) or value.section is MessageSection.HEADER or len(texts) > _MOST:
        return None
    if not all(type(text) in TEXTS and text for text in texts):
        return None
    return value.section, tuple(text.encode("utf-8", "surrogatepass") for text in texts)
