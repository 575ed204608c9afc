"""One subscription's reader of one stream: reads from its positions while its queue accepts events."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol

from bridges.cloudevents.delivery.checkpoint import StreamPosition
from bridges.cloudevents.delivery.entry import EventLocation
from bridges.cloudevents.delivery.positions import Position
from bridges.cloudevents.delivery.queue import DeliveryQueue
from bridges.cloudevents.events.event import CloudEvent
from bridges.cloudevents.events.filter import EventFilter
from bridges.cloudevents.reading.records import offset_of, record_at, size_of
from bridges.cloudevents.reading.refetch_reader import RefetchReader
from bridges.cloudevents.reading.shared_tail import SharedTail
from bridges.kafka.admin.client import Topic
from bridges.kafka.consume.batches import FetchedBatch
from bridges.kafka.records.record import KafkaRecord
from bridges.kafka.tap import TopicLog, identity_of
from gateway.errors import AmqpError

_RECORDS_AT_ONCE: Final = 200
"""Number of records of a batch that are evaluated at once."""
_QUIET_READS: Final = 2
"""Number of reads without a matching event after which a reader that had one is parked."""


class EventStreamListener(Protocol):
    """The subscription that the reader reads for."""

    def event_of(self, record: KafkaRecord, address: str) -> CloudEvent | None:
        """The event of a record; None if it is not an event."""

    def matches(self, event: CloudEvent) -> bool:
        """Whether the subscription's filter matches the event."""

    def matching(self, address: str, batch: FetchedBatch, first: int, stop: int) -> Iterable[CloudEvent]:
        """The events of these records of a batch that match the filter."""

    def on_lost(self, count: int) -> None:
        """`count` offsets were deleted before they were read."""

    def wake(self) -> None:
        """Schedule a call of `read`."""

    def on_position_advanced(self) -> None:
        """The position has advanced without a call of `read`."""

    def on_stream_failed(self, address: str) -> None:
        """The stream cannot be read for now."""

    def on_topic_replaced(self, address: str) -> None:
        """The topic was deleted or recreated."""


class PartitionCursor:
    """The position in one partition; `unfinished` are earlier offsets that must be read first."""

    __slots__ = ("next", "unfinished")

    def __init__(self, position: Position) -> None:
        self.next = position.next
        self.unfinished: Final = deque(position.unfinished)


class EventStreamReader:
    """Reads a topic for one queue, in steps (`read`)."""

    def __init__(
        self,
        address: str,
        log: TopicLog,
        topic: Topic,
        start: StreamPosition,
        queue: DeliveryQueue,
        listener: EventStreamListener,
        tail: SharedTail,
        wanted: EventFilter,
    ) -> None:
        """`wanted` is the filter by which the tail finds events while this reader is parked."""
        self._address: Final = address
        self._tail: Final = tail
        self._wanted: Final = wanted
        self._is_parked = False
        self._quiet_reads_left = 0
        self._queue: Final = queue
        self._listener: Final = listener
        self._identity: Final = identity_of(topic)
        found = start.positions if start.identity == self._identity else {}
        self._partitions: Final = {
            number: PartitionCursor(found.get(number, Position(0))) for number in range(topic.partitions)
        }
        self._ready: Final[dict[int, None]] = dict.fromkeys(self._partitions)
        self._tap: Final = log.tap(topic, self)
        self._refetch_reader: Final = RefetchReader(address, log, topic, queue, listener)

    def position(self) -> StreamPosition:
        """The subscription's progress in this stream."""
        return StreamPosition(self._identity, {number: self._position_in(number) for number in self._partitions})

    def _position_in(self, number: int) -> Position:
        cursor = self._partitions[number]
        unfinished = self._queue.unfinished(self._address, number)
        return Position(
            self._tail.position(self, number) if self._is_parked else cursor.next,
            tuple(sorted({*cursor.unfinished, *unfinished}) if cursor.unfinished else unfinished)
        )

    def read(self, now: float, most: int) -> bool:
        """Offer the matching events among up to `most` records; returns whether more may be available."""
        self._refetch_reader.read()
        if self._is_parked:
            return False
        if self._queue.is_blocked and not self._queue.accepts_more:
            self._release_batches()
            return False
        left = most
        while most > 0 and self._ready:
            number = next(iter(self._ready))
            cursor = self._partitions[number]
            if not (cursor.unfinished or self._queue.is_low):
                return False
            del self._ready[number]
            batch = self._tap.take(number, cursor.unfinished[0] if cursor.unfinished else cursor.next)
            if batch is not None:
                self._ready[number] = None
                most -= 1 + self._evaluate(cursor, batch, now)
        if not self._ready:
            self._park_if_quiet(has_read=most < left)
        return most <= 0

    def _park_if_quiet(self, *, has_read: bool) -> None:
        """Everything was read: let the tail read on, unless there was a matching event lately."""
        if any(cursor.unfinished for cursor in self._partitions.values()):
            return
        if self._quiet_reads_left:
            self._quiet_reads_left -= has_read
        elif self._tail.park(self, self._wanted, {each: cursor.next for each, cursor in self._partitions.items()}):
            self._is_parked = True
            for number in self._partitions:
                self._tap.leave(number)

    def unpark(self, positions: Mapping[int, int]) -> None:
        """See `ParkedReader`."""
        self._is_parked, self._quiet_reads_left = False, _QUIET_READS
        for number, offset in positions.items():
            self._partitions[number].next = offset
        self._ready.update(dict.fromkeys(self._partitions))
        self._listener.wake()

    def on_tail_advanced(self) -> None:
        """See `ParkedReader`."""
        self._listener.on_position_advanced()

    def _release_batches(self) -> None:
        """Release the batches in memory; reading resumes when the queue accepts events."""
        for number in self._partitions:
            self._tap.leave(number)
            self._ready[number] = None

    def _evaluate(self, cursor: PartitionCursor, batch: FetchedBatch, now: float) -> int:
        """Offer the matching events of a part of a batch; returns the number of records that it looked at."""
        records = batch.records
        if cursor.unfinished:
            return self._offer_unfinished(cursor, records, batch.end, now)
        first = bisect_left(records, cursor.next, key=offset_of)
        stop = min(len(records), first + _RECORDS_AT_ONCE)
        for event in self._listener.matching(self._address, batch, first, stop):
            if not self._queue.accepts_more:
                cursor.next = event.offset
                return bisect_left(records, event.offset, first, stop, key=offset_of) - first
            self._queue.offer(event, size_of(event), now)
            self._quiet_reads_left = _QUIET_READS
        cursor.next = records[stop].offset() if stop < len(records) else batch.end
        return stop - first

    def _offer_unfinished(self, cursor: PartitionCursor, records: Sequence[KafkaRecord], end: int, now: float) -> int:
        """Offer the unfinished events before any newer ones, which may have to wait for them."""
        count = 0
        while cursor.unfinished and cursor.unfinished[0] < end:
            record = record_at(records, cursor.unfinished[0])
            if record is not None:
                self._offer(record, now)
            cursor.unfinished.popleft()
            count += 1
        return count

    def _offer(self, record: KafkaRecord, now: float) -> None:
        event = self._listener.event_of(record, self._address)
        if event is not None and self._listener.matches(event):
            self._queue.offer(event, size_of(event), now)

    def refetch(self, locations: Sequence[EventLocation]) -> None:
        """Read the events at these locations again."""
        self._refetch_reader.request(locations)

    def close(self) -> None:
        """Stop reading."""
        if self._is_parked:
            self._tail.leave(self)
        self._tap.close()
        self._refetch_reader.close()

    # -- from the tap

    def on_records(self, partition: int) -> None:
        """See `TapListener`."""
        self._ready[partition] = None
        self._listener.wake()

    def on_truncated(self, partition: int, low: int) -> None:
        """See `TapListener`: continue at the oldest event."""
        cursor = self._partitions[partition]
        lost = max(0, low - cursor.next) + self._queue.discard_before(self._address, partition, low)
        cursor.next = max(cursor.next, low)
        while cursor.unfinished and cursor.unfinished[0] < low:
            cursor.unfinished.popleft()
            lost += 1
        self._listener.on_lost(lost)
        self.on_records(partition)

    def on_failed(self, error: AmqpError) -> None:
        """See `TapListener`."""
        self._listener.on_stream_failed(self._address)

    def on_partitions_added(self, partitions: int) -> None:
        """See `TapListener`: new partitions are read from their start (KM-9)."""
        if self._is_parked:
            self.unpark(self._tail.leave(self))
        for number in range(len(self._partitions), partitions):
            self._partitions[number] = PartitionCursor(Position(0))
            self._ready[number] = None
        self._listener.wake()

    def on_topic_gone(self) -> None:
        """See `TapListener`."""
        self._listener.on_topic_replaced(self._address)
