"""The compiled filter of one subscription: its dialects, `types` and `source` as one condition (CE 3.2.3). Pure.

`necessary` is the part that can be expressed as a predicate over attributes, which the index looks up. The rest is
evaluated only for events that match it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from bridges.cloudevents.events.access import ATTRIBUTES, CONTENT_TYPE, attribute
from bridges.cloudevents.events.condition import (
    EVERY,
    AllOf,
    AnyOf,
    AttributeCondition,
    CesqlCondition,
    Condition,
    MessageCondition,
    NoneOf,
    all_of,
)
from bridges.cloudevents.events.event import CloudEvent
from bridges.kafka.consume.filters.record_filter import RecordFilter
from bridges.kafka.records.mapping import RecordReader
from gateway.filters.cesql import attributes_of, compile_condition, has_mixed_logic, necessary
from gateway.filters.cesql.necessary import Necessary
from gateway.filters.evaluate.compile import compile_filter
from gateway.filters.index.keys import keys_of
from gateway.filters.predicate import TRUE, And, IsTrue, Not, Or, Predicate

Check = Callable[[CloudEvent], bool]


@dataclass(frozen=True, slots=True)
class EventFilter:
    """Matches the events that a subscription wants; equal filters have equal conditions."""

    condition: Condition
    necessary: Predicate = field(init=False, compare=False, repr=False)
    """True of every matching event; the index looks this up."""
    unindexed: bool = field(init=False, compare=False, repr=False)
    """Whether it must be evaluated for every event, because it has no string to look it up by."""
    _sufficient: bool = field(init=False, compare=False, repr=False)
    _hash: int = field(init=False, compare=False, repr=False)
    _checked: Check | None = field(init=False, compare=False, repr=False, default=None)
    _matching: Check | None = field(init=False, compare=False, repr=False, default=None)

    def __post_init__(self) -> None:
        found = _needs(self.condition)
        object.__setattr__(self, "necessary", found.predicate)
        object.__setattr__(self, "_sufficient", found.sufficient)
        found_by = keys_of(found.predicate, lambda key: 1)
        object.__setattr__(self, "unindexed", self.condition != EVERY and found_by is None)
        object.__setattr__(self, "_hash", hash(self.condition))

    @property
    def check(self) -> Check | None:
        """Evaluates the remaining condition, compiled on first use; None if nothing remains."""
        if self._checked is None and not self._sufficient:
            object.__setattr__(self, "_checked", _check(self.condition))
        return self._checked

    @property
    def _alone(self) -> Check:
        found = self._matching
        if found is None:
            found = compile_filter(self.necessary, ATTRIBUTES)
            object.__setattr__(self, "_matching", found)
        return found

    def __hash__(self) -> int:
        return self._hash

    @property
    def summary(self) -> str:
        """How the filter is looked up, and a hint at precedence that may surprise its author; for the status."""
        found = "unindexed" if self.unindexed else "indexed"
        return f"{found}; {_MIXED}" if _mixed(self.condition) else found

    def matches(self, event: CloudEvent) -> bool:
        """Whether the event matches; never raises. An event with unreadable attributes matches only EVERYTHING."""
        if not event.attributes:
            return self.condition == EVERY
        return self._alone(event) and (self.check is None or self.check(event))



_MIXED: Final = "AND, OR and XOR bind from left to right"


def _mixed(condition: Condition) -> bool:
    if isinstance(condition, CesqlCondition):
        return has_mixed_logic(condition.expression)
    if isinstance(condition, NoneOf):
        return _mixed(condition.item)
    return isinstance(condition, AllOf | AnyOf) and any(map(_mixed, condition.items))


# -- what a condition needs


_UNKNOWN: Final = Necessary(TRUE, sufficient=False)


def _needs(condition: Condition) -> Necessary:
    if isinstance(condition, AttributeCondition):
        return Necessary(condition.predicate, sufficient=True)
    if isinstance(condition, CesqlCondition):
        return necessary(condition.expression, attribute)
    if isinstance(condition, MessageCondition):
        return _UNKNOWN
    if isinstance(condition, NoneOf):
        item = _needs(condition.item)
        return Necessary(Not(IsTrue(item.predicate)), sufficient=True) if item.sufficient else _UNKNOWN
    items = [_needs(item) for item in condition.items]
    predicates, sufficient = [item.predicate for item in items], all(item.sufficient for item in items)
    if isinstance(condition, AllOf):
        return Necessary(And(tuple(each for each in predicates if each != TRUE)), sufficient)
    return _UNKNOWN if TRUE in predicates else Necessary(Or(tuple(predicates)), sufficient)


# -- the complete condition


def _check(condition: Condition) -> Check:
    if isinstance(condition, AttributeCondition):
        return compile_filter(condition.predicate, ATTRIBUTES)
    if isinstance(condition, CesqlCondition):
        return _cesql(condition)
    if isinstance(condition, MessageCondition):
        return _message(condition)
    if isinstance(condition, NoneOf):
        check = _check(condition.item)
        return lambda event: not check(event)
    checks = [_check(item) for item in condition.items]
    if isinstance(condition, AnyOf):
        return lambda event: any(check(event) for check in checks)
    return lambda event: all(check(event) for check in checks)


def _cesql(condition: CesqlCondition) -> Check:
    holds = compile_condition(condition.expression)
    if CONTENT_TYPE not in attributes_of(condition.expression):
        return lambda event: holds(event.attributes)

    def check(event: CloudEvent) -> bool:
        media = event.content_type
        return holds(event.attributes if media is None else {**event.attributes, CONTENT_TYPE: media})

    return check


def _message(condition: MessageCondition) -> Check:
    """The message of an event; everything is unknown for an event without a record."""
    wanted, reader = RecordFilter(condition.predicate), RecordReader()

    def check(event: CloudEvent) -> bool:
        record = event.record
        if record is None:
            return False
        matches = wanted.may_match(record)
        if matches is not None:
            return matches
        place = record.partition(), record.offset(), *record.timestamp()
        return wanted.matches(reader.encode(record.key(), record.value(), record.headers(), *place))

    return check


# -- filters


EVERYTHING: Final = EventFilter(EVERY)
"""The filter of a subscription without filters."""


def every(filters: Iterable[EventFilter]) -> EventFilter:
    """The filter that matches if all of `filters` do; if there are none, every event matches."""
    conditions = tuple(each.condition for each in filters if each.condition != EVERY)
    return EventFilter(all_of(conditions)) if conditions else EVERYTHING
