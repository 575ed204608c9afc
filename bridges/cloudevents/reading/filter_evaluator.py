"""Finds the subscriptions whose filters match the events of a batch, once for all that read it (docs/decisions/0023).

The first subscription that reads a batch evaluates its own filter, since it may be the only reader. When a second one
reads it, the index evaluates the batch for all subscriptions, piece by piece; further readers use that result. Those
that are newer than the result, or behind it, evaluate their own filters, but decode no event again.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial
from operator import attrgetter
from typing import Final, Protocol

from bridges.cloudevents.events.event import CloudEvent
from bridges.cloudevents.events.filter import EventFilter
from bridges.cloudevents.events.index import FilterIndex
from bridges.kafka.consume.batches import FetchedBatch
from bridges.kafka.records.record import KafkaRecord

_BATCHES: Final = 16
"""Maximum number of batches whose results are kept."""
_MOST: Final = 2 * 2**20
"""Bytes of decoded events above which the oldest results are given up."""
_ATTRIBUTES: Final = 1024
"""Bytes that an event counts besides the value of its record."""
_offset: Final = attrgetter("offset")
EventOf = Callable[[KafkaRecord, str], CloudEvent | None]
"""`events.event.event_of`: the event of a record of the stream at an address; None if it is not an event."""


class EventReader(Hashable, Protocol):
    """A subscription that reads a stream."""

    def matches(self, event: CloudEvent) -> bool:
        """Whether its filter matches the event."""


class BatchMatches:
    """The events of one batch by subscription, evaluated from the record `first` as far as they were requested."""

    def __init__(
        self,
        records: Sequence[KafkaRecord],
        serial: int,
        first: int,
        event_of: Callable[[KafkaRecord], CloudEvent | None],
    ) -> None:
        """`serial`: the number of the last subscription that the result includes."""
        self.serial: Final = serial
        self.first: Final = first
        self._records: Final = records
        self._event_of: Final = event_of
        self._events: Final[dict[int, CloudEvent | None]] = {}
        """By the index of the record."""
        self.size = 0
        """Bytes of the decoded events."""
        self._evaluated = first
        self._matches: Final[dict[EventReader, list[CloudEvent]]] = {}

    def event(self, at: int) -> CloudEvent | None:
        """The event of the record at an index; None if it is not an event."""
        if at in self._events:
            return self._events[at]
        record = self._records[at]
        found = self._events[at] = self._event_of(record)
        self.size += len(record) + _ATTRIBUTES
        return found

    def matching(
        self, reader: EventReader, first: int, stop: int, index: FilterIndex[EventReader]
    ) -> list[CloudEvent]:
        """The events for `reader` among the records from index `first` up to, but not including, `stop`."""
        for at in range(self._evaluated, stop):
            event = self.event(at)
            for matching in () if event is None else index.matching(event):
                self._matches.setdefault(matching, []).append(event)  # type: ignore[arg-type]
        self._evaluated = max(self._evaluated, stop)
        found = self._matches.get(reader)
        if found is None or first >= stop:
            return []
        low, high = self._records[first].offset(), self._records[stop - 1].offset()
        return found[bisect_left(found, low, key=_offset) : bisect_left(found, high + 1, key=_offset)]


class SharedFilterEvaluator:
    """The filters of a manager's subscriptions that this process delivers, by stream."""

    def __init__(self, event_of: EventOf) -> None:
        self._event_of: Final = event_of
        self._indexes: Final[dict[str, FilterIndex[EventReader]]] = {}
        self._serials: Final[dict[str, dict[EventReader, int]]] = {}
        self._count: Final = itertools.count(1)
        self._last = 0
        self._batches: Final[OrderedDict[tuple[str, FetchedBatch], BatchMatches | EventReader]] = OrderedDict()

    def __len__(self) -> int:
        """The number of pairs of a subscription and a stream."""
        return sum(map(len, self._indexes.values()))

    def add(self, address: str, reader: EventReader, filter: EventFilter) -> None:
        """Add `reader` to the stream at `address`."""
        self._indexes.setdefault(address, FilterIndex()).add(reader, filter)
        self._last = next(self._count)
        self._serials.setdefault(address, {})[reader] = self._last

    def readers_of(self, address: str, event: CloudEvent) -> Iterable[EventReader]:
        """The readers of the stream at `address` whose filters match an event."""
        index = self._indexes.get(address)
        return () if index is None else index.matching(event)

    def filters(self) -> dict[str, int]:
        """The number of different filters of all streams: `indexed`, `unindexed` and `every` (no condition)."""
        total = Counter(dict.fromkeys(("indexed", "unindexed", "every"), 0))
        for index in self._indexes.values():
            total.update(index.sizes())
        return dict(total)

    def remove(self, address: str, reader: EventReader) -> None:
        """Remove `reader` from that stream."""
        index = self._indexes[address]
        index.remove(reader)
        del self._serials[address][reader]
        if not len(index):
            del self._indexes[address], self._serials[address]
        self._batches.clear()  # releases the events that only this reader matches

    def matching(
        self, address: str, batch: FetchedBatch, reader: EventReader, first: int, stop: int
    ) -> Iterable[CloudEvent]:
        """The events of a part of a batch that match the filter of `reader`; lazy while it is the only reader."""
        shared, records = self._shared_matches(address, batch, reader, first), batch.records
        if shared is not None and shared.serial >= self._serials[address][reader] and shared.first <= first:
            return shared.matching(reader, first, stop, self._indexes[address])
        if shared is not None:
            events = (shared.event(at) for at in range(first, stop))
        else:
            events = (self._event_of(records[at], address) for at in range(first, stop))
        return (event for event in events if event is not None and reader.matches(event))

    def _shared_matches(
        self, address: str, batch: FetchedBatch, reader: EventReader, first: int
    ) -> BatchMatches | None:
        """The shared result of a batch; None while it has one reader."""
        if len(self._indexes[address]) < 2:
            return None
        known = self._batches.get((address, batch))
        if known is None:
            self._batches[address, batch] = reader
            if len(self._batches) > _BATCHES:
                self._batches.popitem(last=False)
        elif isinstance(known, BatchMatches):
            return known
        elif known is not reader:
            self._make_room()
            made = BatchMatches(batch.records, self._last, first, partial(self._event_at, address))
            self._batches[address, batch] = made
            return made
        return None

    def _make_room(self) -> None:
        """Give up the oldest results while they hold much: a batch that is read again is decoded again."""
        while len(self._batches) > 1 and sum(map(_size, self._batches.values())) > _MOST:
            self._batches.popitem(last=False)

    def _event_at(self, address: str, record: KafkaRecord) -> CloudEvent | None:
        return self._event_of(record, address)


def _size(known: BatchMatches | EventReader) -> int:
    return known.size if isinstance(known, BatchMatches) else 0
