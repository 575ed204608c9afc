"""Filters that only compare application properties with texts, in the form that C code evaluates (`_text_tests.h`).

`a.color = 'red' AND a.region LIKE 'eu-%'` is one of them. Pure.
"""

from __future__ import annotations

from typing import Final

from gateway.filters import like
from gateway.filters.evaluate.compile import conjuncts
from gateway.filters.index.keys import texts_of
from gateway.filters.predicate import FieldReference, Like, MessageSection, Predicate

TextTest = tuple[bytes, int, tuple[bytes, ...], int]
"""A property's name, the comparison, its operands, of which one must match, and a text's maximum length in bytes.

Longer texts are left to Python; 0: no maximum.
"""
EQUAL: Final = 0
BEGINS: Final = 1
ENDS: Final = 2
MOST: Final = 16


def text_tests(predicate: Predicate) -> tuple[TextTest, ...] | None:
    """The tests whose conjunction is equivalent to a predicate; None if it has any other term."""
    found = [_test(term) for term in conjuncts(predicate)]
    tests = tuple(test for test in found if test is not None)
    return tests if 0 < len(tests) == len(found) <= MOST else None


def _test(term: Predicate) -> TextTest | None:
    try:
        if (texts := texts_of(term)) is not None:
            return _of(texts[0], EQUAL, *texts[1])
        return _like(term) if isinstance(term, Like) else None
    except UnicodeEncodeError:  # no message has a lone surrogate
        return None


def _like(term: Like) -> TextTest | None:
    """A pattern without `_` and with at most one `%`, at its beginning or its end."""
    pattern = like.constant(term)
    if pattern is None or not isinstance(term.value, FieldReference) or len(pattern) > 2:
        return None
    texts = ["".join(chunk for _, chunk in part.chunks) for part in pattern]
    if any(len(text) < part.length for text, part in zip(texts, pattern, strict=True)):
        return None
    if len(texts) == 2 and all(texts):
        return None
    how = EQUAL if len(texts) == 1 else BEGINS if texts[0] else ENDS
    return _of(term.value, how, texts[0] or texts[-1], longest=term.longest or 0)


def _of(field: FieldReference, how: int, *texts: str, longest: int = 0) -> TextTest | None:
    if field.section is not MessageSection.APPLICATION_PROPERTIES or field.path:
        return None
    return field.name.encode(), how, tuple(text.encode() for text in texts), longest
