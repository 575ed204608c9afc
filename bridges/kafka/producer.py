"""The idempotent producers of a cluster; delivery reports arrive on the event loop (KM-15).

`produce` only puts a record into librdkafka's queue. Reports are taken by `poll(0)` on the loop: librdkafka
takes the interpreter lock anew for every report, so a thread of its own would fight the loop for it a
hundred thousand times a second. While anything is in flight the poll runs every millisecond.

One producer serves all topics but those that take less than others: a broker refuses a batch that is larger than its
topic takes with all that is in it, and how large batches become is a setting of the producer. So these topics have
producers of their own, one for each power of two.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import structlog
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from bridges.kafka.admin import Topic
from bridges.kafka.cluster import Cluster
from gateway.errors import AmqpError

_BUSY: Final = 0.001
_IDLE: Final = 0.1
_METADATA: Final = 5.0
_SETTINGS: Final[dict[str, Any]] = {
    "acks": "all",
    "enable.idempotence": True,
    # What the Java clients do with keys, so that one key means one partition everywhere (ES-4.6.7-5).
    "partitioner": "murmur2_random",
    # Measured (docs/benchmarks.md): at 1 ms the broker gets twice the requests and librdkafka's thread hardly sleeps,
    # at 5 ms everybody waits.
    "linger.ms": 2,
    "queue.buffering.max.messages": 100_000,
    "queue.buffering.max.kbytes": 262_144,
    "message.max.bytes": 100_000_000,
    # No outcome comes later than this: an unwritten record ends as `modified`, never as a hang.
    "message.timeout.ms": 30_000,
}
_BATCH: Final = 1_000_000
"""Bytes of a batch, librdkafka's default: less than what topics take unless somebody says otherwise."""
_FRAME: Final = 512
"""Bytes of a batch that are no records, roughly."""
ROOM: Final = 50_000
"""Records on their way above which only traffic may add to them: half of a queue (`queue.buffering.max.messages`)."""
Report = Callable[[KafkaError | None, Message], None]
log = structlog.get_logger(logger_name="kafka")


class ClusterProducer:
    """What sending links share; used from the event loop only."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster: Final = cluster
        self._loop: Final = cluster.loop
        self._settings: Final = {**_SETTINGS, **cluster.settings()}
        self._retired: list[Producer] = []
        self._busy = False
        self._closed = False
        self._idle: Final = asyncio.Event()
        self._partitions: Final[dict[str, int]] = {}
        self._learning: Final = asyncio.Lock()
        self._producers: Final[dict[int, Producer]] = {}
        """By the size of their batches."""
        self._narrow: Final[dict[str, int]] = {}
        """The size for topics that take less than others."""
        self._widest: Final = int(self._settings.get("batch.size", _BATCH))
        self._make(self._widest)
        self._timer: asyncio.TimerHandle = self._loop.call_later(_IDLE, self._poll)

    def produce(
        self,
        topic: str,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        headers: list[Any] | None,
        report: Report,
    ) -> None:
        """Hand a record over; `report` is called once, unless `BufferError` or `KafkaException` is raised.

        The record's time is the time of this call (KM-3).
        """
        producer = self._producers[self._narrow.get(topic, self._widest)]
        if headers:
            producer.produce(topic, value, key, partition, report, headers=headers)
        else:
            producer.produce(topic, value, key, partition, report)
        if not self._busy:
            self._busy = True
            self._timer.cancel()
            self._timer = self._loop.call_later(_BUSY, self._poll)

    async def learn(self, topic: Topic) -> None:
        """Make sure that librdkafka knows of all partitions, which it else finds out minutes later (KM-9).

        It would refuse records to a new one until then. Only asks where a topic has grown since it was first used.
        """
        self._fit(topic)
        async with self._learning:  # many links hear of growth at once: the first asks
            known = self._partitions.setdefault(topic.name, topic.partitions)
            producer = self._producers[self._narrow.get(topic.name, self._widest)]
            if known < topic.partitions:
                with contextlib.suppress(KafkaException, AmqpError):  # away: what is sent now is released or waits
                    await self._cluster.in_thread(lambda: producer.list_topics(topic.name, timeout=_METADATA))
                    self._partitions[topic.name] = topic.partitions

    def _fit(self, topic: Topic) -> None:
        """Let no batch be larger than the topic takes; a topic that takes more again keeps its smaller ones."""
        takes = max(1, topic.max_bytes - _FRAME)
        if takes < self._narrow.get(topic.name, self._widest):
            size = self._narrow[topic.name] = 1 << takes.bit_length() - 1
            if size not in self._producers:
                self._make(size)

    def _make(self, size: int) -> None:
        told = partial(self._error, size)
        self._producers[size] = Producer({**self._settings, "batch.size": size, "error_cb": told})

    def __len__(self) -> int:
        """Records whose report is still to come."""
        return sum(map(len, self._producers.values())) + sum(map(len, self._retired))

    def _poll(self) -> None:
        try:
            for producer in list(self._producers.values()):
                producer.poll(0)
            self._poll_retired()
        finally:  # a report that fails must not end all others
            self._busy = len(self) > 0
            if not self._busy:
                self._idle.set()
            if not self._closed:
                self._timer = self._loop.call_later(_BUSY if self._busy else _IDLE, self._poll)

    def _poll_retired(self) -> None:
        if self._retired:
            for producer in self._retired:
                producer.poll(0)
            self._retired = [producer for producer in self._retired if len(producer)]

    def _error(self, size: int, error: KafkaError) -> None:
        """Called from `poll`: a broker went away, or this producer can write no more."""
        self._cluster.trouble()
        if error.fatal():
            log.error("kafka producer replaced", cluster=self._cluster.name, reason=error.str())
            self._retired.append(self._producers[size])
            self._make(size)

    async def close(self, limit: float) -> None:
        """Wait up to `limit` seconds for what is in flight, then stop."""
        if self._busy:
            self._idle.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._idle.wait(), limit)
        self._closed = True
        self._timer.cancel()
        for producer in (*self._producers.values(), *self._retired):
            producer.purge()
            producer.poll(0)
