"""Rows of the journal about pushed events: counts by owner and place, taken from the subscriptions' own (pure).

Nothing is counted per event for the journal: each row has what the counts of its subscriptions have grown by.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from typing import Final, NamedTuple

from bridges.cloudevents.delivery.counts import DeliveryCounts
from bridges.cloudevents.reading.subscription import PushedSubscription
from gateway.observability.redaction import redact

_LOT: Final = 100
"""Subscriptions that are looked at in one turn of the loop."""


class PushKind(NamedTuple):
    """The fields that subscriptions of one row have in common."""

    user: str
    protocol: str
    sink: str
    """Scheme, host and port, or the address of a sink in the scope: paths may contain secrets of their owners."""
    streams: tuple[str, ...]


def kind_of(subscription: PushedSubscription, streams: Collection[str]) -> PushKind:
    """The row of a subscription that reads these streams."""
    sink = subscription.sink
    place = sink.origin if sink.hosts else redact(sink.text)
    return PushKind(subscription.owner, subscription.protocol.value, place, tuple(streams))


class _Followed:
    """One subscription with what is counted already."""

    __slots__ = ("before", "counts", "kind")

    def __init__(self, kind: PushKind, counts: DeliveryCounts) -> None:
        self.kind = kind
        self.counts: Final = counts
        self.before = counts.by_name()

    def grown(self) -> dict[str, int]:
        """What was counted since the last call."""
        now, before = self.counts.by_name(), self.before
        self.before = now
        return {name: number - before[name] for name, number in now.items() if number > before[name]}


class PushRows:
    """Follows the counts of deliveries, and makes rows of them."""

    def __init__(self) -> None:
        self._followed: Final[dict[int, _Followed]] = {}
        self._changed: Final[dict[PushKind, Counter[str]]] = {}
        """Counts of subscriptions whose kind has changed since the last rows."""

    def follow(self, kind: PushKind, counts: DeliveryCounts) -> None:
        """Count this delivery under `kind` from now on."""
        found = self._followed.get(id(counts))
        if found is None:
            self._followed[id(counts)] = _Followed(kind, counts)
        elif found.kind != kind:
            self._add(self._changed, found)
            found.kind = kind

    def rows(self, kept: Collection[int]) -> Iterator[dict[str, object] | None]:
        """The fields of a row for each place that was sent something; None: a pause for other work.

        `kept` are the ids of the counts of deliveries that go on; the others are forgotten.
        """
        totals, numbers = dict(self._changed), Counter[PushKind]()
        self._changed.clear()
        for number, (key, each) in enumerate(list(self._followed.items()), 1):
            self._add(totals, each)
            if key in kept:
                numbers[each.kind] += 1
            else:
                self._followed.pop(key, None)
            if not number % _LOT:
                yield None
        for kind, events in totals.items():
            yield {**_fields(kind), "subscriptions": numbers[kind], "events": dict(events)}

    @staticmethod
    def _add(totals: dict[PushKind, Counter[str]], each: _Followed) -> None:
        if grown := each.grown():
            totals.setdefault(each.kind, Counter()).update(grown)


def _fields(kind: PushKind) -> dict[str, object]:
    return {**kind._asdict(), "streams": list(kind.streams)}
