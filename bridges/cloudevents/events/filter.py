"""The filter of one subscription, compiled: all its dialects, `types` and `source` as one condition (CE 3.2.3)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from bridges.cloudevents.events.access import ATTRIBUTES
from bridges.cloudevents.events.condition import EVERY, AttributeCondition, Condition, all_of
from bridges.cloudevents.events.event import CloudEvent
from gateway.filters.evaluate.compile import compile_filter
from gateway.filters.index.keys import keys_of
from gateway.filters.predicate import TRUE, Predicate


@dataclass(frozen=True)
class EventFilter:
    """Which events a subscription wants; equal ones have equal conditions."""

    condition: Condition
    necessary: Predicate = field(init=False, compare=False, repr=False)
    """True of every event that is wanted: what the index looks up."""
    check: Callable[[CloudEvent], bool] | None = field(init=False, compare=False, repr=False)
    """The rest of the truth; None: there is none."""
    _necessary: Callable[[CloudEvent], bool] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        necessary = self.condition.predicate if isinstance(self.condition, AttributeCondition) else TRUE
        object.__setattr__(self, "necessary", necessary)
        object.__setattr__(self, "check", None)
        object.__setattr__(self, "_necessary", compile_filter(necessary, ATTRIBUTES))

    def matches(self, event: CloudEvent) -> bool:
        """Whether the event is wanted; never raises. An event whose attributes cannot be read is, by no filter."""
        if not event.attributes:
            return self.condition == EVERY
        return self._necessary(event) and (self.check is None or self.check(event))

    @property
    def unindexed(self) -> bool:
        """Whether it has to be evaluated for every event, for there is no text that it could be looked up by."""
        return self.condition != EVERY and keys_of(self.necessary, lambda key: 1) is None


EVERYTHING: Final = EventFilter(EVERY)
"""The filter of a subscription that has none."""


def every(filters: Iterable[EventFilter]) -> EventFilter:
    """The filter for events that all of `filters` want; of none: every event."""
    conditions = tuple(each.condition for each in filters if each.condition != EVERY)
    return EventFilter(all_of(conditions)) if conditions else EVERYTHING
