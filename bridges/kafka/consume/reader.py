"""A thread with a Kafka client that reads for many links (KM-16).

The client has its partitions assigned; it belongs to no group and commits nothing. The thread waits, and copies records
and checks digests without the interpreter lock: a batch is passed to the loop in one call and is mapped and encoded
there, because a thread that computes takes that lock from the loop at every call into proton (decisions 10 and 103).
Commands say what to read; the thread executes them between two batches. Each command has a serial number, and each
batch has that of the last command before it, so that records from before a change of position are recognized. At most
two batches are on their way to the loop, and nothing is fetched while the gate is closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, NamedTuple

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from bridges.kafka.common import errors
from bridges.kafka.common.librdkafka import ClientSettings
from bridges.kafka.consume import poll
from bridges.kafka.consume.poll import Failure, Key
from bridges.kafka.records.record import KafkaRecord
from gateway.errors import RESOURCE_DELETED, AmqpError
from gateway.held.logs import BATCH, QUEUE, SINGLE

_BATCH: Final = 500
_MAX_IN_FLIGHT: Final = 2
"""Batches on their way to the loop."""
_POLL_TIMEOUT: Final = 0.05
"""Seconds after which an idle thread checks for commands."""
_METADATA_TIMEOUT: Final = 5.0
_RETRY_PAUSE: Final = 0.2
_SETTINGS: Final[ClientSettings] = {
    "group.id": "scopegate-reader",  # required by the client and never used: no subscription, no commit
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,  # the only exact sign of the end, because control records have offsets as well
    "auto.offset.reset": "error",
    "fetch.queue.backoff.ms": 1,  # with the default of 1000 both sides are idle once the queue is full
    "fetch.wait.max.ms": 50,  # so long does a partition that is read to its end hold up the others (decision 113)
    "allow.auto.create.topics": False,
}
_SINGLE: Final[ClientSettings] = {"fetch.message.max.bytes": SINGLE.queue, "queued.min.messages": 1}
"""For reading single records; Kafka sends a larger record nevertheless."""
_MESSAGE: Final = 1_000_000
"""librdkafka's default `message.max.bytes`; `fetch.max.bytes` must not be smaller."""
_POSITION_LOST: Final = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE})
Command = Callable[[Consumer], None]
"""Changes what the client reads; called in the thread."""
log = structlog.get_logger(logger_name="kafka")


def bounded(settings: ClientSettings, queue: int) -> dict[str, int]:
    """The settings that limit the bytes in a client to `queue`; smaller values in a policy remain in force.

    If no setting limits the size of an answer, the client uses that of its queue, or `message.max.bytes`.
    """
    ours = {"queued.max.messages.kbytes": queue // 1024}
    if int(settings.get("fetch.max.bytes", 0)) > queue:
        ours["fetch.max.bytes"] = max(queue, int(settings.get("message.max.bytes", _MESSAGE)))
    return ours


class Fetched(NamedTuple):
    """What a poll passes to the loop: records, ends that were reached, and positions that retention has deleted.

    `serial` is the number of the last command that was executed before.
    """

    serial: int
    records: dict[Key, Sequence[KafkaRecord]]
    ends: dict[Key, int]
    lost: dict[Key, int]


class ReaderOwner(NamedTuple):
    """Functions that the thread calls on the loop."""

    arrived: Callable[[PartitionReader, Fetched], None]
    failed: Callable[[str | None, AmqpError], None]
    trouble: Callable[[], None]
    ended: Callable[[PartitionReader], None]


class PartitionReader:
    """A Kafka client and its thread; the public methods are for the loop."""

    def __init__(
        self,
        settings: ClientSettings,
        loop: asyncio.AbstractEventLoop,
        owner: ReaderOwner,
        isolation: str = "read_committed",
        queue: int = QUEUE,
        *,
        single: bool = False,
    ) -> None:
        """`queue`: bytes that may wait in the client; the next answer may have the same size in addition.

        `single`: for single records, so that little of what follows them is fetched.
        """
        own = {**settings, **_SETTINGS, **(_SINGLE if single else {})}
        self._settings: Final = {**own, **bounded(settings, queue), "isolation.level": isolation}
        self._poll: Final = poll.poller_for(settings, SINGLE.batch if single else BATCH)
        self._loop: Final = loop
        self._owner: Final = owner
        self._wake: Final = threading.Condition()
        self._commands: Final[deque[tuple[int, Command]]] = deque()
        self._serial = 0
        self._executed = 0
        self._closed = False
        self._stopped = False
        self._in_flight = 0
        self._assigned: Final[dict[Key, int]] = {}
        self._filtered: Final[set[Key]] = set()
        self._thread: Final = threading.Thread(target=self._run, name="kafka-reader", daemon=True)

    # -- for the loop

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def add(self, key: Key, position: int) -> int:
        """Read a partition from `position` on; returns the serial number of the command."""
        return self._command(partial(self._assign, key, position))

    def remove(self, key: Key) -> None:
        """Stop reading a partition."""
        self._filtered.discard(key)
        self._command(partial(self._unassign, key))

    def pause(self, key: Key, paused: bool) -> None:
        """Stop fetching a partition while others go on, or resume it."""
        self._command(partial(self._pause, key, paused))

    def set_filtered(self, key: Key, filtered: bool) -> None:
        """Whether every link of a partition filters: then digests are checked late, and only of what matches."""
        (self._filtered.add if filtered else self._filtered.discard)(key)

    def gate(self, *, closed: bool) -> None:
        """Do not poll while the gate is closed; librdkafka's bounded queue fills meanwhile."""
        if closed != self._closed:
            with self._wake:
                self._closed = closed
                self._wake.notify()

    def stop(self) -> None:
        """Ask the thread to end; nothing is delivered to the loop after this returns."""
        with self._wake:
            self._stopped = True
            self._commands.clear()
            self._wake.notify()

    def join(self, timeout: float) -> None:
        """Wait for the end of the thread (blocking)."""
        if self._thread.ident is not None:
            self._thread.join(timeout)

    def _command(self, command: Command) -> int:
        with self._wake:
            self._serial += 1
            if not self._stopped:
                self._commands.append((self._serial, command))
            self._wake.notify()
        return self._serial

    def _arrived(self, fetched: Fetched) -> None:
        with self._wake:
            self._in_flight -= 1
            self._wake.notify()
        if not self._stopped:
            self._owner.arrived(self, fetched)

    # -- in the thread

    def _run(self) -> None:
        try:
            consumer = Consumer(self._settings)
            try:
                while self._may_read(consumer):
                    self._read(consumer)
            finally:
                consumer.close()
        except KafkaException as error:
            log.error("kafka reader failed", reason=errors.cause_of(error).str())
            self._call_on_loop(self._owner.failed, None, errors.link_error(errors.cause_of(error)))
        finally:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._owner.ended, self)

    def _may_read(self, consumer: Consumer) -> bool:
        """Execute commands, and wait until the client may be polled; False: the thread was asked to end."""
        while True:
            with self._wake:
                while not (self._commands or self._stopped or self._may_poll()):
                    self._wake.wait()
                if self._stopped:
                    return False
                commands = list(self._commands)
                self._commands.clear()
                may_poll = self._may_poll()
            for serial, command in commands:
                command(consumer)
                self._executed = serial
            if may_poll and not commands:
                return True

    def _may_poll(self) -> bool:
        return bool(self._assigned) and not self._closed and self._in_flight < _MAX_IN_FLIGHT

    def _read(self, consumer: Consumer) -> None:
        polled = self._poll(consumer, _BATCH, _POLL_TIMEOUT, check=not self._filtered)
        fetched = Fetched(self._executed, polled.records, {}, {})
        for failure in polled.failures:  # this may ask Kafka
            self._failure(consumer, failure, fetched)
        if fetched.records or fetched.ends or fetched.lost:
            with self._wake:
                self._in_flight += 1
            self._call_on_loop(self._arrived, fetched)

    def _call_on_loop(self, call: Callable[..., None], *arguments: object) -> None:
        if self._stopped:
            return
        try:
            self._loop.call_soon_threadsafe(call, *arguments)
        except RuntimeError:  # the loop is closed
            self._stopped = True

    # -- commands

    def _assign(self, key: Key, position: int, consumer: Consumer) -> None:
        with contextlib.suppress(KafkaException):  # the request makes a new topic known to the client
            if self._assigned and all(topic != key[0] for topic, _ in self._assigned):
                consumer.list_topics(key[0], timeout=_METADATA_TIMEOUT)
        self._assigned[key] = position
        consumer.incremental_assign([TopicPartition(*key, position)])

    def _unassign(self, key: Key, consumer: Consumer) -> None:
        if self._assigned.pop(key, None) is not None:
            consumer.incremental_unassign([TopicPartition(*key)])

    def _pause(self, key: Key, paused: bool, consumer: Consumer) -> None:
        if key in self._assigned:
            (consumer.pause if paused else consumer.resume)([TopicPartition(*key)])

    # -- errors

    def _failure(self, consumer: Consumer, failure: Failure, fetched: Fetched) -> None:
        error, topic, partition, offset = failure
        code = error.code()
        if topic is None or partition is None or (topic, partition) not in self._assigned:
            self._report(error, topic)
            return
        key = (topic, partition)
        if code == KafkaError._PARTITION_EOF and offset is not None:
            fetched.ends[key] = offset
        elif code in _POSITION_LOST and offset is not None:
            self._position_lost(consumer, key, offset, fetched)
        else:
            self._report(error, topic)

    def _report(self, error: KafkaError, topic: str | None) -> None:
        if error.code() in errors.UNAUTHORIZED:
            self._call_on_loop(self._owner.failed, topic, errors.link_error(error))
        else:  # librdkafka retries; a refresh of the metadata finds deleted topics
            self._call_on_loop(self._owner.trouble)

    def _position_lost(self, consumer: Consumer, key: Key, offset: int, fetched: Fetched) -> None:
        """KM-8: retention has deleted the position: continue at the oldest event, and report it.

        If the log begins before the position and yet does not have it, the log has been replaced. If Kafka does not
        answer, the same position is assigned again.
        """
        try:
            low, _ = consumer.get_watermark_offsets(TopicPartition(*key), timeout=_METADATA_TIMEOUT)
        except KafkaException:
            self._call_on_loop(self._owner.trouble)
            time.sleep(_RETRY_PAUSE)
            self._assign_again(consumer, key, offset)
            return
        if 0 <= low < offset:
            gone = AmqpError(RESOURCE_DELETED, f"the event log {key[0]!r} was replaced")
            self._call_on_loop(self._owner.failed, key[0], gone)
            return
        log.warning("events lost to retention", topic=key[0], partition=key[1], oldest=low)
        fetched.lost[key] = low
        self._assign_again(consumer, key, low)

    def _assign_again(self, consumer: Consumer, key: Key, offset: int) -> None:
        consumer.incremental_unassign([TopicPartition(*key)])
        self._assigned[key] = offset
        consumer.incremental_assign([TopicPartition(*key, offset)])


def join_all(readers: Iterable[PartitionReader], seconds: float) -> None:
    """Wait up to `seconds` for each reader's thread (blocking)."""
    for reader in readers:
        reader.join(seconds)
