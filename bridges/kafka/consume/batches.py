"""Fetched records of a partition that are still in memory, shared by all links that read it (KM-16).

A batch is a run of consecutive records. A link takes the events that its filter selects from the batch at its position;
a record is encoded once, for the first link that gets it. If no batch has its position, the link waits.
`fetch_scheduler` decides what is fetched. Pure: no Kafka client, no clock, no thread.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from bridges.kafka.consume._fetch import Run
from bridges.kafka.consume.protocols import FilterSelection, Selection, Waiter
from bridges.kafka.consume.selection import SharedFilterPass
from bridges.kafka.records.event import EncodedEvent
from bridges.kafka.records.fast_encode import EventEncoder
from bridges.kafka.records.record import KafkaRecord
from bridges.kafka.records.ttl import ttl

_OVERHEAD: Final = 512
"""Bytes of a record beside its value, roughly: the client's object and the annotations of the encoded event."""
_MAX_FOR_ONE_LINK: Final = 4
"""Batches that are retained of a partition which only one link reads."""
_NO_POSITION: Final = 1 << 63
"""The position of a link before its first credit: no batch is retained for it."""


class BatchSource(Protocol):
    """The fetch position that read a batch, and which pauses until links take its batches."""

    def taken(self, batch: FetchedBatch) -> None: ...


class FetchedBatch:
    """The records with offsets from `start` up to, but not including, `end`; the log may have gaps between them."""

    __slots__ = ("_events", "_selected", "buffer", "end", "has_ttl", "records", "size", "source", "start")

    def __init__(
        self,
        buffer: PartitionBuffer,
        start: int,
        end: int,
        records: Sequence[KafkaRecord],
        source: BatchSource | None = None,
    ) -> None:
        self.buffer: Final = buffer
        self.start: Final = start
        self.end: Final = end
        self.records: Final = records
        self.size: Final = 2 * _bytes(records) + _OVERHEAD * (len(records) + 1)
        self.source = source
        self.has_ttl = False
        """Whether an event encoded so far has a ttl."""
        self._events: list[EncodedEvent] | None = None
        self._selected: Final[dict[Selection, list[EncodedEvent]]] = {}

    @property
    def routed(self) -> bool:
        """See `Batch`."""
        return self.buffer.encoder.routed

    def selected(self, selection: Selection | None) -> list[EncodedEvent]:
        """See `Batch`."""
        if selection is None:
            return self.events()
        if selection not in self._selected:
            self.buffer.select(selection, self, self._selected)
        return self._selected[selection]

    def events(self) -> list[EncodedEvent]:
        """See `Batch`."""
        if self._events is None:
            self._events, limited = self.buffer.encoder.events(self.records, self.buffer.partition)
            self.has_ttl = self.has_ttl or any(ttl(data) is not None for data in limited)
        return self._events

    def count(self, start: int, end: int) -> int:
        """The number of records with offsets from `start` up to `end`."""
        if start <= self.start and end >= self.end:
            return len(self.records)
        first, last = (bisect_left(self.records, at, key=_offset) for at in (start, end))
        return last - first

    def event(self, record: KafkaRecord) -> EncodedEvent:
        """See `Batch`."""
        event = self.buffer.encoder.event(record, self.buffer.partition)
        self.has_ttl = self.has_ttl or ttl(event.data) is not None
        return event


def _bytes(records: Sequence[KafkaRecord]) -> int:
    """Bytes of all values."""
    return records.size if isinstance(records, Run) else sum(map(len, records))


def _offset(record: KafkaRecord) -> int:
    return record.offset()


class BatchCache:
    """Batches that at least one link has taken, up to `limit` bytes; the least recently used are evicted."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._batches: Final[OrderedDict[FetchedBatch, None]] = OrderedDict()
        self.size = 0

    def use(self, batch: FetchedBatch) -> None:
        """A link has taken `batch`; older ones may be evicted."""
        if batch in self._batches:
            self._batches.move_to_end(batch)
            return
        self._batches[batch] = None
        self.size += batch.size
        self._evict()

    def limit(self, limit: int) -> None:
        """Change the limit, in bytes."""
        self._limit = limit
        self._evict()

    def _evict(self) -> None:
        while self.size > self._limit and len(self._batches) > 1:
            oldest, _ = self._batches.popitem(last=False)
            self.size -= oldest.size
            oldest.buffer.forget(oldest)

    def drop(self, batch: FetchedBatch) -> None:
        """Remove a batch that no link needs any more."""
        if batch in self._batches:
            del self._batches[batch]
            self.size -= batch.size


class PartitionBuffer:
    """One partition: its batches in memory, the links that read it, and the positions at which links wait."""

    __slots__ = (
        "_batches",
        "_cache",
        "_changed",
        "_filter_pass",
        "_filters",
        "_request",
        "_starts",
        "_unfiltered",
        "encoder",
        "key",
        "members",
        "partition",
        "topic",
        "waiting",
    )  # fmt: skip

    def __init__(
        self,
        topic: str,
        partition: int,
        cache: BatchCache,
        request: Callable[[PartitionBuffer, int], None],
        changed: Callable[[PartitionBuffer], None] = lambda _: None,
    ) -> None:
        """`request` is called with the position at which a link begins to wait, `changed` after `is_whole` has."""
        self.topic: Final = topic
        self.partition: Final = partition
        self.key: Final = (topic, partition)
        self.encoder: Final = EventEncoder()
        self.members: Final[dict[Waiter, int]] = {}
        """The links that read the partition, and the position of the last batch that each took."""
        self.waiting: Final[dict[int, dict[Waiter, None]]] = {}
        self._filters: Final[Counter[FilterSelection]] = Counter()
        self._filter_pass: SharedFilterPass | None = None
        self._unfiltered = 0
        self._changed: Final = changed
        self._cache: Final = cache
        self._request: Final = request
        self._starts: Final[list[int]] = []
        self._batches: Final[dict[int, FetchedBatch]] = {}

    def join(self, waiter: Waiter) -> None:
        """Add a link that reads the partition."""
        self.members[waiter] = _NO_POSITION

    @property
    def low_watermark(self) -> int:
        """The lowest position of a link: no link needs the offsets before it."""
        return min(self.members.values(), default=_NO_POSITION)

    # The shared pass exists while there are several filters; a link that joins or leaves adds or removes only its own.

    def add_selection(self, selection: Selection | None) -> None:
        """A link with this selection has joined."""
        key = None if selection is None else selection.shared_key()
        if key is None:
            self._add_unfiltered(1)
            return
        self._filters[key] += 1
        if self._filters[key] == 1 and self._filter_pass is not None:
            self._filter_pass.add(key)

    def remove_selection(self, selection: Selection | None) -> None:
        """A link with this selection has left."""
        key = None if selection is None else selection.shared_key()
        if key is None:
            self._add_unfiltered(-1)
            return
        self._filters[key] -= 1
        if self._filters[key] > 0:
            return
        del self._filters[key]
        if len(self._filters) <= 1:
            self._filter_pass = None
        elif self._filter_pass is not None:
            self._filter_pass.remove(key)

    @property
    def is_whole(self) -> bool:
        """Whether a link gets every event."""
        return self._unfiltered > 0

    def _add_unfiltered(self, count: int) -> None:
        before = self.is_whole
        self._unfiltered += count
        if self.is_whole is not before:
            self._changed(self)

    def select(
        self, selection: Selection, batch: FetchedBatch, selected: dict[Selection, list[EncodedEvent]]
    ) -> None:
        """Add the events of `selection` to `selected`, and those of other selections that the same pass evaluates."""
        if selection not in self._filters or len(self._filters) == 1:
            selected[selection] = selection.select(batch)
            return
        if self._filter_pass is None:
            self._filter_pass = SharedFilterPass(self._filters)
        selected.update(self._filter_pass.select(batch))

    def take(self, position: int, waiter: Waiter) -> FetchedBatch | None:
        """The batch that has `position`; None: `waiter.arrived` is called when there is one."""
        self.members[waiter] = position
        batch = self.find(position)
        if batch is None:
            self.waiting.setdefault(position, {})[waiter] = None
            self._request(self, position)
            return None
        self._cache.use(batch)
        if batch.source is not None:
            source, batch.source = batch.source, None
            source.taken(batch)
            if len(self.members) == 1:
                self._forget_before(position)
        return batch

    def _forget_before(self, position: int) -> None:
        """Drop what the only link has passed, while it is still in the processor's caches."""
        while len(self._starts) > _MAX_FOR_ONE_LINK:
            oldest = self._batches[self._starts[0]]
            if oldest.end > position or oldest.source is not None:
                return
            self._cache.drop(oldest)
            self.forget(oldest)

    @property
    def batch_count(self) -> int:
        """The number of batches in memory."""
        return len(self._starts)

    def find(self, position: int) -> FetchedBatch | None:
        """The batch in memory that has `position`."""
        index = bisect_right(self._starts, position)
        batch = self._batches[self._starts[index - 1]] if index else None
        return batch if batch is not None and position < batch.end else None

    def add(self, batch: FetchedBatch) -> None:
        """Add a fetched batch, and notify the links that wait for it."""
        old = self._batches.get(batch.start)
        if old is None:
            insort(self._starts, batch.start)
        elif old.source is not None:
            old.source.taken(old)
        else:
            self._cache.drop(old)
        self._batches[batch.start] = batch
        for position in [offset for offset in self.waiting if batch.start <= offset < batch.end]:
            for waiter in self.waiting.pop(position, {}):
                waiter.arrived(self.partition)

    def requeue(self, position: int) -> None:
        """Move the links that wait at `position` behind those at other positions, because they have had a turn."""
        if position in self.waiting:
            self.waiting[position] = self.waiting.pop(position)

    def skip_deleted(self, position: int, low: int) -> None:
        """KM-8: links that wait at `position`, or before `low`, continue at `low`: earlier events were deleted."""
        for offset in [offset for offset in self.waiting if offset == position or offset < low]:
            for waiter in self.waiting.pop(offset, {}):
                waiter.lost(self.partition, low)

    def forget(self, batch: FetchedBatch) -> None:
        """Remove a batch that the cache has dropped."""
        if self._batches.get(batch.start) is batch:
            del self._batches[batch.start]
            del self._starts[bisect_right(self._starts, batch.start) - 1]

    def truncate(self, low: int) -> None:
        """Drop the events before `low`, which were deleted from the log.

        A link that is still before `low` asks Kafka, and learns that they are deleted (KM-8).
        """
        for batch in [self._batches[start] for start in self._starts[: bisect_left(self._starts, low)]]:
            if batch.source is not None:
                source, batch.source = batch.source, None
                source.taken(batch)
            self._cache.drop(batch)
            self.forget(batch)

    def clear(self) -> None:
        """Drop everything: the last link has left."""
        for batch in self._batches.values():
            self._cache.drop(batch)
        self._batches.clear()
        self._starts.clear()
        self.waiting.clear()

    def leave(self, waiter: Waiter, position: int) -> None:
        """Remove a link; `position` is where it may have waited."""
        self.members.pop(waiter, None)
        waiters = self.waiting.get(position)
        if waiters is not None:
            waiters.pop(waiter, None)
            if not waiters:
                del self.waiting[position]
