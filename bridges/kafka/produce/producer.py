"""The idempotent producers of a cluster; delivery reports arrive on the event loop (KM-15).

`produce` only puts a record into librdkafka's queue. Reports are taken on the loop, all that are there at once: a
thread of its own would fight the loop for the interpreter. While anything is in flight they are asked for every
millisecond.

One producer serves all topics but those that take less than others: a broker refuses a batch that is larger than its
topic takes with all that is in it, and how large batches become is a setting of the producer. So these topics have
producers of their own, one for each power of two.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final

import structlog
from confluent_kafka import KafkaError, KafkaException

from bridges.kafka.admin.client import Topic
from bridges.kafka.cluster import Cluster
from bridges.kafka.produce.client import Came, Group, Header, ProduceClient, ProduceOwner, outbox
from gateway.errors import AmqpError

_BUSY: Final = 0.001
_IDLE: Final = 0.1
_METADATA: Final = 5.0
_SETTINGS: Final[dict[str, Any]] = {
    "acks": "all",
    "enable.idempotence": True,
    # What the Java clients do with keys, so that one key means one partition everywhere (ES-4.6.7-5).
    "partitioner": "murmur2_random",
    # Measured (docs/decisions/0018-reports-in-c.md): at 1 ms the broker gets twice the requests and librdkafka's thread
    # hardly sleeps, at 5 ms everybody waits.
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
log = structlog.get_logger(logger_name="kafka")


class ReportCallback:
    """The owner of one record, for whom a call will do: with None when it is written."""

    __slots__ = ("_report",)

    def __init__(self, report: Callable[[KafkaError | None], None]) -> None:
        self._report: Final = report

    def on_written(self, contexts: list[Any]) -> None:
        self._report(None)

    def on_failed(self, contexts: list[Any], error: KafkaError, *, keyed: bool, batch: int) -> None:
        self._report(error)


class ClusterProducer:
    """What sending links share; used from the event loop only."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster: Final = cluster
        self._loop: Final = cluster.loop
        self._settings: Final = {**_SETTINGS, **cluster.settings()}
        self._retired: list[tuple[int, ProduceClient]] = []
        self._due: Final[deque[tuple[int, Group]]] = deque()
        """Reports whose owners are still to hear of them."""
        self._busy = False
        self._closed = False
        self._idle: Final = asyncio.Event()
        self._partitions: Final[dict[str, int]] = {}
        self._learning: Final = asyncio.Lock()
        self._outboxes: Final[dict[int, ProduceClient]] = {}
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
        headers: list[Header] | None,
        owner: ProduceOwner,
        context: Any = None,
    ) -> None:
        """Hand a record over; `owner` hears once what became of it, unless `BufferError` or `KafkaException` is raised.

        The record's time is the time of this call (KM-3).
        """
        self._outbox_of(topic).put(topic, partition, key, value, headers, owner, context)
        if not self._busy:
            self._begin()

    def produce_plain(
        self, topic: str, partition: int, messages: Sequence[Came], start: int, owner: ProduceOwner
    ) -> int:
        """Hand over messages from `start` on while they are nothing but data, with their deliveries as contexts.

        Returns the number of the first one that is not, or that librdkafka does not take.
        """
        end = self._outbox_of(topic).put_plain(topic, partition, messages, start, owner)
        if not self._busy and end > start:
            self._begin()
        return end

    def _outbox_of(self, topic: str) -> ProduceClient:
        return self._outboxes[self._narrow.get(topic, self._widest)]

    def _begin(self) -> None:
        """Something is in flight."""
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
            producer = self._outbox_of(topic.name).client
            if known < topic.partitions:
                with contextlib.suppress(KafkaException, AmqpError):  # away: what is sent now is released or waits
                    await self._cluster.in_thread(lambda: producer.list_topics(topic.name, timeout=_METADATA))
                    self._partitions[topic.name] = topic.partitions

    @staticmethod
    def fits(batch: int, topic: Topic) -> bool:
        """Whether the topic takes batches of so many bytes: one that it refuses then is a record alone."""
        return batch <= max(1, topic.max_bytes - _FRAME)

    def _fit(self, topic: Topic) -> None:
        """Let no batch be larger than the topic takes; a topic that takes more again keeps its smaller ones."""
        takes = max(1, topic.max_bytes - _FRAME)
        if takes < self._narrow.get(topic.name, self._widest):
            size = self._narrow[topic.name] = 1 << takes.bit_length() - 1
            if size not in self._outboxes:
                self._make(size)

    def _make(self, size: int) -> None:
        self._outboxes[size] = outbox({**self._settings, "batch.size": size}, partial(self._error, size))

    def _all(self) -> list[tuple[int, ProduceClient]]:
        return [*self._outboxes.items(), *self._retired]

    def __len__(self) -> int:
        """Records whose report is still to come."""
        return sum(len(each.client) for _, each in self._all()) + len(self._due)

    @property
    def held(self) -> int:
        """Bytes that these records take in librdkafka's queues: a copy beside the message that has no outcome yet."""
        return sum(each.size for _, each in self._all())

    def _poll(self) -> None:
        try:
            self._hear(self._all())
            if self._retired:
                self._retired = [pair for pair in self._retired if len(pair[1].client)]
        finally:  # a report that fails must not end all others
            self._busy = len(self) > 0
            if not self._busy:
                self._idle.set()
            if not self._closed:
                self._timer = self._loop.call_later(_BUSY if self._busy else _IDLE, self._poll)

    def _hear(self, outboxes: Iterable[tuple[int, ProduceClient]]) -> None:
        """Tell the owners of records what became of them; who fails leaves the others for the next time."""
        due = self._due
        for size, each in outboxes:
            due.extend((size, group) for group in each.reports())
        while due:
            size, (owner, code, keyed, contexts) = due.popleft()
            if code:
                owner.on_failed(contexts, KafkaError(code), keyed=keyed, batch=size)
            else:
                owner.on_written(contexts)

    def _error(self, size: int, error: KafkaError) -> None:
        """Called from `poll`: a broker went away, or this producer can write no more."""
        self._cluster.probe_soon()
        if error.fatal():
            log.error("kafka producer replaced", cluster=self._cluster.name, reason=error.str())
            self._retired.append((size, self._outboxes[size]))
            self._make(size)

    async def close(self, limit: float) -> None:
        """Wait up to `limit` seconds for what is in flight, then stop."""
        if self._busy:
            self._idle.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._idle.wait(), limit)
        self._closed = True
        self._timer.cancel()
        for _, each in self._all():
            each.client.purge()
        self._hear(self._all())
