"""Fetched records of a partition that are still in memory, shared by all links that read it (KM-16).

A batch is a run of consecutive records. A link comes with a position and takes what its filter selects from the batch
that holds it; a record is encoded once, when the first link wants it. A link waits at a position that no batch holds.
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
from gateway.amqp.message.sections import DELIVERY_ANNOTATIONS

_OVERHEAD: Final = 512
"""Bytes that a record costs beside its value, about: the client's object, the annotations of the encoded event."""
_KEPT_FOR_ONE: Final = 4
"""Batches that are kept of a partition which only one link reads."""
_NO_POSITION: Final = 1 << 63
"""Before its first credit a link needs nothing that is fetched for others."""


class BatchSource(Protocol):
    """The fetch position that read a batch, and fetches no further until its batches are taken."""

    def taken(self, batch: FetchedBatch) -> None: ...


class FetchedBatch:
    """Records from offset `start` up to, but not including, `end`; gaps of the log are inside."""

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
        """All records, encoded."""
        if self._events is None:
            self._events, with_header = self.buffer.encoder.events(self.records, self.buffer.partition)
            self.has_ttl = self.has_ttl or any(map(_has_ttl, with_header))
        return self._events

    def count(self, start: int, end: int) -> int:
        """How many records lie from offset `start` up to `end`."""
        if start <= self.start and end >= self.end:
            return len(self.records)
        first, last = (bisect_left(self.records, at, key=_offset) for at in (start, end))
        return last - first

    def event(self, record: KafkaRecord) -> EncodedEvent:
        """See `Batch`."""
        event = self.buffer.encoder.event(record, self.buffer.partition)
        self.has_ttl = self.has_ttl or _has_ttl(event.data)
        return event


def _bytes(records: Sequence[KafkaRecord]) -> int:
    """Bytes of all values."""
    return records.size if isinstance(records, Run) else sum(map(len, records))


def _offset(record: KafkaRecord) -> int:
    return record.offset()


def _has_ttl(data: bytes) -> bool:
    return data[2] != DELIVERY_ANNOTATIONS and ttl(data) is not None  # it begins with a header


class BatchCache:
    """Batches that were taken, the least recently used first, up to `limit` bytes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._batches: Final[OrderedDict[FetchedBatch, None]] = OrderedDict()
        self.size = 0

    def use(self, batch: FetchedBatch) -> None:
        """A link has just taken `batch`; others may have to go."""
        if batch in self._batches:
            self._batches.move_to_end(batch)
            return
        self._batches[batch] = None
        self.size += batch.size
        self._evict()

    def limit(self, limit: int) -> None:
        """Keep no more bytes than this from now on."""
        self._limit = limit
        self._evict()

    def _evict(self) -> None:
        while self.size > self._limit and len(self._batches) > 1:
            oldest, _ = self._batches.popitem(last=False)
            self.size -= oldest.size
            oldest.buffer.forget(oldest)

    def drop(self, batch: FetchedBatch) -> None:
        """`batch` is of no use any more."""
        if batch in self._batches:
            del self._batches[batch]
            self.size -= batch.size


class PartitionBuffer:
    """One partition: its batches in memory, the links that read it, and the positions that some of them wait at."""

    __slots__ = (
        "_batches",
        "_cache",
        "_filter_pass",
        "_filters",
        "_request",
        "_starts",
        "encoder",
        "key",
        "members",
        "partition",
        "topic",
        "waiting",
    )  # fmt: skip

    def __init__(
        self, topic: str, partition: int, cache: BatchCache, request: Callable[[PartitionBuffer, int], None]
    ) -> None:
        """`request` is called with a position that a link begins to wait at."""
        self.topic: Final = topic
        self.partition: Final = partition
        self.key: Final = (topic, partition)
        self.encoder: Final = EventEncoder()
        self.members: Final[dict[Waiter, int]] = {}
        """The links that read the partition, and the position that each took last."""
        self.waiting: Final[dict[int, dict[Waiter, None]]] = {}
        self._filters: Final[Counter[FilterSelection]] = Counter()
        self._filter_pass: SharedFilterPass | None = None
        self._cache: Final = cache
        self._request: Final = request
        self._starts: Final[list[int]] = []
        self._batches: Final[dict[int, FetchedBatch]] = {}

    def join(self, waiter: Waiter) -> None:
        """`waiter` reads the partition until it leaves."""
        self.members[waiter] = _NO_POSITION

    @property
    def low_watermark(self) -> int:
        """Every link has passed the offsets before this one."""
        return min(self.members.values(), default=_NO_POSITION)

    # A pass over several filters is kept while there are several: a link that comes or goes costs no more than its own.

    def add_selection(self, selection: Selection | None) -> None:
        """A link with this selection has come."""
        key = None if selection is None else selection.shared_key()
        if key is None:
            return
        self._filters[key] += 1
        if self._filters[key] == 1 and self._filter_pass is not None:
            self._filter_pass.add(key)

    def remove_selection(self, selection: Selection | None) -> None:
        """A link with this selection has gone."""
        key = None if selection is None else selection.shared_key()
        if key is None:
            return
        self._filters[key] -= 1
        if self._filters[key] > 0:
            return
        del self._filters[key]
        if len(self._filters) <= 1:
            self._filter_pass = None
        elif self._filter_pass is not None:
            self._filter_pass.remove(key)

    def select(
        self, selection: Selection, batch: FetchedBatch, selected: dict[Selection, list[EncodedEvent]]
    ) -> None:
        """Put into `selected` what `selection` wants, and what others want where one pass serves them all."""
        if selection not in self._filters or len(self._filters) == 1:
            selected[selection] = selection.select(batch)
            return
        if self._filter_pass is None:
            self._filter_pass = SharedFilterPass(self._filters)
        selected.update(self._filter_pass.select(batch))

    def take(self, position: int, waiter: Waiter) -> FetchedBatch | None:
        """The batch that holds `position`; None: `waiter.arrived` is called when there is one."""
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
        """There is only one link: drop what it has passed while it still is in the processor's caches."""
        while len(self._starts) > _KEPT_FOR_ONE:
            oldest = self._batches[self._starts[0]]
            if oldest.end > position or oldest.source is not None:
                return
            self._cache.drop(oldest)
            self.forget(oldest)

    @property
    def batch_count(self) -> int:
        """How many batches are in memory."""
        return len(self._starts)

    def find(self, position: int) -> FetchedBatch | None:
        """The batch in memory that holds `position`."""
        index = bisect_right(self._starts, position)
        batch = self._batches[self._starts[index - 1]] if index else None
        return batch if batch is not None and position < batch.end else None

    def add(self, batch: FetchedBatch) -> None:
        """Keep what was fetched, and notify the links that wait for it."""
        old = self._batches.get(batch.start)
        if old is None:
            insort(self._starts, batch.start)
        elif old.source is not None:
            old.source.taken(old)
        else:
            self._cache.drop(old)
        self._batches[batch.start] = batch
        for position in [at for at in self.waiting if batch.start <= at < batch.end]:
            for waiter in self.waiting.pop(position, {}):
                waiter.arrived(self.partition)

    def requeue(self, position: int) -> None:
        """The links that wait at `position` have had a turn: those at other positions come first."""
        if position in self.waiting:
            self.waiting[position] = self.waiting.pop(position)

    def skip_deleted(self, position: int, low: int) -> None:
        """KM-8: the events before `low` are gone; links that wait at `position`, or before `low`, go on at `low`."""
        for at in [at for at in self.waiting if at == position or at < low]:
            for waiter in self.waiting.pop(at, {}):
                waiter.lost(self.partition, low)

    def forget(self, batch: FetchedBatch) -> None:
        """The cache has dropped `batch`."""
        if self._batches.get(batch.start) is batch:
            del self._batches[batch.start]
            del self._starts[bisect_right(self._starts, batch.start) - 1]

    def truncate(self, low: int) -> None:
        """The events before `low` were deleted from the log: they are not delivered any more.

        A link that was to read there asks Kafka, and learns that they are gone (KM-8).
        """
        for batch in [self._batches[start] for start in self._starts[: bisect_left(self._starts, low)]]:
            if batch.source is not None:
                source, batch.source = batch.source, None
                source.taken(batch)
            self._cache.drop(batch)
            self.forget(batch)

    def clear(self) -> None:
        """The last link has left."""
        for batch in self._batches.values():
            self._cache.drop(batch)
        self._batches.clear()
        self._starts.clear()
        self.waiting.clear()

    def leave(self, waiter: Waiter, position: int) -> None:
        """`waiter` reads the partition no more; `position` is where it may have waited."""
        self.members.pop(waiter, None)
        waiters = self.waiting.get(position)
        if waiters is not None:
            waiters.pop(waiter, None)
            if not waiters:
                del self.waiting[position]
