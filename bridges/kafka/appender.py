"""Records for a topic of the gateway's own, the journal's: handed over if there is room, never waited for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from confluent_kafka import KafkaError, KafkaException

from bridges.kafka.cluster import Cluster
from bridges.kafka.producer import ROOM, ClusterProducer, Told
from gateway.errors import AmqpError, Fault

_ANY: Final = -1


class Appender:
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

    def append(self, key: bytes, value: bytes, done: Callable[[str | None], None]) -> bool:
        """Hand a record over; `done` gets None, or why it is not (or perhaps not) written.

        False: there is no room, and `done` is not called.
        """

        def report(error: KafkaError | None) -> None:
            done(None if error is None else error.str())

        if len(self._producer) >= ROOM:
            return False
        try:
            self._producer.produce(self._topic, _ANY, key, value, None, Told(report))
        except (BufferError, KafkaException):
            return False
        return True
