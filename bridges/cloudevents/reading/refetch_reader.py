"""Reads events of a stream again, of which only the location was in memory.

While a sink is away, that is one event for each attempt, and what follows it in the log is of no use: it is read by a
client that fetches little. After its return there are many, which are read as links read a log.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final, Protocol

from bridges.cloudevents.delivery.entry import EventLocation
from bridges.cloudevents.delivery.queue import DeliveryQueue
from bridges.cloudevents.events.event import CloudEvent
from bridges.cloudevents.reading.records import record_at, size_of
from bridges.kafka.admin.client import Topic
from bridges.kafka.consume.batches import FetchedBatch
from bridges.kafka.records.record import KafkaRecord
from bridges.kafka.tap import Tap, TopicLog
from gateway.errors import AmqpError

_FEW: Final = 4
"""Number of events of a partition up to which each is read singly."""


class RefetchListener(Protocol):
    """The subscription that the reader reads for."""

    def event_of(self, record: KafkaRecord, address: str) -> CloudEvent | None:
        """The event of a record; None if it is not an event."""

    def on_lost(self, count: int) -> None:
        """`count` offsets were deleted before they were read."""

    def wake(self) -> None:
        """Schedule a call of `read`."""


class RefetchReader:
    """Reads single events of a stream again."""

    __slots__ = ("_address", "_listener", "_log", "_many", "_queue", "_requested", "_single", "_taps", "_topic")

    def __init__(
        self, address: str, log: TopicLog, topic: Topic, queue: DeliveryQueue, listener: RefetchListener
    ) -> None:
        self._address: Final = address
        self._log: Final = log
        self._topic: Final = topic
        self._queue: Final = queue
        self._listener: Final = listener
        self._requested: Final[dict[int, list[int]]] = {}
        """Offsets by partition, ascending."""
        self._taps: Final[dict[int, Tap]] = {}
        """Those that read, by partition."""
        self._many: Tap | None = None
        self._single: Tap | None = None

    def request(self, locations: Sequence[EventLocation]) -> None:
        """Read the events at these locations."""
        for location in locations:
            self._requested.setdefault(location.partition, []).append(location.offset)
        for number in {location.partition for location in locations}:
            self._requested[number].sort()

    def read(self) -> None:
        """Hand over the events that are in memory."""
        for number in list(self._requested):
            while (offsets := self._requested.get(number)) is not None:
                batch = self._take(number, offsets)
                if batch is None:
                    break
                self._return_events(number, batch.records, batch.end)

    def _take(self, number: int, offsets: Sequence[int]) -> FetchedBatch | None:
        """The batch with the first of these offsets; None: `on_records` is called when it is there."""
        tap = self._taps.get(number)
        if tap is None or (tap is self._single and len(offsets) > _FEW):
            found = self._log.find_batch(number, offsets[0])
            if found is not None and len(offsets) <= _FEW:
                return found
            if tap is not None:
                tap.leave(number)
            tap = self._taps[number] = self._tap(single=len(offsets) <= _FEW)
        return tap.take(number, offsets[0])

    def _tap(self, *, single: bool) -> Tap:
        if single:
            if self._single is None:
                self._single = self._log.tap(self._topic, self, single=True)
            return self._single
        if self._many is None:
            self._many = self._log.tap(self._topic, self)
        return self._many

    def _return_events(self, number: int, records: Sequence[KafkaRecord], end: int) -> None:
        offsets = self._requested[number]
        count = bisect_left(offsets, end)
        for offset in offsets[:count]:
            record = record_at(records, offset)
            event = None if record is None else self._listener.event_of(record, self._address)
            size = 0 if event is None else size_of(event)
            self._queue.refetched(EventLocation(self._address, number, offset), event, size)
        del offsets[:count]
        self._release_partition(number)

    def _release_partition(self, number: int) -> None:
        if not self._requested[number]:
            del self._requested[number]
            tap = self._taps.pop(number, None)
            if tap is not None:
                tap.leave(number)

    def close(self) -> None:
        """Stop reading."""
        for tap in (self._single, self._many):
            if tap is not None:
                tap.close()

    # -- from the tap

    def on_records(self, partition: int) -> None:
        """See `TapListener`."""
        self._listener.wake()

    def on_truncated(self, partition: int, low: int) -> None:
        """See `TapListener`: events before `low` cannot be sent any more."""
        offsets = self._requested.get(partition, [])
        count = bisect_left(offsets, low)
        locations = [EventLocation(self._address, partition, offset) for offset in offsets[:count]]
        lost = sum(self._queue.refetched(location, None, 0) for location in locations)
        del offsets[:count]
        self._listener.on_lost(lost + self._queue.discard_before(self._address, partition, low))
        if partition in self._requested:
            self._release_partition(partition)
        self._listener.wake()

    def on_failed(self, error: AmqpError) -> None:
        """See `TapListener`: nothing to do, since the reader gets the same call."""

    def on_partitions_added(self, partitions: int) -> None:
        """See `TapListener`: nothing to do, since no event of a new partition is read again."""

    def on_topic_gone(self) -> None:
        """See `TapListener`: nothing to do, since the reader gets the same call."""
