"""One transactional Kafka client: its records, and the blocking calls that begin and end a transaction (KM-14).

The calls are made in a thread; records are handled on the event loop. A call that ends a transaction takes the reports
of its records itself, in that thread, through confluent-kafka's callback, which ignores records without a context. So
these records have none, and their reports are counted (decision 89).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Final, Protocol

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from bridges.kafka.common import ahead, errors
from bridges.kafka.common.ahead import StoredPosition
from bridges.kafka.common.librdkafka import ClientSettings
from bridges.kafka.produce.client import Header
from bridges.kafka.transactions.leftovers import Leftovers, OpenPlaces, Place, SentOffsets
from bridges.kafka.transactions.outbox import make_outbox
from gateway.amqp.link.handlers import Transfer
from gateway.errors import AmqpError
from gateway.tasks import DaemonThreads, run_in, until

_CALL: Final = 10.0
"""Seconds that one call may block; it is then repeated, as librdkafka demands."""
_PATIENCE: Final = 30.0
"""Seconds until something fails that can still be rolled back, as records do (`message.timeout.ms`)."""
_LEAST: Final = 0.01
"""Seconds that a call has in any case."""
_FEW: Final = 256
_PAUSE: Final = 0.001
"""Seconds until reports are taken when more records are in flight: those of many answers cost as much as of one."""
_NOTHING: Final = Leftovers()
log = structlog.get_logger(logger_name="kafka")


class ReportsListener(Protocol):
    """What a transaction learns of its records."""

    def on_reports(self, count: int, code: int) -> None:
        """So many records were reported; `code` is librdkafka's error code of the first that was not written, or 0."""


class TransactionalClient:
    """A Kafka client with at most one open transaction; used from the event loop only."""

    def __init__(
        self,
        settings: ClientSettings,
        loop: asyncio.AbstractEventLoop,
        threads: DaemonThreads,
        places: OpenPlaces,
        before: Leftovers = _NOTHING,
    ) -> None:
        """`before`: what earlier clients with its transactional.id may have left open."""
        self._places: Final = places
        self._before = before
        self._topics: Final[set[str]] = set()
        self._offsets: Final[list[SentOffsets]] = []
        """Where the transaction has records, and its positions."""
        self._settings: Final = settings
        self._loop: Final = loop
        self._threads: Final = threads
        self._outbox: Final = make_outbox(settings, self._error)
        self._client: Final = self._outbox.client
        self._listener: ReportsListener | None = None
        self._in_flight = 0
        self._wakeups: Final = self._outbox.wakeups(loop, self._woken)
        self._timer: asyncio.TimerHandle | None = None
        self._ending = False
        """A call that ends the transaction takes the reports."""
        self._initialising: Final = asyncio.Lock()
        self._initialised = self._given_up = False
        """Whether it may begin transactions; whether a call has not returned, after which there is no other."""
        self.fatal = False
        """It can do nothing any more: another client has its transactional.id, or the cluster has refused it."""

    @property
    def size(self) -> int:
        """Bytes of the records that are not reported yet."""
        return self._outbox.size

    @property
    def identifier(self) -> str:
        """Its transactional.id."""
        return str(self._settings["transactional.id"])

    @property
    def left(self) -> Leftovers:
        """What it may leave open when it fails."""
        return self._before.with_more(self._topics, self._offsets)

    # -- records

    def produce(
        self, topic: str, partition: int, key: bytes | None, value: bytes | None, headers: list[Header] | None
    ) -> None:
        """Write a record; raises BufferError or KafkaException."""
        self._topics.add(topic)
        self._outbox.put(topic, partition, key, value, headers)
        self._put(1)

    def put_messages(self, topic: str, partition: int, messages: list[Transfer], start: int, rules: int) -> int:
        """As `ProduceClient.put_messages`."""
        self._topics.add(topic)
        end = self._outbox.put_messages(topic, partition, messages, start, rules)
        self._put(end - start)
        return end

    def usual(self, messages: list[Transfer], start: int, rules: int) -> int:
        """See `TransactionOutbox`."""
        return self._outbox.usual(messages, start, rules)

    def _put(self, count: int) -> None:
        self._in_flight += count
        if self._in_flight:
            self._wakeups.expect()

    def _woken(self) -> None:
        if self._in_flight <= _FEW:
            self._look()
        elif self._timer is None:
            self._timer = self._loop.call_later(_PAUSE, self._look)

    def _look(self) -> None:
        self._stop_timer()
        if self._ending:
            return
        count, code = self._outbox.reports()
        self._report(count, code)
        if self._in_flight:
            self._wakeups.expect()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _report(self, count: int, code: int) -> None:
        self._in_flight -= count
        if (count or code) and self._listener is not None:
            self._listener.on_reports(count, code)

    def _error(self, error: KafkaError) -> None:
        self.fatal = self.fatal or error.fatal()

    # -- the transaction

    @property
    def initialised(self) -> bool:
        """Whether it may begin transactions."""
        return self._initialised

    def begin(self, listener: ReportsListener | None) -> None:
        """Begin a transaction, when initialised; `listener` learns of its records. Raises KafkaException.

        librdkafka's main thread takes note of it; nothing goes to Kafka, so that no thread is needed.
        """
        self._listener = listener
        self._forget()
        try:
            self._client.begin_transaction()
        except KafkaException as error:
            self.fatal = self.fatal or errors.cause_of(error).fatal()
            raise

    async def initialise(self) -> None:
        """Fence off earlier clients with its id, and abort what they have left open, once. Raises KafkaException."""
        async with self._initialising:
            if not self._initialised:
                await self._repeat(self._client.init_transactions)
                await self._end_before()
                self._initialised = True

    async def _end_before(self) -> None:
        """End what earlier clients have left open in logs, by a transaction that is aborted. Raises KafkaException."""
        if not self._before:
            return
        try:
            places = await self._places.find(self._before.topics)
            if places or self._before.offsets:
                await self._end_in(places)
        except (KafkaException, AmqpError) as error:
            self.fatal = True  # librdkafka initialises a client once
            if isinstance(error, AmqpError):
                raise KafkaException(KafkaError(KafkaError._TRANSPORT, error.description)) from error
            raise
        self._before = _NOTHING

    async def _end_in(self, places: Collection[Place]) -> None:
        """The record that each place takes is in a transaction that is aborted, so that hardly anybody sees it."""
        log.warning("ending what a kafka transaction has left", client=self.identifier, partitions=len(places))
        self.begin(None)
        for topic, partition in places:
            self.produce(topic, partition, b"", b"", None)
        await until(lambda: not self._in_flight, _PATIENCE)
        for each in self._before.offsets:
            await self._offer(each)
        await self.abort()

    async def _offer(self, offsets: SentOffsets) -> None:
        """Make positions a part of the transaction; if Kafka refuses them, there is nothing to end, or no right to."""
        try:
            await self.send_offsets(*offsets)
        except KafkaException as error:
            if self.fatal:
                raise
            log.warning("kafka positions perhaps left open", group=offsets.group, reason=errors.cause_of(error).str())

    async def send_offsets(self, group: str, topic: str, positions: Mapping[int, StoredPosition]) -> None:
        """Make positions of a group a part of the transaction. Raises KafkaException."""
        self._offsets.append(SentOffsets(group, topic, positions))
        places = [
            TopicPartition(topic, partition, at.offset, ahead.written(at) or "") for partition, at in positions.items()
        ]
        await self._repeat(lambda seconds: self._send_offsets(group, places, seconds))

    def _send_offsets(self, group: str, places: list[TopicPartition], seconds: float) -> None:
        # No consumer is a member of the group: its metadata has only the name.
        consumer = Consumer({**_consuming(self._settings), "group.id": group})
        try:
            self._client.send_offsets_to_transaction(places, consumer.consumer_group_metadata(), seconds)
        finally:
            consumer.close()

    async def commit(self) -> None:
        """Commit the records, all of which are reported, and the offsets. Raises KafkaException.

        It waits as long as Kafka lets a transaction be open: afterwards nobody knows the result.
        """
        patience = float(self._settings["transaction.timeout.ms"]) / 1000
        await self._end(self._client.commit_transaction, patience)

    async def abort(self) -> None:
        """Abort the transaction; its records get reports. Raises KafkaException."""
        await self._end(self._client.abort_transaction, _PATIENCE)

    async def _end(self, call: Callable[[float], object], patience: float) -> None:
        self._ending = True
        try:
            await self._repeat(call, patience)
            self._forget()
        finally:
            self._ending = False
            self._ended()

    def _forget(self) -> None:
        """No transaction is open."""
        self._topics.clear()
        self._offsets.clear()

    def _ended(self) -> None:
        """Tell of the records whose reports the call has taken; it fails if there are any that were not written."""
        self._look()
        if self._in_flight and not self._outbox.waiting():
            self._report(self._in_flight, KafkaError._PURGE_QUEUE)

    async def _repeat(self, call: Callable[[float], object], patience: float = _PATIENCE) -> None:
        """Repeat a call, which gets its time limit, while librdkafka says that this helps, for `patience` seconds."""
        deadline = self._loop.time() + patience
        while True:
            try:
                left = max(deadline - self._loop.time(), _LEAST)
                await self._call(partial(call, min(_CALL, left)), deadline)
                return
            except KafkaException as error:
                cause = errors.cause_of(error)
                self.fatal = self.fatal or cause.fatal()
                if not cause.retriable() or self._loop.time() >= deadline:
                    raise

    async def _call(self, call: Callable[[], object], deadline: float) -> None:
        """Make a call in a thread. One that does not return is given up, and the client with it.

        librdkafka sends positions for as long as the transaction may take, whatever time limit it is given.
        """
        try:
            if self._given_up:
                raise TimeoutError
            await run_in(self._threads.start, call, deadline + _CALL)
        except TimeoutError:
            self.fatal = self._given_up = True
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT)) from None

    def close(self) -> None:
        """Drop what is left: the cluster aborts an open transaction at its time-out, or for the next client."""
        self._wakeups.close()
        self._stop_timer()
        self._client.purge()


def _consuming(settings: ClientSettings) -> dict[str, object]:
    """The settings without those of producers."""
    return {name: value for name, value in settings.items() if name not in _PRODUCING}


_PRODUCING: Final = frozenset(
    {
        "acks", "batch.size", "enable.idempotence", "linger.ms", "message.max.bytes", "message.timeout.ms",
        "partitioner", "queue.buffering.max.kbytes", "queue.buffering.max.messages", "transaction.timeout.ms",
        "transactional.id",
    }
)  # fmt: skip
