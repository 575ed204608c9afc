"""The thread that reads partitions for one receive link (KM-16): Kafka batches in, encoded events out.

One `assign()`-mode consumer, no group, nothing committed. The thread waits for Kafka and sees to errors; a batch
crosses into the loop in one call and is mapped and encoded there, because a thread that computes takes the
interpreter lock from the loop at every call into proton (docs/benchmarks.md). At most two batches wait for the
link: then the thread stops asking, librdkafka's bounded queue fills, and Kafka is no longer asked. Credit is the
only flow control.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

import structlog
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

from bridges.kafka import faults
from bridges.kafka.encoding import EventEncoder
from bridges.kafka.redelivery import Event, after_gap
from gateway.errors import RESOURCE_DELETED, AmqpError
from gateway.filters.event_stream import Position

_BATCH: Final = 500
_WAITING: Final = 2
_PATIENCE: Final = 0.2
"""Seconds after which an idle thread looks whether it is still wanted."""
_METADATA: Final = 5.0
_SETTINGS: Final[dict[str, Any]] = {
    "group.id": "scopegate-reader",  # required by the client and never used: no subscription, no commit
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,  # the only exact sign of the end: control records have offsets, too
    "auto.offset.reset": "error",
    "isolation.level": "read_committed",
    "fetch.queue.backoff.ms": 1,  # at its default of 1000 both sides idle once the queue is full
    "fetch.wait.max.ms": 500,
    "queued.max.messages.kbytes": 8192,
    "allow.auto.create.topics": False,
}
_POSITION_LOST: Final = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE})
log = structlog.get_logger("kafka")


class Batch(NamedTuple):
    """Events in log order per partition, and how far the log is read once they are sent."""

    events: list[Event]
    positions: dict[int, int]


class Fetched(NamedTuple):
    """What crosses into the loop: records without errors, ends that were reached, partitions that go on after a gap."""

    messages: list[Any]
    ends: dict[int, int]
    gaps: set[int]


class Owner(NamedTuple):
    """Whom the thread tells: on the loop, except that `ended` is called by the thread itself."""

    deliver: Callable[[Batch], None]
    failed: Callable[[AmqpError], None]
    trouble: Callable[[], None]
    gap: Callable[[], None]
    ended: Callable[[Any], None]


class Fetcher:
    """Reads from `starts` on; `resume` after each batch that the owner has used up."""

    def __init__(
        self,
        settings: Mapping[str, Any],
        topic: str,
        starts: Mapping[int, int],
        position: Position,
        encoder: EventEncoder,
        loop: asyncio.AbstractEventLoop,
        owner: Owner,
    ) -> None:
        self._settings: Final = {**settings, **_SETTINGS}
        self._topic: Final = topic
        self._position: Final = position
        self._everything: Final = position.first_offset == 0 and position.after_ms is None
        self._encoder: Final = encoder
        self._loop: Final = loop
        self._owner: Final = owner
        self._room: Final = threading.Semaphore(_WAITING)
        self._lock: Final = threading.Lock()
        self._added: dict[int, int] = dict(starts)
        self._assigned: Final[dict[int, int]] = {}
        self._lost: set[int] = set()
        self._gaps: Final[set[int]] = set()
        self._stopped = False
        self._thread: Final = threading.Thread(target=self._run, name=f"kafka-reader-{topic}", daemon=True)

    # -- for the loop

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def resume(self) -> None:
        """A batch has been used up: one more may come."""
        self._room.release()

    def add(self, partitions: Iterable[int]) -> None:
        """Read these partitions, too, from their beginning (KM-9)."""
        with self._lock:
            self._added.update(dict.fromkeys(partitions, OFFSET_BEGINNING))

    def stop(self) -> None:
        """Ask the thread to end; nothing is delivered after this returns to the loop."""
        self._stopped = True
        self._room.release()

    def join(self, timeout: float) -> None:
        """Wait for the end of the thread (blocking)."""
        if self._thread.ident is not None:
            self._thread.join(timeout)

    def _arrived(self, fetched: Fetched) -> None:
        if self._stopped:
            return
        self._owner.deliver(Batch(*self._convert(fetched)))

    def _convert(self, fetched: Fetched) -> tuple[list[Event], dict[int, int]]:
        events: list[Event] = []
        positions: dict[int, int] = {}
        encode, new, gaps = self._encoder.encode, tuple.__new__, self._gaps
        gaps |= fetched.gaps
        everything, wanted = self._everything, self._position.matches
        for message in fetched.messages:
            partition, offset = message.partition(), message.offset()
            positions[partition] = offset + 1
            kind, stamp = message.timestamp()
            if everything or wanted(offset, stamp):
                key, value, headers = message.key(), message.value(), message.headers()
                data = encode(key, value, headers, partition, offset, kind, stamp)
                if gaps and partition in gaps:
                    gaps.discard(partition)
                    data = after_gap(data)
                events.append(new(Event, (data, partition, offset, 0, 0)))
        for partition, end in fetched.ends.items():
            positions[partition] = max(end, positions.get(partition, 0))
        return events, positions

    # -- in the thread

    def _run(self) -> None:
        try:
            consumer = Consumer(self._settings)
            try:
                self._read(consumer)
            finally:
                consumer.close()
        except KafkaException as error:
            log.error("kafka reader failed", topic=self._topic, reason=error.args[0].str())
            self._tell(self._owner.failed, faults.link_error(error.args[0], "", self._topic))
        finally:
            self._owner.ended(self)

    def _read(self, consumer: Consumer) -> None:
        while True:
            self._room.acquire()
            fetched = self._fetch(consumer)
            if fetched is None:
                return
            self._tell(self._arrived, fetched)

    def _tell(self, call: Callable[..., None], *arguments: object) -> None:
        if self._stopped:
            return
        try:
            self._loop.call_soon_threadsafe(call, *arguments)
        except RuntimeError:  # the loop is closed: nobody is left to tell
            self._stopped = True

    def _fetch(self, consumer: Consumer) -> Fetched | None:
        while not self._stopped:
            if self._added:
                self._assign_added(consumer)
            messages = consumer.consume(1, _PATIENCE)
            if messages:  # one call for the rest: asking for a full batch would wait until it is full
                messages += consumer.consume(_BATCH - 1, 0)
                fetched = self._sorted(consumer, messages)
                if any(fetched):
                    return fetched
        return None

    def _sorted(self, consumer: Consumer, messages: list[Any]) -> Fetched:
        """Records apart from errors, which are seen to here: that may take questions to Kafka."""
        failed = [message for message in messages if message.error() is not None]
        if failed:
            messages = [message for message in messages if message.error() is None]
        gaps, self._lost = self._lost, set()  # records of this batch were read before an error in it
        ends: dict[int, int] = {}
        for message in failed:
            self._failure(consumer, message, message.error(), ends)
        return Fetched(messages, ends, gaps)

    def _assign_added(self, consumer: Consumer) -> None:
        with self._lock:
            added, self._added = self._added, {}
        if self._assigned:  # partitions that this client may not have heard of yet; asking tells it
            with contextlib.suppress(KafkaException):
                consumer.list_topics(self._topic, timeout=_METADATA)
        self._assigned.update(added)
        consumer.incremental_assign(
            [TopicPartition(self._topic, partition, offset) for partition, offset in added.items()]
        )

    def _failure(
        self, consumer: Consumer, message: Message, error: KafkaError, ends: dict[int, int]
    ) -> None:
        code, partition, offset = error.code(), message.partition(), message.offset()
        if code == KafkaError._PARTITION_EOF and partition is not None and offset is not None:
            ends[partition] = offset
        elif code in _POSITION_LOST and partition is not None and offset is not None:
            self._position_lost(consumer, partition, offset)
        elif code == KafkaError._UNKNOWN_PARTITION and partition in self._assigned:
            time.sleep(_PATIENCE)  # a new partition that not every broker knows yet, or a topic about to go
            self._assign_again(consumer, partition, self._where(consumer, partition))
        elif code in faults.UNAUTHORIZED:
            self._tell(self._owner.failed, faults.link_error(error, "", self._topic))
        else:  # librdkafka goes on trying; a topic that is gone is found by the metadata watch
            self._tell(self._owner.trouble)

    def _position_lost(self, consumer: Consumer, partition: int, offset: int) -> None:
        """KM-8: retention overtook us: go on at the oldest event and say so.

        A log that begins before our position and does not hold it has been replaced.
        """
        where = TopicPartition(self._topic, partition)
        low, _ = consumer.get_watermark_offsets(where, timeout=_METADATA)
        if 0 <= low < offset:
            gone = AmqpError(RESOURCE_DELETED, f"the event log {self._topic!r} was replaced")
            self._tell(self._owner.failed, gone)
            return
        if offset >= 0:  # else the oldest event was asked for and could not be found: nothing is lost
            log.warning("events lost to retention", topic=self._topic, partition=partition, oldest=low)
            self._lost.add(partition)
            self._tell(self._owner.gap)
        self._assign_again(consumer, partition, low)

    def _where(self, consumer: Consumer, partition: int) -> int:
        """The next offset to read; before the first record what was assigned."""
        (found,) = consumer.position([TopicPartition(self._topic, partition)])
        return found.offset if found.offset >= 0 else self._assigned[partition]

    def _assign_again(self, consumer: Consumer, partition: int, offset: int) -> None:
        consumer.incremental_unassign([TopicPartition(self._topic, partition)])
        with self._lock:
            self._added[partition] = offset
