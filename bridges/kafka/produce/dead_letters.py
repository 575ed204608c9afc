"""Copies events that a consumer refuses to a dead-letter topic before they count as done (KM-12).

The copy has the key, value and headers of the record, and more headers with its origin and the reason.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

import structlog
from confluent_kafka import KafkaError, KafkaException

from bridges.kafka.counters import ClusterCounters
from bridges.kafka.produce.producer import ROOM, ClusterProducer, ReportCallback
from bridges.kafka.records.envelope import DEAD_LETTER, Header
from bridges.kafka.records.event import EncodedEvent
from bridges.kafka.records.mapping import RecordWriter
from gateway.amqp.message import sections
from gateway.errors import AmqpError

_RETRY_PAUSE: Final = 1.0
_ANY: Final = -1
log = structlog.get_logger(logger_name="kafka")


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
        key, value, headers = self._writer.record(event.data, sections.walk(event.data))
        condition = error.condition if error else ""
        origin: list[Header] = [
            (DEAD_LETTER + "topic", self._topic.encode()),
            (DEAD_LETTER + "partition", b"%d" % event.partition),
            (DEAD_LETTER + "offset", b"%d" % event.offset),
            (DEAD_LETTER + "condition", str(condition).encode()),
            (DEAD_LETTER + "description", (error.description if error else "").encode()),
            (DEAD_LETTER + "redeliveries", b"%d" % event.attempts),
        ]

        def retry() -> None:
            if wanted():
                self.write(event, error, done, wanted)

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
        try:
            self._producer.produce(self._to, _ANY, key, value, [*headers, *origin], ReportCallback(report))
        except (BufferError, KafkaException) as failure:
            self._retry_later(str(failure), retry)

    def _retry_later(self, reason: str, retry: Callable[[], None]) -> None:
        if not self._warned:
            self._warned = True
            log.error("dead letter not written, trying again", topic=self._topic, to=self._to, reason=reason)
        self._loop.call_later(_RETRY_PAUSE, retry)
