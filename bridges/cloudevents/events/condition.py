"""The condition of a subscription: predicates over attributes in two-valued logic, as in the draft's dialects (CE 3.2).

A condition is a predicate over attributes where that can express it, otherwise one of the nodes here. All are hashable:
equal conditions of several subscriptions are evaluated once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gateway.filters.cesql import Expression
from gateway.filters.predicate import TRUE, IsTrue, Not, Or, Predicate, conjunction


@dataclass(frozen=True, slots=True)
class AttributeCondition:
    """A predicate over attributes."""

    predicate: Predicate


@dataclass(frozen=True, slots=True)
class AllOf:
    """True if all conditions are true."""

    items: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """True if at least one condition is true."""

    items: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class NoneOf:
    """True if the condition is not, also for an event without the attribute that it tests."""

    item: Condition


@dataclass(frozen=True, slots=True)
class CesqlCondition:
    """A CESQL expression over attributes."""

    expression: Expression


@dataclass(frozen=True, slots=True)
class MessageCondition:
    """A predicate over the message that receivers of the event's record get."""

    predicate: Predicate


Condition = AttributeCondition | AllOf | AnyOf | NoneOf | CesqlCondition | MessageCondition

EVERY: Final = AttributeCondition(TRUE)
"""The condition that is always true."""


def all_of(items: tuple[Condition, ...]) -> Condition:
    """The conjunction; a predicate if all of them are predicates."""
    predicates = _predicates(items)
    if predicates is None:
        return AllOf(items) if len(items) != 1 else items[0]
    return AttributeCondition(conjunction(predicates))


def any_of(items: tuple[Condition, ...]) -> Condition:
    """The disjunction."""
    predicates = _predicates(items)
    if predicates is None:
        return AnyOf(items) if len(items) != 1 else items[0]
    return AttributeCondition(Or(predicates))


def none_of(item: Condition) -> Condition:
    """The negation: an unknown result counts as not true, so its negation is true."""
    if isinstance(item, AttributeCondition):
        return AttributeCondition(Not(IsTrue(item.predicate)))
    return NoneOf(item)


def _predicates(items: tuple[Condition, ...]) -> tuple[Predicate, ...] | None:
    found = tuple(item.predicate for item in items if isinstance(item, AttributeCondition))
    return found if len(found) == len(items) else None
