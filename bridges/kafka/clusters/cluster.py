"""A Kafka cluster: whether it is reachable, requests to it, and the readers of its topics.

Nothing here blocks the event loop: requests run in a small pool of threads (`admin`), a bounded number at a
time. Metadata is refreshed every `refresh` seconds and when something goes wrong (KM-9). An unreachable cluster
is a normal state: `up` says so, and senders get `released` at once instead of waiting.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final, TypeVar

import structlog
from confluent_kafka import KafkaException

from bridges.kafka.admin.client import Admin, Bounds, Topic
from bridges.kafka.admin.committed import PATIENCE, committed
from bridges.kafka.admin.embedded import EmbeddedKafka
from bridges.kafka.admin.offset_mirror import Mirror
from bridges.kafka.admin.offset_queries import OffsetQueryCoalescer, mark_retrieved
from bridges.kafka.clusters.topics import TopicTable, TopicWatcher
from bridges.kafka.common import errors
from bridges.kafka.common.ahead import StoredPosition
from bridges.kafka.common.librdkafka import ClientSettings
from bridges.kafka.consume.fetch_scheduler import FetchScheduler
from bridges.kafka.consume.reader import PartitionReader, ReaderOwner, join_all
from gateway.errors import NOT_FOUND, RESOURCE_LIMIT_EXCEEDED, AmqpError
from gateway.held.logs import SINGLE, LogDemand, LogShare, TurnBudget, unlimited, whole
from gateway.tasks import Supervisor, set_within
from policies.rules import legal_topic

EMBEDDED: Final = "embedded"
COMMITTED: Final = "read_committed"
_THREADS: Final = 4
_MAX_REASONS: Final = 8
"""Reasons that are logged for one outage."""
_READER_TIMEOUT: Final = 2.0
"""Seconds that `close` waits for the thread of each reader."""
_MAX_CALLS: Final = 1000
_MAX_EMBEDDED_TOPICS: Final = 64
_EMBEDDED_PARTITIONS: Final = 4
T = TypeVar("T")
log = structlog.get_logger(logger_name="kafka")


REFRESH: Final = 10.0
"""Seconds between two reads of the metadata of topics, where nothing goes wrong."""
TIMEOUT: Final = 3.0
"""Seconds that Kafka has to answer a question before it counts as unreachable."""


@dataclass(frozen=True)
class ClusterConfig:
    """How to reach a cluster. `client` has librdkafka settings, such as security, with the values of secrets.

    `topics` (name to partitions) are created on an embedded cluster; if it is empty, topics are created when used.
    `plain`: the cluster at `bootstrap` is librdkafka's mock cluster as well.
    """

    bootstrap: str = EMBEDDED
    client: Mapping[str, str] = field(default_factory=dict)
    topics: Mapping[str, int] = field(default_factory=dict)
    refresh: float = field(default_factory=lambda: REFRESH)
    retry: float = 1.0
    timeout: float = field(default_factory=lambda: TIMEOUT)
    max_readers: int = 16
    """The most Kafka clients that read, however many links there are."""
    cache: int = 64 * 1024 * 1024
    """Bytes of records cached for links that are a little behind."""
    plain: bool = False
    transactional_producers: int = 20
    """The most transactions that are open at a time."""


class Cluster:
    """One cluster of the policy; used from the event loop only."""

    def __init__(
        self, name: str, config: ClusterConfig, loop: asyncio.AbstractEventLoop, supervisor: Supervisor
    ) -> None:
        self.name: Final = name
        self.config: Final = config
        self.loop: Final = loop
        self.supervisor: Final = supervisor
        self.up, self._reason = False, "not asked yet"
        self._embedded = EmbeddedKafka() if config.bootstrap == EMBEDDED else None
        self.bootstrap: Final = self._embedded.bootstrap if self._embedded else config.bootstrap
        self._threads: Final = ThreadPoolExecutor(_THREADS, thread_name_prefix=f"kafka-{name}")
        self._calls = 0
        self._admin: Final = Admin(self.settings(), timeout=config.timeout, plain=self.plain)
        self._mirror: Final = Mirror(self.settings())
        self._topics: Final = TopicTable(name, loop)
        self._lookups: Final[dict[str, asyncio.Future[Topic]]] = {}
        self._created: Final[set[str]] = set()
        self._turns: Final[dict[str, int]] = {}
        self._unmirrored: Final[set[str]] = set()
        self._logged_reasons: Final[set[str]] = set()
        self._probe_wanted: Final = asyncio.Event()
        self.probed: Final = asyncio.Event()
        self.turn_budget = unlimited(loop)
        self._share = whole(LogDemand(config.cache, config.max_readers))
        self._schedulers: Final[dict[tuple[str, bool], FetchScheduler]] = {}
        self.scheduler: Final = self.scheduler_of(COMMITTED)
        self._offset_queries: Final = OffsetQueryCoalescer(self._bounds, supervisor)
        self._closing = False
        self._refresher = supervisor.keep(self._refresh, f"kafka-refresh:{name}")

    @property
    def plain(self) -> bool:
        """Whether this is librdkafka's mock cluster, which has no lookup by time, topic ids or topic settings."""
        return self._embedded is not None or self.config.plain

    def scheduler_of(self, isolation: str, *, single: bool = False) -> FetchScheduler:
        """The readers with this isolation level (KM-17); few nodes use another than `read_committed`.

        `single`: those for single records, which fetch little of what follows.
        """
        found = self._schedulers.get((isolation, single))
        if found is None:
            found = self._schedulers[isolation, single] = self._make_scheduler(isolation, single)
        return found

    def reading(self) -> dict[str, float]:
        """Gauges of the readers and their caches, summed over all schedulers."""
        total: dict[str, float] = {}
        for scheduler in self._schedulers.values():
            for name, value in scheduler.states().items():
                total[name] = total.get(name, 0) + value
        return total

    @property
    def held(self) -> int:
        """Bytes of cached records, and of records that may be in the readers' clients."""
        return sum(scheduler.held for scheduler in self._schedulers.values())

    def limit(self, share: LogShare, turn: TurnBudget) -> None:
        """Set the memory for the readers of each isolation level, and for what links are sent in one turn."""
        self._share, self.turn_budget = share, turn
        for (_, single), scheduler in self._schedulers.items():
            if not single:
                scheduler.limit(share)

    def _make_scheduler(self, isolation: str, single: bool) -> FetchScheduler:
        def reader(owner: ReaderOwner) -> PartitionReader:
            queue = (SINGLE if single else self._share).queue
            return PartitionReader(self.settings(), self.loop, owner, isolation, queue, single=single)

        return FetchScheduler(
            reader,
            self.loop.call_soon,
            self.loop.call_later,
            share=SINGLE if single else self._share,
            trouble=self.probe_soon,
            gone=self._topics.gone,
        )

    def settings(self) -> ClientSettings:
        """The settings of every client of this cluster."""
        return {
            "bootstrap.servers": self.bootstrap,
            "client.id": "scopegate",
            "log_level": 0,
            "reconnect.backoff.ms": 50,
            "reconnect.backoff.max.ms": 1000,
            **self.config.client,
        }

    def known_topics(self) -> dict[str, int]:
        """The number of partitions of each topic that is known because it is used."""
        return self._topics.sizes()

    def ready(self) -> tuple[bool, str]:
        """For `/readyz`; the detail of an embedded cluster has its address, because it chooses its port itself."""
        state = f"embedded at {self.bootstrap}" if self._embedded else "up"
        return self.up, f"kafka {self.name}: {state if self.up else self._reason}"

    # -- requests

    async def topic(self, name: str) -> Topic:
        """A topic; NOT_FOUND if it does not exist, INTERNAL_ERROR if Kafka does not answer.

        A link must not resume a position in a log that was created again meanwhile (KM-18), so an attach uses what was
        seen less than `STALE` seconds ago; many attaches share one lookup.
        """
        known = self._topics.get(name)
        if known is not None and (not self.up or self._topics.is_fresh(name)):
            return known
        if (lookup := self._lookups.get(name)) is not None:
            return await asyncio.shield(lookup)
        lookup = self._lookups[name] = self.loop.create_future()
        lookup.add_done_callback(mark_retrieved)
        try:
            lookup.set_result(topic := await self._find(name))
            return topic
        except BaseException as error:
            lookup.set_exception(error)
            raise
        finally:
            del self._lookups[name]

    async def _find(self, name: str) -> Topic:
        if not legal_topic(name):
            raise AmqpError(NOT_FOUND, "an event log cannot have this name")
        await self.probed.wait()
        if self._embedded is not None:
            await self._create_topic(self._embedded, name)
        try:
            topic = await self._ask(name, lambda: self._admin.topic(name))
        except AmqpError as error:
            if (known := self._topics.get(name)) is None:
                raise
            if error.condition != NOT_FOUND:  # Kafka is away for a moment: use what was seen last
                return known
            self._topics.gone(name)
            raise
        self._topics.update(topic)
        self._topics.warn_of_times(topic)
        return topic

    async def bounds(self, topic: str, partitions: Iterable[int], isolation: str = COMMITTED) -> dict[int, Bounds]:
        """Log start and end of each partition for readers of this isolation; committed: the last stable offset."""
        return await self._offset_queries.bounds(topic, partitions, isolation)

    async def _bounds(self, topic: str, partitions: tuple[int, ...], isolation: str) -> dict[int, Bounds]:
        committed = isolation == COMMITTED
        found = await self._ask(topic, lambda: self._admin.bounds(topic, partitions, committed=committed))
        lows = {partition: bounds.low for partition, bounds in found.items()}
        for scheduler in self._schedulers.values():
            scheduler.truncate(topic, lows)
        return found

    async def first_since(self, topic: str, partitions: Iterable[int], time_ms: int) -> dict[int, int]:
        """The first offset per partition with a timestamp of at least `time_ms`; not on the mock cluster."""
        return await self._ask(topic, lambda: self._admin.first_since(topic, partitions, time_ms))

    async def commit(self, group: str, topic: str, positions: Mapping[int, int]) -> None:
        """Commit positions for lag tools; a failure is logged once for each topic, and otherwise ignored."""
        if self.plain or not self.up:
            return
        try:
            await self.in_thread(lambda: self._mirror.commit(group, topic, positions))
        except (KafkaException, TimeoutError, AmqpError) as error:
            if topic not in self._unmirrored:
                self._unmirrored.add(topic)
                log.warning("positions not mirrored as committed offsets", topic=topic, reason=str(error))

    async def committed(
        self, group: str, topic: str, partitions: Iterable[int], seconds: float = PATIENCE
    ) -> dict[int, StoredPosition]:
        """The positions that transactions have committed for a group; INTERNAL_ERROR while one of them is open."""
        return await self._ask(topic, lambda: committed(self.settings(), group, topic, partitions, seconds))

    async def _ask(self, topic: str, call: Callable[[], T]) -> T:
        try:
            return await self.in_thread(call)
        except KafkaException as error:
            cause = errors.cause_of(error)
            self.probe_soon()
            raise errors.link_error(cause) from error
        except TimeoutError as error:
            self.probe_soon()
            raise errors.unreachable() from error

    async def in_thread(self, call: Callable[[], T]) -> T:
        """Make a blocking call; RESOURCE_LIMIT_EXCEEDED if too many are waiting, INTERNAL_ERROR after `close`."""
        if self._closing:
            raise errors.unreachable()
        if self._calls >= _MAX_CALLS:
            raise AmqpError(RESOURCE_LIMIT_EXCEEDED, "too many links are waiting for Kafka")
        self._calls += 1
        try:
            return await self.loop.run_in_executor(self._threads, call)
        finally:
            self._calls -= 1

    async def _create_topic(self, embedded: EmbeddedKafka, name: str) -> None:
        """Create a topic of the embedded cluster on its first use, unless the policy lists its topics."""
        if self.config.topics or name in self._created:
            return
        if len(self._created | {name}) > _MAX_EMBEDDED_TOPICS:
            raise AmqpError(RESOURCE_LIMIT_EXCEEDED, f"the embedded Kafka is limited to {_MAX_EMBEDDED_TOPICS} topics")
        await self.in_thread(lambda: embedded.create_topic(name, _EMBEDDED_PARTITIONS))
        self._created.add(name)

    def round_robin(self, key: str, partitions: Sequence[int]) -> int:
        """The next of these partitions; `key` is a topic and a direction (ES-4-11)."""
        turn = self._turns[key] = self._turns.get(key, -1) + 1
        return partitions[turn % len(partitions)]

    def watch(self, topic: Topic | str, watcher: TopicWatcher) -> None:
        """See `TopicTable.watch`."""
        self._topics.watch(topic, watcher)

    def unwatch(self, topic: str, watcher: TopicWatcher) -> None:
        """See `TopicTable.unwatch`."""
        self._topics.unwatch(topic, watcher)

    # -- refreshing

    def probe_soon(self) -> None:
        """A client has reported an error: check now whether Kafka is reachable."""
        self._probe_wanted.set()

    async def _refresh(self) -> None:
        if self._embedded is not None:
            await self.loop.run_in_executor(self._threads, self._embedded.create_topics, self.config.topics)
        while True:
            self._probe_wanted.clear()
            await self._probe()
            if self.up:
                await self._refresh_topics()
            pause = self.config.refresh if self.up else self.config.retry
            if await set_within(self._probe_wanted, pause):
                await asyncio.sleep(min(0.1, pause))  # errors come in bursts: one probe serves them all

    async def _probe(self) -> None:
        try:
            await self.loop.run_in_executor(self._threads, self._admin.brokers)
            up, reason = True, ""
        except KafkaException as error:
            up, reason = False, f"not reachable ({errors.cause_of(error).str()})"
        if up != self.up or not self.probed.is_set():
            self._logged_reasons.clear()
        if reason not in self._logged_reasons and len(self._logged_reasons) < _MAX_REASONS:
            # the cause is often known only a little later
            self._logged_reasons.add(reason)
            log.log(20 if up else 40, "kafka up" if up else "kafka down", cluster=self.name, reason=reason)
        self.up, self._reason = up, reason
        self.probed.set()

    async def _refresh_topics(self) -> None:
        for name in self._topics.names():
            if not self._topics.watched(name):  # the next attach asks again
                self._topics.forget(name)
                continue
            try:
                new = await self.in_thread(lambda name=name: self._admin.topic(name))  # type: ignore[misc]
            except (KafkaException, TimeoutError, AmqpError) as error:  # AmqpError: too many calls are waiting
                if isinstance(error, KafkaException) and errors.cause_of(error).code() in errors.UNKNOWN_TOPIC:
                    self._topics.gone(name)
                continue
            self._topics.update(new)
            if buffered := self.scheduler.buffered(name):
                with contextlib.suppress(AmqpError):
                    await self.bounds(name, buffered)

    async def close(self) -> None:
        """Stop the readers and all requests; an embedded cluster ends as well."""
        self._closing = True
        self._refresher.cancel()
        readers = [reader for scheduler in self._schedulers.values() for reader in scheduler.stop()]
        await self.loop.run_in_executor(None, join_all, readers, _READER_TIMEOUT)
        await self.loop.run_in_executor(None, self._mirror.close)
        await self.loop.run_in_executor(None, lambda: self._threads.shutdown(wait=True, cancel_futures=True))
        if self._embedded is not None:
            self._embedded.close()
