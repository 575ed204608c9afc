"""Positions in filters of an event log: sentinels, seconds, and where reading may begin (ES 5.1, 5.2).

Offsets are text that sorts like the log; `@earliest` and `@latest` are positions, never text (ledger A7). Whole seconds
in comparisons with the timestamp become milliseconds (ledger A6). `hint` finds the bounds that a conjunction implies,
so that a reader skips only events that cannot match.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Final

from gateway.amqp.codec.types import Timestamp, Value
from gateway.filters.position.event_stream import (
    EARLIEST,
    LATEST,
    OFFSET,
    TIMESTAMP,
    LogPosition,
    Start,
    first_after,
    first_from,
)
from gateway.filters.predicate import (
    TRUE,
    And,
    Compare,
    Comparison,
    FieldReference,
    In,
    IsTrue,
    Latest,
    Literal,
    MessageSection,
    NodeField,
    Predicate,
    ValueExpression,
    walk,
)

OFFSET_FIELD: Final = FieldReference(MessageSection.DELIVERY_ANNOTATIONS, OFFSET)
TIMESTAMP_FIELD: Final = FieldReference(MessageSection.DELIVERY_ANNOTATIONS, TIMESTAMP)
SECONDS_BELOW: Final = 10**11
"""Constants below this are seconds (to the year 5138), others milliseconds (from March 1973)."""

_FLIPPED: Final = {
    Comparison.LT: Comparison.GT,
    Comparison.LE: Comparison.GE,
    Comparison.GT: Comparison.LT,
    Comparison.GE: Comparison.LE,
}
_UP: Final = (Comparison.GT, Comparison.GE)
_TRUE_OF_ANY: Final = Compare(Comparison.GE, OFFSET_FIELD, Literal(""))
_FALSE_OF_ANY: Final = Compare(Comparison.LT, OFFSET_FIELD, Literal(""))


def mentions_log(predicate: Predicate) -> bool:
    """Whether the filter names a delivery annotation (ES-5.2-4)."""
    return any(
        isinstance(node, FieldReference) and node.section is MessageSection.DELIVERY_ANNOTATIONS
        for node in walk(predicate)
    )


def normalised(predicate: Predicate, *, seconds: bool) -> Predicate:
    """The predicate with sentinels replaced by their meaning; with `seconds`, timestamps by the magnitude rule."""
    changed: Predicate = _normalised(predicate, seconds)
    return changed


def _normalised(node: NodeField, seconds: bool) -> NodeField:
    if isinstance(node, tuple):
        return tuple(_normalised(item, seconds) for item in node)
    if isinstance(node, Compare):
        return _compared(node, seconds)
    if isinstance(node, In) and seconds and node.value == TIMESTAMP_FIELD:
        return replace(node, items=tuple(_milliseconds(item) for item in node.items))
    if isinstance(node, Predicate):
        return replace(node, **{each.name: _normalised(getattr(node, each.name), seconds) for each in fields(node)})
    return node


def _compared(node: Compare, seconds: bool) -> Compare:
    found = _turned(node)
    if found is None:
        return node
    how, field, constant = found
    if field == OFFSET_FIELD:
        return _place(how, constant.value) or node
    if seconds and field == TIMESTAMP_FIELD:
        return Compare(how, field, _milliseconds(constant))
    return node


def _turned(node: Compare) -> tuple[Comparison, FieldReference, Literal] | None:
    """A comparison of a field with a constant, the field first."""
    if isinstance(node.left, FieldReference) and isinstance(node.right, Literal):
        return node.comparison, node.left, node.right
    if isinstance(node.right, FieldReference) and isinstance(node.left, Literal):
        return _FLIPPED.get(node.comparison, node.comparison), node.right, node.left
    return None


def _place(how: Comparison, constant: Value) -> Compare | None:
    """A comparison with a sentinel, which equals no offset and is below or above all of them (ES-5.1.1-6, -7)."""
    if constant not in (EARLIEST, LATEST):
        return None
    if how is Comparison.EQ:
        return _FALSE_OF_ANY
    if how is Comparison.NE:
        return _TRUE_OF_ANY
    if constant == EARLIEST:
        return _TRUE_OF_ANY if how in _UP else _FALSE_OF_ANY
    return Compare(Comparison.GE if how in _UP else Comparison.LT, OFFSET_FIELD, Literal(Latest.LATEST))


def _milliseconds(item: ValueExpression) -> ValueExpression:
    if isinstance(item, Literal) and type(item.value) is int and item.value < SECONDS_BELOW:
        return Literal(item.value * 1000)
    return item


def hint(predicate: Predicate) -> LogPosition:
    """The bounds that all conjuncts of a predicate imply (FX-3-5); EARLIEST if they imply none."""
    position = LogPosition(Start.EARLIEST)
    for item in _conjuncts(predicate):
        found = _turned(item) if isinstance(item, Compare) else None
        if found is not None:
            position = position.narrow(_bounds(*found))
    return position


def _conjuncts(predicate: Predicate) -> Iterator[Predicate]:
    stack = [predicate]
    while stack:
        item = stack.pop()
        if isinstance(item, IsTrue):
            stack.append(item.item)
        elif isinstance(item, And):
            stack.extend(reversed(item.items))
        else:
            yield item


def _bounds(how: Comparison, field: FieldReference, constant: Literal) -> LogPosition:
    value = constant.value
    if field == OFFSET_FIELD and value is Latest.LATEST:
        return LogPosition(Start.LATEST if how in _UP else Start.EARLIEST)
    if field == OFFSET_FIELD and isinstance(value, str):
        return _offsets(how, value)
    if field == TIMESTAMP_FIELD and type(value) in (int, Timestamp):
        return _times(how, int(value))
    return LogPosition(Start.EARLIEST)


def _offsets(how: Comparison, symbol: str) -> LogPosition:
    first = {Comparison.GT: first_after, Comparison.GE: first_from, Comparison.EQ: first_from}.get(how)
    end = {Comparison.LT: first_from, Comparison.LE: first_after, Comparison.EQ: first_after}.get(how)
    position = LogPosition(Start.EARLIEST, first(symbol) if first else 0)
    return position._replace(end_offset=end(symbol)) if end else position


def _times(how: Comparison, milliseconds: int) -> LogPosition:
    if how is Comparison.GT:
        return LogPosition(Start.EARLIEST, 0, milliseconds)
    return LogPosition(Start.EARLIEST, 0, milliseconds - 1 if how in (Comparison.GE, Comparison.EQ) else None)


def beyond_position(predicate: Predicate) -> tuple[Predicate, ...]:
    """The conjuncts of a predicate that `hint` does not cover: all but bounds of offsets and lower bounds of times."""
    return tuple(item for item in _conjuncts(predicate) if item != TRUE and not _positional(item))


def _positional(item: Predicate) -> bool:
    found = _turned(item) if isinstance(item, Compare) else None
    return found is not None and _exact(*found)


def _exact(how: Comparison, field: FieldReference, constant: Literal) -> bool:
    value = constant.value
    if field == OFFSET_FIELD and value is Latest.LATEST:
        return how in _UP
    if field == OFFSET_FIELD and isinstance(value, str):
        return how is not Comparison.NE
    return field == TIMESTAMP_FIELD and type(value) in (int, Timestamp) and how in _UP
