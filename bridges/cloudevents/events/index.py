"""The index over the filters of a manager's subscriptions: looks up those that match an event."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, Generic, TypeVar

from bridges.cloudevents.events.access import ATTRIBUTES
from bridges.cloudevents.events.event import CloudEvent
from bridges.cloudevents.events.filter import EVERYTHING, EventFilter
from gateway.filters.index import PredicateIndex
from gateway.filters.index.key_sets import KeySet, with_key, without_key

K = TypeVar("K", bound=Hashable)


class FilterIndex(Generic[K]):
    """Finds the filters that match an event; gives the same result as `EventFilter.matches` of each.

    Keys are the caller's names of subscriptions. Adding or removing a filter takes time proportional to its own size.
    """

    def __init__(self) -> None:
        self._index: Final = PredicateIndex[EventFilter, CloudEvent](ATTRIBUTES)
        self._keys: Final[dict[EventFilter, KeySet[K]]] = {}
        self._filter_of: Final[dict[K, EventFilter]] = {}
        self._every: Final[dict[K, None]] = {}
        self._unindexed = 0

    def __len__(self) -> int:
        """The number of keys."""
        return len(self._filter_of)

    @property
    def unindexed(self) -> int:
        """The number of different filters that must be evaluated for every event."""
        return self._unindexed

    def sizes(self) -> dict[str, int]:
        """The number of different filters that are looked up, evaluated for every event, or have no condition."""
        indexed = len(self._keys) - self._unindexed
        return {"indexed": indexed, "unindexed": self._unindexed, "every": len(self._every)}

    def add(self, key: K, wanted: EventFilter) -> None:
        """Add the filter of `key`; raises ValueError if the key has one already."""
        if key in self._filter_of:
            raise ValueError("this key has a filter already")
        self._filter_of[key] = wanted
        if wanted == EVERYTHING:
            self._every[key] = None
            return
        keys = self._keys.get(wanted)
        if keys is None:
            self._index.add(wanted, wanted.necessary)
            self._unindexed += wanted.unindexed
        self._keys[wanted] = with_key(keys or (), key)

    def remove(self, key: K) -> None:
        """Remove the filter of `key`; raises KeyError for an unknown key."""
        wanted = self._filter_of.pop(key)
        if wanted == EVERYTHING:
            del self._every[key]
            return
        keys = without_key(self._keys[wanted], key)
        if keys:
            self._keys[wanted] = keys
        else:
            del self._keys[wanted]
            self._index.remove(wanted)
            self._unindexed -= wanted.unindexed

    def matching(self, event: CloudEvent) -> list[K]:
        """The keys whose filters match the event, each once, in no particular order; never raises."""
        found = list(self._every)
        if not event.attributes or not self._keys:
            return found
        for wanted in self._index.matching(event):
            if wanted.check is None or wanted.check(event):
                found += self._keys[wanted]
        return found
