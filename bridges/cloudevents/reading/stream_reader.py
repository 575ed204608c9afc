"""One subscription's reader of one stream: reads from its positions while its queue accepts events."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Final, Protocol

from bridges.cloudevents.delivery.checkpoint import StreamPosition
from bridges.cloudevents.delivery.entry import EventLocation
from bridges.cloudevents.delivery.positions import Position
from bridges.cloudevents.delivery.queue import DeliveryQueue
from bridges.cloudevents.events.event import CloudEvent
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


class EventStreamListener(Hashable, Protocol):
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


def with_unfinished(following: StreamPosition, address: str, queue: DeliveryQueue) -> StreamPosition:
    """The progress in a stream: what is read next, and the events in the queue that are not finished."""
    found = {}
    for number, position in following.positions.items():
        unfinished = queue.unfinished(address, number)
        both = sorted({*position.unfinished, *unfinished}) if position.unfinished else unfinished
        found[number] = position._replace(unfinished=tuple(both)) if unfinished else position
    return following._replace(positions=found)


class PartitionCursor:
    """The position in one partition; `unfinished` are earlier offsets that must be read first, ascending."""

    __slots__ = ("next", "unfinished")

    def __init__(self, position: Position) -> None:
        self.next = position.next
        self.unfinished: Sequence[int] = position.unfinished


class EventStreamReader:
    """Reads a topic for one queue, in steps (`read`)."""

    __slots__ = (
        "_address", "_identity", "_is_parked", "_listener", "_log", "_partitions", "_queue", "_quiet_reads_left",
        "_ready", "_refetch_reader", "_tail", "_tap", "_topic",
    )  # fmt: skip

    def __init__(
        self,
        address: str,
        log: TopicLog,
        topic: Topic,
        start: StreamPosition,
        queue: DeliveryQueue,
        listener: EventStreamListener,
        tail: SharedTail,
    ) -> None:
        """`tail` finds the events of `listener` while this reader is parked."""
        self._address: Final = address
        self._log: Final = log
        self._topic: Final = topic
        self._tail: Final = tail
        self._is_parked = False
        self._quiet_reads_left = 0
        self._queue: Final = queue
        self._listener: Final = listener
        self._identity: Final = identity_of(topic)
        found = start.positions if start.identity == self._identity else {}
        self._partitions: Final = [
            PartitionCursor(found.get(number, Position(0))) for number in range(topic.partitions)
        ]
        self._ready: dict[int, None] = self._all()
        self._tap: Final = log.tap(topic, self)
        self._refetch_reader: RefetchReader | None = None
        """None until an event is read again."""

    def _all(self) -> dict[int, None]:
        return dict.fromkeys(range(len(self._partitions)))

    def position(self) -> StreamPosition:
        """The subscription's progress in this stream."""
        return with_unfinished(self.next_position(), self._address, self._queue)

    def next_position(self) -> StreamPosition:
        """What it reads next: `position` without the events that the queue has, by which another reader continues."""
        return StreamPosition(self._identity, {number: self._next_in(number) for number in self._all()})

    def _next_in(self, number: int) -> Position:
        cursor = self._partitions[number]
        following = self._tail.position(self._listener, number) if self._is_parked else cursor.next
        return Position(following, tuple(cursor.unfinished))

    def read(self, now: float, most: int) -> bool:
        """Offer the matching events among up to `most` records; returns whether more may be available."""
        if self._refetch_reader is not None:
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
        if any(cursor.unfinished for cursor in self._partitions):
            return
        if self._quiet_reads_left:
            self._quiet_reads_left -= has_read
            return
        positions = {number: cursor.next for number, cursor in enumerate(self._partitions)}
        if self._tail.park(self._listener, self, positions):
            self._is_parked, self._ready = True, {}
            for number in positions:
                self._tap.leave(number)

    def unpark(self, positions: Mapping[int, int]) -> None:
        """See `ParkedReader`."""
        self._is_parked, self._quiet_reads_left = False, _QUIET_READS
        for number, offset in positions.items():
            self._partitions[number].next = offset
        self._ready.update(self._all())
        self._listener.wake()

    def on_tail_advanced(self) -> None:
        """See `ParkedReader`."""
        self._listener.on_position_advanced()

    def _release_batches(self) -> None:
        """Release the batches in memory; reading resumes when the queue accepts events."""
        for number in self._all():
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
        count = bisect_left(cursor.unfinished, end)
        for offset in cursor.unfinished[:count]:
            record = record_at(records, offset)
            if record is not None:
                self._offer(record, now)
        cursor.unfinished = cursor.unfinished[count:]
        return count

    def _offer(self, record: KafkaRecord, now: float) -> None:
        event = self._listener.event_of(record, self._address)
        if event is not None and self._listener.matches(event):
            self._queue.offer(event, size_of(event), now, again=True)

    def refetch(self, locations: Sequence[EventLocation]) -> None:
        """Read the events at these locations again."""
        if self._refetch_reader is None:
            self._refetch_reader = RefetchReader(self._address, self._log, self._topic, self._queue, self._listener)
        self._refetch_reader.request(locations)

    def close(self) -> None:
        """Stop reading."""
        if self._is_parked:
            self._tail.leave(self._listener)
        self._tap.close()
        if self._refetch_reader is not None:
            self._refetch_reader.close()

    # -- from the tap

    def on_records(self, partition: int) -> None:
        """See `TapListener`."""
        self._ready[partition] = None
        self._listener.wake()

    def on_truncated(self, partition: int, low: int) -> None:
        """See `TapListener`: continue at the oldest event."""
        cursor = self._partitions[partition]
        gone = bisect_left(cursor.unfinished, low)
        lost = max(0, low - cursor.next) + self._queue.discard_before(self._address, partition, low) + gone
        cursor.next = max(cursor.next, low)
        cursor.unfinished = cursor.unfinished[gone:]
        self._listener.on_lost(lost)
        self.on_records(partition)

    def on_failed(self, error: AmqpError) -> None:
        """See `TapListener`."""
        self._listener.on_stream_failed(self._address)

    def on_partitions_added(self, partitions: int) -> None:
        """See `TapListener`: new partitions are read from their start (KM-9)."""
        if self._is_parked:
            self.unpark(self._tail.leave(self._listener))
        for number in range(len(self._partitions), partitions):
            self._partitions.append(PartitionCursor(Position(0)))
            self._ready[number] = None
        self._listener.wake()

    def on_topic_gone(self) -> None:
        """See `TapListener`."""
        self._listener.on_topic_replaced(self._address)
