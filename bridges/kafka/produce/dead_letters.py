"""Copies events that a consumer refuses to a dead-letter topic before they count as done (KM-12).

The copy has the key, value and headers of the record, and more headers with its origin and the reason. If the consumer
refuses an event in a transaction, the copy is a part of that (decision 106).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import structlog
from confluent_kafka import KafkaError, KafkaException

from bridges.kafka.common.counters import ClusterCounters
from bridges.kafka.produce.producer import ROOM, ClusterProducer, ReportCallback
from bridges.kafka.records.envelope import DEAD_LETTER, Header
from bridges.kafka.records.event import EncodedEvent
from bridges.kafka.records.mapping import RecordWriter
from bridges.kafka.records.record import KafkaRecord
from gateway.amqp.message import sections
from gateway.errors import AmqpError

if TYPE_CHECKING:
    from gateway.amqp.link.transactions import Enlisting, PostedMessage

_RETRY_PAUSE: Final = 1.0
_ANY: Final = -1
log = structlog.get_logger(logger_name="kafka")


CopiedRecord = tuple[bytes | None, bytes | None, list[Header]]
"""Key, value and headers."""


class DeadLetterReason(NamedTuple):
    """Why an event was not taken; `more` are names, without their prefix, and contents of further headers."""

    condition: str
    description: str
    redeliveries: int
    more: tuple[Header, ...] = ()


class TransactedRecords(Protocol):
    """What a dead letter uses of a transaction on its cluster (`bridges.kafka.transactions.branch.KafkaBranch`)."""

    def produce(
        self,
        topic: str,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        headers: list[Header] | None,
        post: PostedMessage,
    ) -> None: ...


class PostedDeadLetter:
    """A dead letter in a transaction (`PostedMessage`): nobody waits for its outcome but the transaction."""

    behind: str | None = None
    settled: Final = True
    tag: Final = b""
    attached: Final = True

    def __init__(self, transaction: Enlisting) -> None:
        self.transaction: Final = transaction

    def hold(self, size: int) -> None:
        """See `PostedMessage`, as everything below. The event is held for its connection until the transaction ends."""

    def accept(self) -> None:
        pass

    def release(self) -> None:
        """Its transaction knows that, and is rolled back."""

    def refuse(self, error: AmqpError) -> None:
        self.transaction.fail(error)


class DeadLetters:
    """The dead letters of one topic."""

    def __init__(
        self,
        producer: ClusterProducer,
        loop: asyncio.AbstractEventLoop,
        counters: ClusterCounters,
        topic: str,
        to: str,
        *,
        keys: Sequence[str] = ("group-key",),
    ) -> None:
        """`keys`: from which fields records of the topic get their keys, so that copies have the same keys."""
        self._producer: Final = producer
        self._loop: Final = loop
        self._counters: Final = counters
        self._topic: Final = topic
        self._to: Final = to
        self._writer: Final = RecordWriter(keys=keys)
        self._warned = False

    def write(
        self, event: EncodedEvent, error: AmqpError | None, done: Callable[[], None], wanted: Callable[[], bool]
    ) -> None:
        """Copy `event` and call `done` when Kafka has written it; retried while `wanted` returns True."""
        record = self._writer.record(event.data, sections.walk(event.data))
        self._copy(record, (event.partition, event.offset), _reason(event, error), done, wanted)

    def post(
        self, records: TransactedRecords, transaction: Enlisting, event: EncodedEvent, error: AmqpError | None
    ) -> None:
        """Copy `event` in a transaction; if Kafka does not take the copy, the transaction fails."""
        key, value, headers = self._writer.record(event.data, sections.walk(event.data))
        origin = self._origin((event.partition, event.offset), _reason(event, error))
        records.produce(self._to, _ANY, key, value, [*headers, *origin], PostedDeadLetter(transaction))
        transaction.at_end(self._posted)

    def _posted(self, committed: bool) -> None:
        self._counters.dead_lettered += committed

    def copy(
        self, record: KafkaRecord, why: DeadLetterReason, done: Callable[[], None], wanted: Callable[[], bool]
    ) -> None:
        """As `write`, for a record that was read without a link."""
        copied = record.key(), record.value(), list(record.headers() or ())
        self._copy(copied, (record.partition(), record.offset()), why, done, wanted)

    def _copy(
        self,
        record: CopiedRecord,
        place: tuple[int, int],
        why: DeadLetterReason,
        done: Callable[[], None],
        wanted: Callable[[], bool],
    ) -> None:
        def retry() -> None:
            if wanted():
                self._copy(record, place, why, done, wanted)

        def report(failure: KafkaError | None) -> None:
            if failure is None:
                self._counters.dead_lettered += 1
                self._warned = False
                done()
            else:
                self._retry_later(failure.str(), retry)

        if len(self._producer) >= ROOM:
            self._retry_later("the producer's queue is half full", retry)
            return
        key, value, headers = record
        try:
            headers = [*headers, *self._origin(place, why)]
            self._producer.produce(self._to, _ANY, key, value, headers, ReportCallback(report))
        except (BufferError, KafkaException) as failure:
            self._retry_later(str(failure), retry)

    def _origin(self, place: tuple[int, int], why: DeadLetterReason) -> list[Header]:
        """Where the event was, and why it is here."""
        return [
            (DEAD_LETTER + "topic", self._topic.encode()),
            (DEAD_LETTER + "partition", b"%d" % place[0]),
            (DEAD_LETTER + "offset", b"%d" % place[1]),
            (DEAD_LETTER + "condition", why.condition.encode()),
            (DEAD_LETTER + "description", why.description.encode()),
            (DEAD_LETTER + "redeliveries", b"%d" % why.redeliveries),
            *((DEAD_LETTER + name, content) for name, content in why.more),
        ]

    def _retry_later(self, reason: str, retry: Callable[[], None]) -> None:
        if not self._warned:
            self._warned = True
            log.error("dead letter not written, trying again", topic=self._topic, to=self._to, reason=reason)
        self._loop.call_later(_RETRY_PAUSE, retry)


def _reason(event: EncodedEvent, error: AmqpError | None) -> DeadLetterReason:
    condition = str(error.condition) if error else ""
    return DeadLetterReason(condition, error.description if error else "", event.attempts)
