"""Events that a consumer cannot take, copied to a topic of their own before they count as done with (KM-12).

The record is the event as its topic has it (key, value, headers), and behind its headers why and from where it came.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

import structlog
from confluent_kafka import KafkaError, KafkaException

from bridges.kafka.counters import ClusterCounters
from bridges.kafka.produce.producer import ROOM, ClusterProducer, ReportCallback
from bridges.kafka.records.envelope import DEAD_LETTER, Header
from bridges.kafka.records.event import EncodedEvent
from bridges.kafka.records.mapping import RecordWriter
from gateway.amqp.message import sections
from gateway.errors import AmqpError

_AGAIN: Final = 1.0
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
        """`keys` is where records of the topic have their keys from: copies keep theirs."""
        self._producer: Final = producer
        self._loop: Final = loop
        self._counters: Final = counters
        self._topic: Final = topic
        self._to: Final = to
        self._writer: Final = RecordWriter(keys=keys)
        self._warned = False

    def bury(
        self, event: EncodedEvent, error: AmqpError | None, done: Callable[[], None], wanted: Callable[[], bool]
    ) -> None:
        """Copy `event`; `done` when Kafka has it. Tried again and again while `wanted`."""
        key, value, headers = self._writer.record(event.data, sections.walk(event.data))
        why = error.condition if error else ""
        told: list[Header] = [
            (DEAD_LETTER + "topic", self._topic.encode()),
            (DEAD_LETTER + "partition", b"%d" % event.partition),
            (DEAD_LETTER + "offset", b"%d" % event.offset),
            (DEAD_LETTER + "condition", str(why).encode()),
            (DEAD_LETTER + "description", (error.description if error else "").encode()),
            (DEAD_LETTER + "redeliveries", b"%d" % event.attempts),
        ]

        def again() -> None:
            if wanted():
                self.bury(event, error, done, wanted)

        def report(failure: KafkaError | None) -> None:
            if failure is None:
                self._counters.dead_lettered += 1
                self._warned = False
                done()
            else:
                self._later(failure.str(), again)

        if len(self._producer) >= ROOM:
            self._later("the producer's queue is half full", again)
            return
        try:
            self._producer.produce(self._to, _ANY, key, value, [*headers, *told], ReportCallback(report))
        except (BufferError, KafkaException) as failure:
            self._later(str(failure), again)

    def _later(self, reason: str, again: Callable[[], Any]) -> None:
        if not self._warned:
            self._warned = True
            log.error("dead letter not written, trying again", topic=self._topic, to=self._to, reason=reason)
        self._loop.call_later(_AGAIN, again)
