"""The idempotent producers of a cluster; delivery reports are handled on the event loop (KM-15).

`produce` only puts a record into librdkafka's queue. The loop takes all available reports at once, every millisecond
while records are in flight: a separate thread would compete with the loop for the interpreter.

One producer serves all topics, except those with a small `max.message.bytes`. A broker refuses a whole batch that is
larger than its topic permits, and the size of batches is a setting of the producer. So these topics have other
producers, one for each power of two.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final

import structlog
from confluent_kafka import KafkaError, KafkaException

from bridges.kafka.admin.client import Topic
from bridges.kafka.clusters.cluster import Cluster
from bridges.kafka.common.librdkafka import ClientSettings
from bridges.kafka.produce.client import (
    Header,
    ProduceClient,
    ProduceOwner,
    ReportContext,
    Reports,
    WrittenSeconds,
    make_client,
)
from gateway.amqp.link.handlers import Transfer
from gateway.errors import AmqpError
from gateway.tasks import set_within

_BUSY: Final = 0.001
"""Seconds between two polls while records are in flight."""
_IDLE: Final = 0.1
_METADATA_TIMEOUT: Final = 5.0
SETTINGS: Final[ClientSettings] = {
    "acks": "all",
    "enable.idempotence": True,
    # As Java clients, so that a key has the same partition whoever produces it (ES-4.6.7-5).
    "partitioner": "murmur2_random",
    # Measured (docs/decisions/0018-reports-in-c.md): at 1 ms the broker gets twice the requests and librdkafka's thread
    # hardly sleeps, at 5 ms records wait.
    "linger.ms": 2,
    "queue.buffering.max.messages": 100_000,
    "queue.buffering.max.kbytes": 262_144,
    "message.max.bytes": 100_000_000,
    # No outcome comes later than this: a record that is not written by then gets `modified`.
    "message.timeout.ms": 30_000,
}
"""The settings of all producers."""
_BATCH: Final = 1_000_000
"""Bytes of a batch, librdkafka's default: less than the default `max.message.bytes` of topics."""
_FRAME: Final = 512
"""Bytes of a batch beside its records, roughly."""
ROOM: Final = 50_000
"""Records in flight above which only send links may add more: half of a queue (`queue.buffering.max.messages`)."""
log = structlog.get_logger(logger_name="kafka")


class ReportCallback:
    """The owner of one record: calls a function with the error, or None when the record is written."""

    __slots__ = ("_report",)

    def __init__(self, report: Callable[[KafkaError | None], None]) -> None:
        self._report: Final = report

    def on_written(self, contexts: list[ReportContext]) -> None:
        self._report(None)

    def on_failed(self, contexts: list[ReportContext], error: KafkaError, *, keyed: bool, batch: int) -> None:
        self._report(error)


class ClusterProducer:
    """The producers that all send links of a cluster share; used from the event loop only."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster: Final = cluster
        self._loop: Final = cluster.loop
        self._settings: Final = {**SETTINGS, **cluster.settings()}
        self._retired: list[tuple[int, ProduceClient]] = []
        self._due: Final[deque[tuple[int, Reports]]] = deque()
        """Batch size of the producer, and reports that are not passed to their owners yet."""
        self._busy = False
        self._closed = False
        self._idle: Final = asyncio.Event()
        self._partitions: Final[dict[str, int]] = {}
        self._refreshing: Final = asyncio.Lock()
        self._clients: Final[dict[int, ProduceClient]] = {}
        """By batch size."""
        self._batch_sizes: Final[dict[str, int]] = {}
        """The batch size of topics with a small `max.message.bytes`."""
        self._default_size: Final = int(self._settings.get("batch.size", _BATCH))
        self._add_client(self._default_size)
        self._timer: asyncio.TimerHandle = self._loop.call_later(_IDLE, self._poll)

    def produce(
        self,
        topic: str,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        headers: list[Header] | None,
        owner: ProduceOwner,
        context: ReportContext = None,
    ) -> None:
        """Produce a record; `owner` gets one report, unless this raises `BufferError` or `KafkaException`.

        The timestamp of the record is the time of this call (KM-3).
        """
        self._client_for(topic).put(topic, partition, key, value, headers, owner, context)
        if not self._busy:
            self._begin()

    def produce_messages(
        self, topic: str, partition: int, messages: Sequence[Transfer], start: int, owner: ProduceOwner, rules: int
    ) -> int:
        """Produce messages from `start` on while C makes their records, with their deliveries as contexts.

        Returns the index of the first one of which it does not, or that librdkafka does not accept.
        """
        end = self._client_for(topic).put_messages(topic, partition, messages, start, owner, rules)
        if not self._busy and end > start:
            self._begin()
        return end

    def produce_rows(self, topic: str, key: bytes, rows: list[tuple[object, ...]], owner: ProduceOwner) -> int:
        """As `ProduceClient.put_rows`."""
        taken = self._client_for(topic).put_rows(topic, key, rows, owner)
        if not self._busy and taken:
            self._begin()
        return taken

    def _client_for(self, topic: str) -> ProduceClient:
        return self._clients[self._batch_sizes.get(topic, self._default_size)]

    def _begin(self) -> None:
        """Poll often: a record is in flight."""
        self._busy = True
        self._timer.cancel()
        self._timer = self._loop.call_later(_BUSY, self._poll)

    async def refresh_partitions(self, topic: Topic) -> None:
        """Make all partitions of a topic known to librdkafka, which would otherwise refuse new ones (KM-9).

        librdkafka itself finds them minutes later. Asks Kafka only if the topic has grown since its first use.
        """
        self._limit_batches(topic)
        async with self._refreshing:  # many links are notified of growth together: the first one asks
            known = self._partitions.setdefault(topic.name, topic.partitions)
            producer = self._client_for(topic.name).client
            if known < topic.partitions:
                with contextlib.suppress(KafkaException, AmqpError):  # unreachable: records are released or wait
                    await self._cluster.in_thread(lambda: producer.list_topics(topic.name, timeout=_METADATA_TIMEOUT))
                    self._partitions[topic.name] = topic.partitions

    @staticmethod
    def fits(batch: int, topic: Topic) -> bool:
        """Whether the topic permits batches of so many bytes; if it refuses one, that has a single large record."""
        return batch <= max(1, topic.max_bytes - _FRAME)

    def _limit_batches(self, topic: Topic) -> None:
        """Limit batches to what the topic permits; the limit is not raised again later."""
        most = max(1, topic.max_bytes - _FRAME)
        if most < self._batch_sizes.get(topic.name, self._default_size):
            size = self._batch_sizes[topic.name] = 1 << most.bit_length() - 1
            if size not in self._clients:
                self._add_client(size)

    def _add_client(self, size: int) -> None:
        self._clients[size] = make_client({**self._settings, "batch.size": size}, partial(self._error, size))

    def _all(self) -> list[tuple[int, ProduceClient]]:
        return [*self._clients.items(), *self._retired]

    def __len__(self) -> int:
        """Records without a report yet."""
        return sum(len(each.client) for _, each in self._all()) + len(self._due)

    @property
    def held(self) -> int:
        """Bytes of these records in librdkafka's queues, which are copies of the unsettled messages."""
        return sum(each.size for _, each in self._all())

    @property
    def written(self) -> WrittenSeconds:
        """How long records took to be written; those of a producer that was replaced count while it has records."""
        readings = [each.written for _, each in self._all()]
        counts = [sum(column) for column in zip(*(counts for counts, _ in readings), strict=True)]
        return counts, sum(total for _, total in readings)

    def _poll(self) -> None:
        try:
            self._pass_reports(self._all())
            if self._retired:
                self._retired = [pair for pair in self._retired if len(pair[1].client)]
        finally:  # an error in one owner must not stop the polling
            self._busy = len(self) > 0
            if not self._busy:
                self._idle.set()
            if not self._closed:
                self._timer = self._loop.call_later(_BUSY if self._busy else _IDLE, self._poll)

    def _pass_reports(self, clients: Iterable[tuple[int, ProduceClient]]) -> None:
        """Pass reports to their owners; if an owner raises an error, the other reports follow with the next poll."""
        due = self._due
        for size, each in clients:
            due.extend((size, reports) for reports in each.reports())
        while due:
            size, (owner, code, keyed, contexts) = due.popleft()
            if code:
                owner.on_failed(contexts, KafkaError(code), keyed=keyed, batch=size)
            else:
                owner.on_written(contexts)

    def _error(self, size: int, error: KafkaError) -> None:
        """Called from `poll`: a broker went away, or the producer cannot write any more and is replaced."""
        self._cluster.probe_soon()
        if error.fatal():
            log.error("kafka producer replaced", cluster=self._cluster.name, reason=error.str())
            self._retired.append((size, self._clients[size]))
            self._add_client(size)

    async def close(self, limit: float) -> None:
        """Wait up to `limit` seconds for records in flight, then stop."""
        if self._busy:
            self._idle.clear()
            await set_within(self._idle, limit)
        self._closed = True
        self._timer.cancel()
        for _, each in self._all():
            each.client.purge()
        self._pass_reports(self._all())
