"""Writes rows of the gateway itself, such as the journal, to a topic, if the producer has room for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from confluent_kafka import KafkaError

from bridges.kafka.clusters.cluster import Cluster
from bridges.kafka.produce.producer import ROOM, ClusterProducer
from gateway.errors import AmqpError, Fault

TopicRow = tuple[object, ...]
"""A row that becomes a record; it begins with the record's value."""
Done = Callable[[Sequence[Any], str | None], None]
"""Called with rows, and None or the reason why they are not, or perhaps not, written."""


class RowProducer:
    """Writes to one topic, through the producer that send links share."""

    def __init__(self, cluster: Cluster, producer: ClusterProducer, topic: str) -> None:
        self._cluster: Final = cluster
        self._producer: Final = producer
        self._topic: Final = topic

    async def reach(self) -> None:
        """Return if the topic exists and its cluster is reachable; raises AmqpError otherwise."""
        await self._producer.refresh_partitions(await self._cluster.topic(self._topic))
        if not self._cluster.up:
            raise AmqpError("", self._cluster.ready()[1], fault=Fault.BACKEND)

    def append(self, key: bytes, rows: Sequence[TopicRow], done: Done) -> int:
        """Produce rows as records with one key; returns how many of them there was room for.

        `done` is called once for each of these rows, with several at a time.
        """
        if len(self._producer) >= ROOM:
            return 0
        return self._producer.produce_rows(self._topic, key, list(rows), _RowOwner(done))


class _RowOwner:
    """The owner of the records of one call of `append`."""

    def __init__(self, done: Done) -> None:
        self._done: Final = done

    def on_written(self, contexts: list[Any]) -> None:
        self._done(contexts, None)

    def on_failed(self, contexts: list[Any], error: KafkaError, *, keyed: bool, batch: int) -> None:
        self._done(contexts, error.str())
