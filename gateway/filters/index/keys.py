"""The lookup keys of a predicate: necessary conditions that can be looked up instead of evaluated.

A key states that a field equals a value, or begins or ends with a text. A predicate has keys if it can be true only for
messages that fit at least one of them; for those it still has to be evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum, auto
from typing import Final, NamedTuple
from uuid import UUID

from gateway.amqp.codec.types import Timestamp, Value
from gateway.filters import like
from gateway.filters.predicate import (
    Affix,
    And,
    Compare,
    Comparison,
    Constant,
    FieldReference,
    In,
    IsTrue,
    Like,
    Literal,
    Matches,
    Or,
    Predicate,
    Text,
    ValueExpression,
)
from gateway.filters.values import INTEGERS, TEXTS, folded


class How(Enum):
    """How a field is looked up."""

    EQUAL = auto()
    PREFIX = auto()
    SUFFIX = auto()


class LookupKey(NamedTuple):
    """The condition that `field` equals, begins or ends with `operand`; `fold`: ignoring case."""

    field: FieldReference
    how: How
    operand: Value
    fold: bool = False


Keys = tuple[LookupKey, ...]
Weight = Callable[[LookupKey], int]
"""The estimated cost of a key: the messages that fit it, and the predicates under it; the smallest is best."""

_EXACT: Final = 1 << 53
"""Integers beyond this may equal a double by the rules of SQL, but not in Python."""
_OTHERS: Final = frozenset((bool, bytes, UUID))
_HOW: Final = {Affix.PREFIX: How.PREFIX, Affix.SUFFIX: How.SUFFIX, Affix.WHOLE: How.EQUAL}


def keys_of(predicate: Predicate, weight: Weight) -> Keys | None:
    """Keys of which a message fits at least one if `predicate` is true for it.

    An empty tuple: the predicate is never true. None: it has no keys and has to be evaluated for every message.
    """
    if isinstance(predicate, IsTrue):
        return keys_of(predicate.item, weight)
    if isinstance(predicate, Constant):
        return None if predicate.value else ()
    if isinstance(predicate, Or):
        return _either([keys_of(item, weight) for item in predicate.items])
    if isinstance(predicate, And):
        found = (keys_of(item, weight) for item in predicate.items)
        return _best((keys for keys in found if keys is not None), weight)
    return _best(_of_term(predicate), weight)


def _either(items: list[Keys | None]) -> Keys | None:
    if None in items:
        return None
    return tuple(dict.fromkeys(key for keys in items for key in keys or ()))


def _best(choices: Iterator[Keys], weight: Weight) -> Keys | None:
    return min(choices, key=lambda keys: sum(map(weight, keys)), default=None)


def texts_of(term: Predicate) -> tuple[FieldReference, frozenset[str]] | None:
    """A field, and the texts, one of which it must equal for `term` to be true; None if `term` is not of this kind."""
    if not isinstance(term, Compare | In | Matches):
        return None
    for keys in _of_term(term):
        field = keys[0].field
        if not field.path and all(type(key.operand) is str for key in keys):
            return field, frozenset(key.operand for key in keys)
    return None


# -- terms: each set of keys that they yield is sufficient by itself


def _of_term(term: Predicate) -> Iterator[Keys]:
    if isinstance(term, Matches):
        yield from _equal(term.field, (Literal(term.reference),))
    elif isinstance(term, In):
        yield from _equal(term.value, term.items)
    elif isinstance(term, Compare) and term.comparison is Comparison.EQ:
        yield from _equal(term.left, (term.right,))
        yield from _equal(term.right, (term.left,))
    elif isinstance(term, Text) and _plain(term.field):
        operand = folded(term.operand) if term.fold else term.operand
        yield (LookupKey(term.field, _HOW[term.affix], operand, term.fold),)
    elif isinstance(term, Like):
        yield from _of_like(term)


def _equal(field: ValueExpression, items: tuple[ValueExpression, ...]) -> Iterator[Keys]:
    if not isinstance(field, FieldReference) or not _plain(field) or not items:
        return
    operands = [_operand(item.value) if isinstance(item, Literal) else None for item in items]
    if None not in operands:
        yield tuple(LookupKey(field, How.EQUAL, operand) for operand in dict.fromkeys(operands))


def _operand(constant: Value) -> Value:
    """A constant in the form in which it is looked up; None: it cannot be looked up."""
    if type(constant) in TEXTS:
        return str(constant)
    if type(constant) in INTEGERS or type(constant) is Timestamp:
        return int(constant) if abs(constant) <= _EXACT else None
    return constant if type(constant) in _OTHERS else None


def _plain(field: FieldReference) -> bool:
    """Whether the path of the field is constant: no step of it is computed from the message."""
    return all(isinstance(step, str | Literal) for step in field.path)


def _of_like(term: Like) -> Iterator[Keys]:
    field, pattern = term.value, like.constant(term)
    if pattern is None or not isinstance(field, FieldReference) or not _plain(field):
        return
    first, last = pattern[0], pattern[-1]
    begin = next((chunk for offset, chunk in first.chunks[:1] if not offset), "")
    end = next((chunk for offset, chunk in last.chunks[-1:] if offset + len(chunk) == last.length), "")
    if len(pattern) == 1 and len(begin) == first.length:
        yield (LookupKey(field, How.EQUAL, begin),)
        return
    if begin:
        yield (LookupKey(field, How.PREFIX, begin),)
    if end:
        yield (LookupKey(field, How.SUFFIX, end),)
