"""The condition of a subscription: predicates over attributes, joined two-valued, as the draft's dialects are (CE 3.2).

What a predicate of attributes can say is one. Everything else is a node here. All are hashable: equal conditions of
several subscriptions are evaluated once.
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
    """All of these."""

    items: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """At least one of these."""

    items: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class NoneOf:
    """Not this one: true of an event without the attribute that it asks for."""

    item: Condition


@dataclass(frozen=True, slots=True)
class CesqlCondition:
    """A CESQL expression over attributes."""

    expression: Expression


@dataclass(frozen=True, slots=True)
class MessageCondition:
    """A predicate over the message that the event's record is delivered as."""

    predicate: Predicate


Condition = AttributeCondition | AllOf | AnyOf | NoneOf | CesqlCondition | MessageCondition

EVERY: Final = AttributeCondition(TRUE)
"""True of every event."""


def all_of(items: tuple[Condition, ...]) -> Condition:
    """The conjunction, as a predicate where all of them are predicates."""
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
    """The negation: unknown is not true, so that it becomes true."""
    if isinstance(item, AttributeCondition):
        return AttributeCondition(Not(IsTrue(item.predicate)))
    return NoneOf(item)


def _predicates(items: tuple[Condition, ...]) -> tuple[Predicate, ...] | None:
    found = tuple(item.predicate for item in items if isinstance(item, AttributeCondition))
    return found if len(found) == len(items) else None
