"""What a message must contain to match at all: texts that are searched for before any field is read.

A filter lets through few messages of many, and most filters compare some field with a text. Where that text is not
among the bytes of its section, the comparison is not true, whatever it is otherwise; one search in C tells so.
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
"""More texts to search for than this cost more than reading the fields."""


def required_bytes(predicate: Predicate) -> RequiredBytes | None:
    """A section and texts of which it must hold one for `predicate` to be true; `None`: nothing is known."""
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
    """The longest run of characters that a pattern asks for."""
    chunks = [chunk for part in like.constant(node) or () for _, chunk in part.chunks]
    return max(chunks, key=len, default=None)


def _known(value: ValueExpression, texts: list[Value]) -> RequiredBytes | None:
    if not isinstance(value, FieldReference) or value.section is MessageSection.HEADER or len(texts) > _MOST:
        return None
    if not all(type(text) in TEXTS and text for text in texts):
        return None
    return value.section, tuple(text.encode("utf-8", "surrogatepass") for text in texts)
