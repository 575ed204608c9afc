"""Records for a topic of the gateway's own, the journal's: handed over if there is room, never waited for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from confluent_kafka import KafkaError, KafkaException

from bridges.kafka.cluster import Cluster
from bridges.kafka.produce.producer import ROOM, ClusterProducer
from gateway.errors import AmqpError, Fault

_ANY: Final = -1


class TopicRow(Protocol):
    """What becomes a record."""

    @property
    def value(self) -> bytes:
        """The record's value."""


Done = Callable[[Sequence[Any], str | None], None]


class RowProducer:
    """Writes to one topic, through the producer that sending links share."""

    def __init__(self, cluster: Cluster, producer: ClusterProducer, topic: str) -> None:
        self._cluster: Final = cluster
        self._producer: Final = producer
        self._topic: Final = topic

    async def reach(self) -> None:
        """Returns when the topic is there and its cluster up; raises AmqpError while it is not."""
        await self._producer.learn(await self._cluster.topic(self._topic))
        if not self._cluster.up:
            raise AmqpError("", self._cluster.ready()[1], fault=Fault.BACKEND)

    def append(self, key: bytes, rows: Sequence[TopicRow], done: Done) -> int:
        """Hand the rows over as records of one key; the number of those that there was room for.

        `done` hears of each of these once, several at a time: with None, or why they are not (or perhaps not) written.
        """
        if len(self._producer) >= ROOM:
            return 0
        hears = _Hears(done)
        for number, row in enumerate(rows):
            try:
                self._producer.produce(self._topic, _ANY, key, row.value, None, hears, row)
            except (BufferError, KafkaException):
                return number
        return len(rows)


class _Hears:
    """The owner of one lot of rows."""

    def __init__(self, done: Done) -> None:
        self._done: Final = done

    def on_written(self, contexts: list[Any]) -> None:
        self._done(contexts, None)

    def on_failed(self, contexts: list[Any], error: KafkaError, *, keyed: bool, batch: int) -> None:
        self._done(contexts, error.str())
