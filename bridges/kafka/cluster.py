"""A Kafka cluster as the gateway knows it: reachable or not, its topics, and who wants to hear of changes.

Nothing here blocks the event loop: questions go to a small pool of threads (`admin`), a bounded number at a
time. Metadata is asked again every `refresh` seconds and when something goes wrong (KM-9). Kafka being away
is a normal state: `up` says so, and producers get `released` at once instead of waiting.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeVar

import structlog
from confluent_kafka import KafkaException

from bridges.kafka import errors
from bridges.kafka.admin.client import Admin, Bounds, Topic
from bridges.kafka.admin.embedded import EmbeddedKafka
from bridges.kafka.admin.offset_mirror import Mirror
from bridges.kafka.admin.offset_queries import OffsetQueryCoalescer, heard
from bridges.kafka.consume.fetch_scheduler import FetchScheduler
from bridges.kafka.consume.reader import PartitionReader, join_all
from gateway.errors import NOT_FOUND, RESOURCE_LIMIT_EXCEEDED, AmqpError
from gateway.held.logs import LogDemand, LogShare, TurnBudget, unlimited, whole
from gateway.tasks import Supervisor
from policies.rules import legal_topic

EMBEDDED: Final = "embedded"
COMMITTED: Final = "read_committed"
_THREADS: Final = 4
_REASONS: Final = 8
"""How many reasons are logged for one outage."""
STALE: Final = 0.25
"""Seconds after which what was seen of a topic is asked again by who attaches."""
_READER_END: Final = 2.0
_MAX_QUESTIONS: Final = 1000
_MAX_EMBEDDED_TOPICS: Final = 64
_EMBEDDED_PARTITIONS: Final = 4
T = TypeVar("T")
log = structlog.get_logger(logger_name="kafka")


@dataclass(frozen=True)
class ClusterConfig:
    """How to reach a cluster; `client` holds librdkafka settings, such as security, secrets looked up.

    `topics` exist on an embedded cluster from the start; where it is empty, topics come into being when used.
    `plain` says that a cluster elsewhere is librdkafka's mock, too.
    """

    bootstrap: str = EMBEDDED
    client: Mapping[str, str] = field(default_factory=dict)
    topics: Mapping[str, int] = field(default_factory=dict)
    refresh: float = 10.0
    retry: float = 1.0
    timeout: float = 3.0
    max_readers: int = 16
    """Kafka clients that read, however many links there are."""
    cache: int = 64 * 1024 * 1024
    """Bytes of records kept for links that are a little behind."""
    plain: bool = False


class TopicWatcher(Protocol):
    """A link or node that lives on a topic."""

    def topic_grew(self, topic: Topic) -> None: ...
    def topic_gone(self) -> None: ...


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
        self._questions = 0
        self._admin: Final = Admin(self.settings(), timeout=config.timeout, plain=self.plain)
        self._mirror: Final = Mirror(self.settings())
        self._topics: dict[str, Topic] = {}
        self._seen: Final[dict[str, float]] = {}
        self._asked: Final[dict[str, asyncio.Future[Topic]]] = {}
        self._invented: set[str] = set()
        self._turns: Final[dict[str, int]] = {}
        self._warned: Final[set[str]] = set()
        self._unmirrored: Final[set[str]] = set()
        self._watchers: dict[str, set[TopicWatcher]] = {}
        self._said: Final[set[str]] = set()
        self._trouble = asyncio.Event()
        self.probed: Final = asyncio.Event()
        self.turn_budget = unlimited(loop)
        self._share = whole(LogDemand(config.cache, config.max_readers))
        self.scheduler: Final = self._make_scheduler(COMMITTED)
        self._uncommitted: FetchScheduler | None = None
        self._together: Final = OffsetQueryCoalescer(self._bounds, supervisor)
        self._refresher = supervisor.keep(self._keep_fresh, f"kafka-refresh:{name}")

    @property
    def plain(self) -> bool:
        """Whether the cluster cannot look up by time, tell topic ids or settings: the mock cluster."""
        return self._embedded is not None or self.config.plain

    def scheduler_of(self, isolation: str) -> FetchScheduler:
        """What is read with this isolation (KM-17); few nodes want another than `read_committed`."""
        if isolation == COMMITTED:
            return self.scheduler
        if self._uncommitted is None:
            self._uncommitted = self._make_scheduler(isolation)
        return self._uncommitted

    def reading(self) -> dict[str, float]:
        """What is read and kept now, of either isolation."""
        states, others = self.scheduler.states(), {} if self._uncommitted is None else self._uncommitted.states()
        return {name: value + others.get(name, 0) for name, value in states.items()}

    @property
    def held(self) -> int:
        """Bytes that are kept of logs, or may be in clients."""
        return self.scheduler.held + (0 if self._uncommitted is None else self._uncommitted.held)

    def limit(self, share: LogShare, turn: TurnBudget) -> None:
        """What may be taken for the readers of each isolation, and for what links are sent at once."""
        self._share, self.turn_budget = share, turn
        for scheduler in filter(None, (self.scheduler, self._uncommitted)):
            scheduler.limit(share)

    def _make_scheduler(self, isolation: str) -> FetchScheduler:
        return FetchScheduler(
            lambda owner: PartitionReader(self.settings(), self.loop, owner, isolation, self._share.queue),
            self.loop.call_soon,
            self.loop.call_later,
            share=self._share,
            trouble=self.trouble,
            gone=self._gone,
        )

    def settings(self) -> dict[str, Any]:
        """What every client of this cluster is configured with."""
        return {
            "bootstrap.servers": self.bootstrap,
            "client.id": "scopegate",
            "log_level": 0,
            "reconnect.backoff.ms": 50,
            "reconnect.backoff.max.ms": 1000,
            **self.config.client,
        }

    def ready(self) -> tuple[bool, str]:
        """For `/readyz`; an embedded cluster chose its port itself, and says here where to find it."""
        place = f"embedded at {self.bootstrap}" if self._embedded else "up"
        return self.up, f"kafka {self.name}: {place if self.up else self._reason}"

    # -- asking Kafka

    async def topic(self, name: str) -> Topic:
        """A topic that exists; NOT_FOUND otherwise, INTERNAL_ERROR while nobody answers.

        A link must not resume a position in a log that was made anew meanwhile (KM-18), so who attaches gets what was
        seen just now; many at once share one question.
        """
        known = self._topics.get(name)
        if known is not None and (not self.up or self.loop.time() - self._seen[name] < STALE):
            return known
        if (asked := self._asked.get(name)) is not None:
            return await asyncio.shield(asked)
        asked = self._asked[name] = self.loop.create_future()
        asked.add_done_callback(heard)
        try:
            asked.set_result(topic := await self._find(name))
            return topic
        except BaseException as error:
            asked.set_exception(error)
            raise
        finally:
            del self._asked[name]

    async def _find(self, name: str) -> Topic:
        if not legal_topic(name):
            raise AmqpError(NOT_FOUND, "an event log cannot have this name")
        await self.probed.wait()
        if self._embedded is not None:
            await self._invent(self._embedded, name)
        try:
            topic = await self._ask(name, lambda: self._admin.topic(name))
        except AmqpError as error:
            if (known := self._topics.get(name)) is None:
                raise
            if error.condition != NOT_FOUND:  # away for a moment: what was seen last will do
                return known
            self._gone(name)
            raise
        self._learned(name, topic)
        self._warn_of_times(topic)
        return topic

    def _learned(self, name: str, new: Topic) -> None:
        """What a topic is now; links on it hear of what has changed."""
        old = self._topics.get(name)
        if old is not None and (new.identity != old.identity or new.partitions < old.partitions):
            self._gone(name)
        self._topics[name], self._seen[name] = new, self.loop.time()
        if old is not None and new.identity == old.identity and new.partitions > old.partitions:
            self._grew(new)

    def _warn_of_times(self, topic: Topic) -> None:
        """KM-3: once per topic, when it is first used."""
        if topic.append_time is False and topic.name not in self._warned:
            self._warned.add(topic.name)
            advice = "set message.timestamp.type=LogAppendTime: peers want to know when an event was added"
            log.warning("topic keeps its producers' times", cluster=self.name, topic=topic.name, advice=advice)

    async def bounds(self, topic: str, partitions: Iterable[int], isolation: str = COMMITTED) -> dict[int, Bounds]:
        """Log start and end of each partition for readers of this isolation; a committed one ends at what is stable."""
        return await self._together.bounds(topic, partitions, isolation)

    async def _bounds(self, topic: str, partitions: tuple[int, ...], isolation: str) -> dict[int, Bounds]:
        committed = isolation == COMMITTED
        found = await self._ask(topic, lambda: self._admin.bounds(topic, partitions, committed=committed))
        lows = {partition: bounds.low for partition, bounds in found.items()}
        for scheduler in filter(None, (self.scheduler, self._uncommitted)):
            scheduler.truncate(topic, lows)
        return found

    async def first_since(self, topic: str, partitions: Iterable[int], time_ms: int) -> dict[int, int]:
        """The first offset per partition at or after a time; only where the cluster can tell."""
        return await self._ask(topic, lambda: self._admin.first_since(topic, partitions, time_ms))

    async def commit(self, group: str, topic: str, positions: Mapping[int, int]) -> None:
        """Mirror positions for lag tools; a failure costs nothing but the view, and is said once."""
        if self.plain or not self.up:
            return
        try:
            await self.in_thread(lambda: self._mirror.commit(group, topic, positions))
        except (KafkaException, TimeoutError, AmqpError) as error:
            if topic not in self._unmirrored:
                self._unmirrored.add(topic)
                log.warning("positions are not shown as committed offsets", topic=topic, reason=str(error))

    async def _ask(self, topic: str, question: Callable[[], T]) -> T:
        try:
            return await self.in_thread(question)
        except KafkaException as error:
            cause = errors.cause_of(error)
            self.trouble()
            raise errors.link_error(cause) from error
        except TimeoutError as error:
            self.trouble()
            raise errors.unreachable() from error

    async def in_thread(self, question: Callable[[], T]) -> T:
        """Ask something that blocks; RESOURCE_LIMIT_EXCEEDED where too many ask already, INTERNAL_ERROR once closed."""
        if self._refresher.cancelling():  # `close` has begun
            raise errors.unreachable()
        if self._questions >= _MAX_QUESTIONS:
            raise AmqpError(RESOURCE_LIMIT_EXCEEDED, "too many links are waiting for Kafka")
        self._questions += 1
        try:
            return await self.loop.run_in_executor(self._threads, question)
        finally:
            self._questions -= 1

    async def _invent(self, embedded: EmbeddedKafka, name: str) -> None:
        """Nobody creates topics for the embedded cluster, so using one does; within bounds."""
        if self.config.topics or name in self._invented:
            return
        if len(self._invented | {name}) > _MAX_EMBEDDED_TOPICS:
            raise AmqpError(RESOURCE_LIMIT_EXCEEDED, f"the embedded Kafka is limited to {_MAX_EMBEDDED_TOPICS} topics")
        await self.in_thread(lambda: embedded.create_topic(name, _EMBEDDED_PARTITIONS))
        self._invented.add(name)

    def turn(self, what: str, among: Sequence[int]) -> int:
        """One of these, each in its turn; `what` is a topic and a direction (ES-4-11)."""
        turn = self._turns[what] = self._turns.get(what, -1) + 1
        return among[turn % len(among)]

    # -- staying informed

    def watch(self, topic: Topic | str, watcher: TopicWatcher) -> None:
        """Tell `watcher` when the topic grows or goes, and soon, if it has since it was seen as `topic`.

        An attach takes a while, and what is not watched is forgotten: without this a link would miss, for as long as
        it lives, what changed meanwhile. A name only: nobody could say yet what the topic is.
        """
        name = topic if isinstance(topic, str) else topic.name
        self._watchers.setdefault(name, set()).add(watcher)
        if isinstance(topic, str):
            return
        if self._topics.setdefault(name, topic) is not topic:
            self.loop.call_soon(self._catch_up, topic, watcher)
        self._seen.setdefault(name, -math.inf)

    def _catch_up(self, seen: Topic, watcher: TopicWatcher) -> None:
        now = self._topics.get(seen.name)
        if now is None or watcher not in self._watchers.get(seen.name, ()):
            return
        if now.identity != seen.identity or now.partitions < seen.partitions:
            watcher.topic_gone()
        elif now.partitions > seen.partitions:
            watcher.topic_grew(now)

    def unwatch(self, topic: str, watcher: TopicWatcher) -> None:
        """The watcher's link is gone."""
        watchers = self._watchers.get(topic, set())
        watchers.discard(watcher)
        if not watchers:
            self._watchers.pop(topic, None)

    def trouble(self) -> None:
        """Something went wrong in a client: find out now whether Kafka is there."""
        self._trouble.set()

    async def _keep_fresh(self) -> None:
        if self._embedded is not None:
            await self.loop.run_in_executor(self._threads, self._embedded.create_topics, self.config.topics)
        while True:
            self._trouble.clear()
            await self._probe()
            if self.up:
                await self._refresh_topics()
            pause = self.config.refresh if self.up else self.config.retry
            try:
                await asyncio.wait_for(self._trouble.wait(), pause)
            except TimeoutError:
                continue
            await asyncio.sleep(min(0.1, pause))  # errors come in crowds: one question answers them all

    async def _probe(self) -> None:
        try:
            await self.loop.run_in_executor(self._threads, self._admin.brokers)
            up, reason = True, ""
        except KafkaException as error:
            up, reason = False, f"not reachable ({errors.cause_of(error).str()})"
        if up != self.up or not self.probed.is_set():
            self._said.clear()
        if reason not in self._said and len(self._said) < _REASONS:  # the cause is often known a little later only
            self._said.add(reason)
            log.log(20 if up else 40, "kafka up" if up else "kafka down", cluster=self.name, reason=reason)
        self.up, self._reason = up, reason
        self.probed.set()

    async def _refresh_topics(self) -> None:
        for name in list(self._topics):
            if name not in self._watchers:  # asked again when somebody attaches
                self._forget(name)
                continue
            try:
                new = await self.in_thread(lambda name=name: self._admin.topic(name))  # type: ignore[misc]
            except (KafkaException, TimeoutError, AmqpError) as error:  # the last: too many questions are under way
                if isinstance(error, KafkaException) and errors.cause_of(error).code() in errors.UNKNOWN_TOPIC:
                    self._gone(name)
                continue
            self._learned(name, new)
            if buffered := self.scheduler.buffered(name):
                with contextlib.suppress(AmqpError):
                    await self.bounds(name, buffered)

    def _grew(self, topic: Topic) -> None:
        log.info("topic grew", cluster=self.name, topic=topic.name, partitions=topic.partitions)
        self._tell(topic.name, lambda watcher: watcher.topic_grew(topic))

    def _gone(self, name: str) -> None:
        """KM-18: deleted, or deleted and created again; either way its offsets mean nothing any more."""
        log.warning("topic gone", cluster=self.name, topic=name)
        self._forget(name)
        self._tell(name, lambda watcher: watcher.topic_gone())

    def _tell(self, name: str, tell: Callable[[TopicWatcher], None]) -> None:
        """One watcher that fails must not keep the news from the others."""
        for watcher in list(self._watchers.get(name, ())):
            try:
                tell(watcher)
            except Exception:
                log.exception("link not told of a change of its topic", cluster=self.name, topic=name)

    def _forget(self, name: str) -> None:
        self._topics.pop(name, None)
        self._seen.pop(name, None)

    async def close(self) -> None:
        """Stop asking; the embedded cluster ends with it."""
        self._refresher.cancel()
        readers = [*self.scheduler.stop(), *(self._uncommitted.stop() if self._uncommitted else ())]
        await self.loop.run_in_executor(None, join_all, readers, _READER_END)
        await self.loop.run_in_executor(None, self._mirror.close)
        await self.loop.run_in_executor(None, lambda: self._threads.shutdown(wait=True, cancel_futures=True))
        if self._embedded is not None:
            self._embedded.close()
