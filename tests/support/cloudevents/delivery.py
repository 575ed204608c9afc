"""A dispatcher on an embedded Kafka, with scripted sinks instead of real ones."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Producer

from bridges.cloudevents.delivery.answers import DONE, Answer
from bridges.cloudevents.delivery.metrics import ManagerMetrics
from bridges.cloudevents.delivery.sink import SendAttempt, SinkListener
from bridges.cloudevents.delivery.state import Reason
from bridges.cloudevents.delivery.status import SubscriptionStatus
from bridges.cloudevents.dispatch.dispatcher import SubscriptionDispatcher
from bridges.cloudevents.dispatch.interface import DeliverableSubscription
from bridges.cloudevents.dispatch.settings import DispatcherServices, DispatcherSettings
from bridges.cloudevents.events.event import CloudEvent, event_of
from bridges.cloudevents.events.filter import EVERYTHING, EventFilter
from bridges.cloudevents.model.values import (
    Batching,
    DeliverySettings,
    FromLatest,
    Order,
    RetryLimits,
    SinkProtocol,
    SinkUri,
    Start,
    SubscriptionConfig,
)
from bridges.cloudevents.reading.start_offsets import StartOffsets, find_start_offsets
from bridges.kafka.bridge import ClusterBridge
from bridges.kafka.clusters.cluster import ClusterConfig
from bridges.kafka.records.record import KafkaRecord
from gateway.state.leases.manager import Leases
from gateway.state.leases.store import LeaseTable, MemoryLeaseStore
from gateway.state.termini.store import MemoryTermini, Termini
from gateway.tasks import Supervisor
from policies.model.scopes.reading import LogReadingRule
from tests.support.gateway.process import PATIENCE
from tests.support.kafka.streams import Route

ADDRESS = "events/orders"
SINK = SinkUri("http://sink/in", "http", (("sink", 80),), "/in", "")
LATEST = SubscriptionConfig(None, FromLatest(), None, None)
QUICK = RetryLimits(0.01, 0.05, 4, 60.0)


def settings(
    order: Order = "key",
    *,
    window: int = 16,
    size: int = 1 << 20,
    rate: float | None = None,
    retry: RetryLimits = QUICK,
    batch: Batching | None = None,
) -> DeliverySettings:
    """How a subscription of a test delivers."""
    return DeliverySettings(order, 4, window, size, 5.0, rate, retry, batch)


@dataclass(frozen=True)
class Subscribed:
    """A subscription as delivery knows it."""

    id: str
    owner: str = "ann"
    protocol: SinkProtocol = SinkProtocol.HTTP
    sink: SinkUri = SINK
    filter: EventFilter = EVERYTHING
    config: SubscriptionConfig = LATEST
    delivery: DeliverySettings = field(default_factory=settings)


@dataclass(frozen=True)
class StreamRoute(Route):
    """A route with its cluster."""

    cluster: str = "main"


Script = Callable[[SendAttempt], Answer | None]
"""What a sink answers; None: nothing yet."""


class ScriptedSink:
    """Answers in a later turn, as its script says."""

    def __init__(self, listener: SinkListener, heard: list[SendAttempt], script: Script, slots: int) -> None:
        self.listener = listener
        self._heard = heard
        self.script = script
        self._slots = slots
        self.waiting: dict[int, SendAttempt] = {}
        self.closed = False
        self.subscription = ""

    @property
    def free_slots(self) -> int:
        return 0 if self.closed else self._slots - len(self.waiting)

    def send(self, attempt: SendAttempt) -> None:
        assert not self.closed
        self._heard.append(attempt)
        self.waiting[attempt.number] = attempt
        answer = self.script(attempt)
        if answer is not None:
            asyncio.get_running_loop().call_soon(self.answer, attempt, answer)

    def answer(self, attempt: SendAttempt, answer: Answer) -> None:
        """Answer an attempt now."""
        if not self.closed and self.waiting.pop(attempt.number, None) is not None:
            self.listener.on_answer(attempt, answer)
            self.listener.on_ready()

    async def close(self, grace: float) -> None:
        self.closed = True


class Topic:
    """The only topic of an embedded cluster, and those who deliver its events."""

    def __init__(self, partitions: int = 2, dead_letter: str | None = None) -> None:
        self.errors: list[BaseException] = []
        self.supervisor = Supervisor(lambda name, error: self.errors.append(error))
        topics = {"orders": partitions} | ({dead_letter: 1} if dead_letter else {})
        config = ClusterConfig(topics=topics)
        self.bridge = ClusterBridge("main", config, asyncio.get_running_loop(), self.supervisor)
        self.route: Any = StreamRoute("orders", reading=LogReadingRule(dead_letter=dead_letter))
        self.termini: Termini = MemoryTermini()
        self.table = LeaseTable(lambda: int(asyncio.get_running_loop().time() * 1000))
        self.heard: dict[str, list[SendAttempt]] = {}
        self.script: Script = lambda attempt: DONE
        self.scripts: dict[str, Script] = {}
        """Those of sinks that answer otherwise, by subscription."""
        self.sinks: list[ScriptedSink] = []
        self.slots = 8
        self.dispatchers: list[SubscriptionDispatcher] = []
        self.lease = 60.0
        """Seconds until another dispatcher takes over; one whose loop stands still that long loses its work as well."""
        self.lease_tasks: list[asyncio.Task[None]] = []
        """What renews the leases of each."""
        self._producer: Producer | None = None
        self.caught_up: Callable[[], Awaitable[bool]] = _up_to_date

    def dispatcher(self, leases: Leases | None = None, **rules: Any) -> SubscriptionDispatcher:
        """Another gateway's part, or the only one's."""
        if leases is None:
            leases = Leases(MemoryLeaseStore(self.table, self.lease), self.supervisor)
            self.lease_tasks.append(self.supervisor.start(leases.run(), "leases"))
        services = DispatcherServices({"main": self.bridge}, leases, self.termini, self.supervisor, self.caught_up)
        settings = DispatcherSettings("core", "m", {ADDRESS: self.route}, **rules)
        made = SubscriptionDispatcher(settings, services, self._sink, _event_of, ManagerMetrics())
        made.start()
        self.dispatchers.append(made)
        return made

    def _sink(self, subscription: DeliverableSubscription, listener: SinkListener) -> ScriptedSink:
        heard = self.heard.setdefault(subscription.id, [])

        def script(attempt: SendAttempt) -> Any:
            return self.scripts.get(subscription.id, self.script)(attempt)

        sink = ScriptedSink(listener, heard, script, self.slots)
        sink.subscription = subscription.id
        self.sinks.append(sink)
        return sink

    async def starts(self, start: Start | None = None) -> StartOffsets:
        """Where a subscription begins now."""
        return await find_start_offsets({ADDRESS: self.route}, start or FromLatest(), {"main": self.bridge})

    async def subscribe(
        self, dispatcher: SubscriptionDispatcher, subscription: Subscribed, hold: Reason | None = None
    ) -> StartOffsets:
        """Put a new one."""
        starts = await self.starts(subscription.config.start)
        await dispatcher.put(subscription, 1, starts, hold)
        return starts

    async def produce(self, events: Sequence[tuple[str | None, str]], *, partition: int = 0) -> None:
        """Events as pairs of a key and an id."""
        place = {"bootstrap.servers": self.bridge.bootstrap, "log_level": 0}
        producer = self._producer = self._producer or Producer(place)
        for key, id in events:
            headers = {"ce_specversion": "1.0", "ce_id": id, "ce_source": "/s", "ce_type": "t"}
            producer.produce("orders", id.encode(), key, partition, headers=list(headers.items()))
        await asyncio.get_running_loop().run_in_executor(None, producer.flush, PATIENCE)

    def ids(self, id: str) -> list[str]:
        """What the sink of a subscription heard, repetitions included."""
        return [event.attributes["id"] for attempt in self.heard.get(id, []) for event in attempt.events]

    async def close(self) -> None:
        """End everything; no task may have failed."""
        for dispatcher in self.dispatchers:
            await dispatcher.close()
        await self.bridge.close(1.0)
        await self.supervisor.close()
        assert not self.errors, self.errors


async def _up_to_date() -> bool:
    return True


def _event_of(record: KafkaRecord, address: str) -> CloudEvent | None:
    return event_of(record, address, wrap=False)


async def until(condition: Callable[[], object], what: str = "") -> None:
    """Wait for what events of the loop bring about."""
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 - many small things make it true
            await asyncio.sleep(0.005)


async def reported(
    dispatcher: SubscriptionDispatcher, id: str, wanted: Callable[[SubscriptionStatus], object]
) -> SubscriptionStatus:
    """The status once it has what is wanted: a sink hears an event before the dispatcher hears the sink's answer."""
    status: SubscriptionStatus | None = None
    try:
        async with asyncio.timeout(PATIENCE):
            while (status := await dispatcher.status(id)) is None or not wanted(status):  # noqa: ASYNC110
                await asyncio.sleep(0.005)
    except TimeoutError:
        raise AssertionError(f"not within {PATIENCE} s; the last status: {status}") from None
    return status
