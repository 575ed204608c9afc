"""The end of a stream, read once for all subscriptions that have nothing to do there (docs/decisions/0031).

A reader that has read everything, and found nothing lately, leaves its partitions to the tail. The tail reads on, looks
each event up in the index of the stream's filters, and returns a reader to its own work at the first event that
matches. An event so costs nothing for the subscriptions that do not match it, however many they are.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from operator import methodcaller
from typing import Final, Protocol

from bridges.cloudevents.events.event import CloudEvent
from bridges.cloudevents.reading.filter_evaluator import EventOf, EventReader
from bridges.kafka.admin.client import Topic
from bridges.kafka.consume.batches import FetchedBatch
from bridges.kafka.tap import Tap, TopicLog
from gateway.errors import AmqpError

_RECORDS_PER_STEP: Final = 200
_offset: Final = methodcaller("offset")
_NO_FLOORS: Final[Mapping[int, int]] = {}
Matching = Callable[[str, CloudEvent], Iterable[EventReader]]
"""The subscriptions to the stream at an address whose filters match an event, parked or not."""


class ParkedReader(Protocol):
    """A reader whose partitions the tail reads."""

    def unpark(self, positions: Mapping[int, int]) -> None:
        """Read on from these offsets by partition; no event before them matches."""

    def on_tail_advanced(self) -> None:
        """Its position, which is the tail's, has advanced; the checkpoint may be written later."""


class _Parked:
    """`floors`: where a reader had read further than the tail; `advances`: the last advance that it was told of."""

    __slots__ = ("advances", "floors", "reader")

    def __init__(self, reader: ParkedReader, floors: Mapping[int, int], advances: int) -> None:
        self.reader: Final = reader
        self.floors: Final = floors
        self.advances = advances


class SharedTail:
    """The tail of one log; closed while no reader is parked."""

    def __init__(
        self,
        address: str,
        log: TopicLog,
        topic: Topic,
        event_of: EventOf,
        matching: Matching,
        schedule: Callable[[Callable[[], None]], None],
    ) -> None:
        """`schedule` runs a step in a later turn of the loop."""
        self._address: Final = address
        self._log: Final = log
        self._topic: Final = topic
        self._event_of: Final = event_of
        self._matching: Final = matching
        self._schedule: Final = schedule
        self._parked: Final[OrderedDict[EventReader, _Parked]] = OrderedDict()
        """By subscription; those whose checkpoints are oldest come first."""
        self._next: Final[dict[int, int]] = {}
        self._ready: Final[dict[int, None]] = {}
        self._tap: Tap | None = None
        self._advances = 0
        self._scheduled = False

    def __len__(self) -> int:
        """The number of parked readers."""
        return len(self._parked)

    # -- from the readers

    def park(self, subscription: EventReader, reader: ParkedReader, positions: Mapping[int, int]) -> bool:
        """Read these partitions for the reader of a subscription from now on; False if it is not as far as the tail."""
        if self._tap is None:
            self._open(positions)
        if positions.keys() != self._next.keys() or any(self._next[each] > at for each, at in positions.items()):
            return False
        floors = {each: at for each, at in positions.items() if at > self._next[each]}
        self._parked[subscription] = _Parked(reader, floors or _NO_FLOORS, self._advances)
        return True

    def position(self, subscription: EventReader, partition: int) -> int:
        """The next offset for a parked subscription."""
        return max(self._next[partition], self._parked[subscription].floors.get(partition, 0))

    def leave(self, subscription: EventReader) -> dict[int, int]:
        """Read no more for a subscription; returns its next offsets by partition."""
        positions = {partition: self.position(subscription, partition) for partition in self._next}
        del self._parked[subscription]
        self._wake()
        return positions

    def report_advance(self, most: int) -> None:
        """Tell up to `most` parked readers that their position has advanced, those told longest ago first."""
        for subscription, parked in list(islice(self._parked.items(), most)):
            if parked.advances == self._advances:
                break
            parked.advances = self._advances
            self._parked.move_to_end(subscription)
            parked.reader.on_tail_advanced()

    # -- reading

    def _wake(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._schedule(self._step)

    def _step(self) -> None:
        self._scheduled = False
        most = _RECORDS_PER_STEP
        if not self._parked:  # the last reader has had its step, and waits for the same batches by now
            self._close()
        while most > 0 and self._ready and self._tap is not None:
            number = next(iter(self._ready))
            del self._ready[number]
            batch = self._tap.take(number, self._next[number])
            if batch is not None:
                self._ready[number] = None
                most -= 1 + self._evaluate(number, batch)
        if self._ready:
            self._wake()

    def _evaluate(self, number: int, batch: FetchedBatch) -> int:
        """Look up a part of a batch; returns the number of records."""
        records = batch.records
        first = bisect_left(records, self._next[number], key=_offset)
        stop = min(len(records), first + _RECORDS_PER_STEP)
        for at in range(first, stop):
            event = self._event_of(records[at], self._address)
            for subscription in () if event is None else self._matching(self._address, event):
                self._match(subscription, number, records[at].offset())
        if self._parked:
            self._next[number] = records[stop].offset() if stop < len(records) else batch.end
            self._advances += 1
        return stop - first

    def _match(self, subscription: EventReader, number: int, offset: int) -> None:
        """Return a parked reader to its own work, unless it has read this event already."""
        parked = self._parked.get(subscription)
        if parked is not None and offset >= parked.floors.get(number, 0):
            self._release(subscription, {number: offset})

    def _release_all(self) -> None:
        for subscription in list(self._parked):
            self._release(subscription, {})

    def _release(self, subscription: EventReader, at: Mapping[int, int]) -> None:
        """Wake the reader before the step that may close the tail, so that their batches are never dropped between."""
        scheduled, self._scheduled = self._scheduled, True
        reader = self._parked[subscription].reader
        reader.unpark({**self.leave(subscription), **at})
        self._scheduled = scheduled
        self._wake()

    def _open(self, positions: Mapping[int, int]) -> None:
        """Wait for the same batches as the first reader, before it stops doing so."""
        self._tap = self._log.tap(self._topic, self)
        self._next.update(positions)
        self._ready.update({each: None for each, at in positions.items() if self._tap.take(each, at) is not None})
        if self._ready:
            self._wake()

    def _close(self) -> None:
        if self._tap is not None:
            self._tap.close()
            self._tap = None
        self._next.clear()
        self._ready.clear()

    # -- from the tap

    def on_records(self, partition: int) -> None:
        """See `TapListener`."""
        self._ready[partition] = None
        self._wake()

    def on_truncated(self, partition: int, low: int) -> None:
        """See `TapListener`: each reader counts what it has lost."""
        self._release_all()

    def on_failed(self, error: AmqpError) -> None:
        """See `TapListener`: each reader looks the topic up again."""
        self._release_all()

    def on_partitions_added(self, partitions: int) -> None:
        """See `TapListener`: each reader begins with the new partitions."""
        self._release_all()

    def on_topic_gone(self) -> None:
        """See `TapListener`: each reader hears it, too."""
        self._release_all()


class SharedTails:
    """The tails of a manager's streams."""

    def __init__(
        self,
        event_of: EventOf,
        matching: Matching,
        schedule: Callable[[Callable[[], None]], None],
        attempt: Callable[[Callable[[], None], str], None],
    ) -> None:
        """`attempt` runs a step, and reports an error of it."""
        self._event_of: Final = event_of
        self._matching: Final = matching
        self._schedule: Final = lambda step: schedule(partial(attempt, step, "tail"))
        self._tails: Final[dict[tuple[str, str], SharedTail]] = {}

    def __iter__(self) -> Iterator[SharedTail]:
        return iter(self._tails.values())

    def of(self, address: str, log: TopicLog, topic: Topic) -> SharedTail:
        """The tail of a log; a recreated topic has another."""
        key = address, str(topic.identity)
        found = self._tails.get(key)
        if found is None:
            for old in [each for each in self._tails if each[0] == address and not self._tails[each]]:
                del self._tails[old]
            found = self._tails[key] = SharedTail(
                address, log, topic, self._event_of, self._matching, self._schedule
            )
        return found

    def report_advance(self, most: int) -> None:
        """See `SharedTail.report_advance`; `most` for each."""
        for tail in self._tails.values():
            tail.report_advance(most)
