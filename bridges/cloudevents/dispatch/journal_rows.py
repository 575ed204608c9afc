"""Rows of the journal about pushed events: counts by owner and sink (pure).

Nothing is counted per event for the journal: each row has the increments of the counts of its subscriptions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from typing import Final, NamedTuple

from bridges.cloudevents.delivery.counts import DeliveryCounts
from bridges.cloudevents.dispatch.interface import DeliverableSubscription
from gateway.observability.redaction import redact

_BATCH: Final = 100
"""Number of subscriptions between two pauses for other work of the loop."""


class RowKey(NamedTuple):
    """The fields that all subscriptions of one row have in common."""

    user: str
    protocol: str
    sink: str
    """Scheme, host and port, or the address of a sink in the scope: paths may contain secrets of their owners."""
    streams: tuple[str, ...]


def row_key(subscription: DeliverableSubscription, streams: Collection[str]) -> RowKey:
    """The key of a subscription that reads these streams."""
    sink = subscription.sink
    target = sink.origin if sink.hosts else redact(sink.text)
    return RowKey(subscription.owner, subscription.protocol.value, target, tuple(streams))


class _TrackedCounts:
    """The counts of one subscription, and those of the previous row."""

    __slots__ = ("before", "counts", "key")

    def __init__(self, key: RowKey, counts: DeliveryCounts) -> None:
        self.key = key
        self.counts: Final = counts
        self.before = counts.by_name()

    def increments(self) -> dict[str, int]:
        """The increments since the last call."""
        now, before = self.counts.by_name(), self.before
        self.before = now
        return {name: number - before[name] for name, number in now.items() if number > before[name]}


class JournalRows:
    """Tracks the counts of deliveries, and makes rows of them."""

    def __init__(self) -> None:
        self._tracked: Final[dict[int, _TrackedCounts]] = {}
        self._changed: Final[dict[RowKey, Counter[str]]] = {}
        """Increments of subscriptions whose key has changed since the last rows."""

    def track(self, key: RowKey, counts: DeliveryCounts) -> None:
        """Count this delivery under `key` from now on."""
        found = self._tracked.get(id(counts))
        if found is None:
            self._tracked[id(counts)] = _TrackedCounts(key, counts)
        elif found.key != key:
            self._add(self._changed, found)
            found.key = key

    def rows(self, active: Collection[int]) -> Iterator[dict[str, object] | None]:
        """Yield the fields of one row for each key with increments, and None where other work may run.

        `active` are the ids of the counts of current deliveries; the others are forgotten.
        """
        totals, numbers = dict(self._changed), Counter[RowKey]()
        self._changed.clear()
        for number, (identity, each) in enumerate(list(self._tracked.items()), 1):
            self._add(totals, each)
            if identity in active:
                numbers[each.key] += 1
            else:
                self._tracked.pop(identity, None)
            if not number % _BATCH:
                yield None
        for key, events in totals.items():
            yield {**_fields(key), "subscriptions": numbers[key], "events": dict(events)}

    @staticmethod
    def _add(totals: dict[RowKey, Counter[str]], each: _TrackedCounts) -> None:
        if increments := each.increments():
            totals.setdefault(each.key, Counter()).update(increments)


def _fields(key: RowKey) -> dict[str, object]:
    return {**key._asdict(), "streams": list(key.streams)}
