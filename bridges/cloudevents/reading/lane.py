"""One subscription's reader of one stream: reads from its positions as far as its outlet has room."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from bridges.cloudevents.delivery.entry import Place
from bridges.cloudevents.delivery.mark import StreamPosition
from bridges.cloudevents.delivery.outlet import Outlet
from bridges.cloudevents.delivery.positions import Position
from bridges.cloudevents.events.event import CloudEvent
from bridges.kafka.admin.client import Topic
from bridges.kafka.consume.batches import FetchedBatch
from bridges.kafka.records.record import KafkaRecord
from bridges.kafka.tap import TopicLog, identity_of
from gateway.errors import AmqpError

_PIECE: Final = 200
"""Number of records of a batch that are evaluated at once."""
_OVERHEAD: Final = 512
"""Approximate memory of an event beyond its record's value, in bytes."""


class LaneOwner(Protocol):
    """The subscription that the lane reads for."""

    def event_in(self, record: KafkaRecord, address: str) -> CloudEvent | None:
        """The event of a record; None if it is not an event."""

    def wants(self, event: CloudEvent) -> bool:
        """Whether the subscription's filter matches the event."""

    def wanted(self, address: str, batch: FetchedBatch, first: int, stop: int) -> Iterable[CloudEvent]:
        """The events of these records of a batch that match the filter."""

    def lost(self, count: int) -> None:
        """`count` offsets were deleted before they were read."""

    def wake(self) -> None:
        """Schedule a call of `read`."""

    def failed(self, address: str) -> None:
        """The stream cannot be read for now."""

    def gone(self, address: str) -> None:
        """The topic was deleted or recreated."""


class Partition:
    """The position in one partition; `todo` are offsets before `next` that must be read first."""

    __slots__ = ("next", "todo")

    def __init__(self, position: Position) -> None:
        self.next = position.next
        self.todo: Final = deque(position.undone)


class Lane:
    """Reads a topic for one outlet, in steps (`read`)."""

    def __init__(
        self, address: str, log: TopicLog, topic: Topic, start: StreamPosition, outlet: Outlet, owner: LaneOwner
    ) -> None:
        self._address: Final = address
        self._outlet: Final = outlet
        self._owner: Final = owner
        self._identity: Final = identity_of(topic)
        found = start.positions if start.identity == self._identity else {}
        self._partitions: Final = {
            number: Partition(found.get(number, Position(0))) for number in range(topic.partitions)
        }
        self._ready: Final[dict[int, None]] = dict.fromkeys(self._partitions)
        self._tap: Final = log.tap(topic, self)
        self._again: Final = Rereading(address, log, topic, outlet, owner)

    def position(self) -> StreamPosition:
        """The subscription's progress in this stream."""
        return StreamPosition(self._identity, {number: self._at(number) for number in self._partitions})

    def _at(self, number: int) -> Position:
        part = self._partitions[number]
        undone = self._outlet.undone(self._address, number)
        return Position(part.next, tuple(sorted({*part.todo, *undone}) if part.todo else undone))

    def read(self, now: float, most: int) -> bool:
        """Offer the matching events among up to `most` records; returns whether more may be available."""
        self._again.read()
        if self._outlet.rests and not self._outlet.wants:
            self._rest()
            return False
        while most > 0 and self._ready:
            number = next(iter(self._ready))
            part = self._partitions[number]
            if not part.todo and not self._outlet.wants:
                return False
            del self._ready[number]
            batch = self._tap.take(number, part.todo[0] if part.todo else part.next)
            if batch is not None:
                self._ready[number] = None
                most -= 1 + self._judge(part, batch, now)
        return most <= 0

    def _rest(self) -> None:
        """Release the batches in memory; reading resumes when the outlet has room."""
        for number in self._partitions:
            self._tap.leave(number)
            self._ready[number] = None

    def _judge(self, part: Partition, batch: FetchedBatch, now: float) -> int:
        """Offer the matching events of a part of a batch; returns the number of records that it looked at."""
        records = batch.records
        if part.todo:
            return self._restore(part, records, batch.end, now)
        first = bisect_left(records, part.next, key=_offset)
        stop = min(len(records), first + _PIECE)
        for event in self._owner.wanted(self._address, batch, first, stop):
            if not self._outlet.wants:
                part.next = event.offset
                return bisect_left(records, event.offset, first, stop, key=_offset) - first
            self._outlet.offer(event, size_of(event), now)
        part.next = records[stop].offset() if stop < len(records) else batch.end
        return stop - first

    def _restore(self, part: Partition, records: Sequence[KafkaRecord], end: int, now: float) -> int:
        """Offer the events of `todo` before any newer ones, which may have to wait for them."""
        count = 0
        while part.todo and part.todo[0] < end:
            record = _record_at(records, part.todo[0])
            if record is not None:
                self._offer(record, now)
            part.todo.popleft()
            count += 1
        return count

    def _offer(self, record: KafkaRecord, now: float) -> None:
        event = self._owner.event_in(record, self._address)
        if event is not None and self._owner.wants(event):
            self._outlet.offer(event, size_of(event), now)

    def again(self, places: Sequence[Place]) -> None:
        """Read the events at these places again."""
        self._again.want(places)

    def close(self) -> None:
        """Stop reading."""
        self._tap.close()
        self._again.close()

    # -- from the tap

    def arrived(self, partition: int) -> None:
        """See `TapOwner`."""
        self._ready[partition] = None
        self._owner.wake()

    def lost(self, partition: int, low: int) -> None:
        """See `TapOwner`: continue at the oldest event."""
        part = self._partitions[partition]
        while part.todo and part.todo[0] < low:
            part.todo.popleft()
            self._owner.lost(1)
        if part.next < low:
            self._owner.lost(low - part.next)
            part.next = low
        self.arrived(partition)

    def failed(self, error: AmqpError) -> None:
        """See `TapOwner`."""
        self._owner.failed(self._address)

    def grew(self, partitions: int) -> None:
        """See `TapOwner`: new partitions are read from their start (KM-9)."""
        for number in range(len(self._partitions), partitions):
            self._partitions[number] = Partition(Position(0))
            self._ready[number] = None
        self._owner.wake()

    def gone(self) -> None:
        """See `TapOwner`."""
        self._owner.gone(self._address)


class Rereading:
    """Reads single events of a stream again."""

    def __init__(self, address: str, log: TopicLog, topic: Topic, outlet: Outlet, owner: LaneOwner) -> None:
        self._address: Final = address
        self._outlet: Final = outlet
        self._owner: Final = owner
        self._wanted: Final[dict[int, list[int]]] = {}
        """Offsets by partition, ascending."""
        self._tap: Final = log.tap(topic, self)

    def want(self, places: Sequence[Place]) -> None:
        """Read the events at these places."""
        for place in places:
            self._wanted.setdefault(place.partition, []).append(place.offset)
        for number in {place.partition for place in places}:
            self._wanted[number].sort()

    def read(self) -> None:
        """Hand over the events that are in memory."""
        for number in list(self._wanted):
            while (offsets := self._wanted.get(number)) is not None:
                batch = self._tap.take(number, offsets[0])
                if batch is None:
                    break
                self._found(number, batch.records, batch.end)

    def _found(self, number: int, records: Sequence[KafkaRecord], end: int) -> None:
        offsets = self._wanted[number]
        count = bisect_left(offsets, end)
        for offset in offsets[:count]:
            record = _record_at(records, offset)
            event = None if record is None else self._owner.event_in(record, self._address)
            size = 0 if event is None else size_of(event)
            self._outlet.found(Place(self._address, number, offset), event, size)
        del offsets[:count]
        self._settle(number)

    def _settle(self, number: int) -> None:
        if not self._wanted[number]:
            del self._wanted[number]
            self._tap.leave(number)

    def close(self) -> None:
        """Stop reading."""
        self._tap.close()

    # -- from the tap

    def arrived(self, partition: int) -> None:
        """See `TapOwner`."""
        self._owner.wake()

    def lost(self, partition: int, low: int) -> None:
        """See `TapOwner`: events before `low` cannot be sent any more."""
        offsets = self._wanted.get(partition, [])
        count = bisect_left(offsets, low)
        for offset in offsets[:count]:
            self._outlet.found(Place(self._address, partition, offset), None, 0)
        del offsets[:count]
        self._owner.lost(count)
        if partition in self._wanted:
            self._settle(partition)
        self._owner.wake()

    def failed(self, error: AmqpError) -> None:
        """See `TapOwner`: nothing to do, since the lane gets the same call."""

    def grew(self, partitions: int) -> None:
        """See `TapOwner`: nothing to do, since no event of a new partition is read again."""

    def gone(self) -> None:
        """See `TapOwner`: nothing to do, since the lane gets the same call."""


def size_of(event: CloudEvent) -> int:
    """Approximate memory of an event, in bytes."""
    return _OVERHEAD + (0 if event.record is None else len(event.record))


def _offset(record: KafkaRecord) -> int:
    return record.offset()


def _record_at(records: Sequence[KafkaRecord], offset: int) -> KafkaRecord | None:
    at = bisect_left(records, offset, key=_offset)
    return records[at] if at < len(records) and records[at].offset() == offset else None


