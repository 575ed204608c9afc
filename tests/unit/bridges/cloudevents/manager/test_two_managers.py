"""Two gateways that share a manager: what one has answered, the other knows, also before it is told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable
from functools import cache

import pytest

from bridges.cloudevents.delivery.answers import Answer
from bridges.cloudevents.delivery.metrics import ManagerMetrics
from bridges.cloudevents.delivery.sink import SinkGrant
from bridges.cloudevents.delivery.state import DeliveryState, Reason
from bridges.cloudevents.delivery.status import SubscriptionStatus
from bridges.cloudevents.events.event import CloudEvent
from bridges.cloudevents.manager.codec import SubscriptionCodec
from bridges.cloudevents.manager.dependencies import ManagerDependencies
from bridges.cloudevents.manager.errors import ApiError, ErrorCode
from bridges.cloudevents.manager.interfaces import Caller
from bridges.cloudevents.manager.manager import SubscriptionManager
from bridges.cloudevents.model.values import SinkProtocol
from bridges.cloudevents.reading.start_offsets import StartOffsets
from bridges.cloudevents.subscription.subscription import Subscription
from gateway.state.subscriptions.memory_store import MemorySubscriptionStore
from policies.subscriptions import ManagerRules, manager_rules
from tests.support.gateway.policy import load_text

POLICY = """
gateway: {id: gw, http: off}
kafka: {main: {bootstrap: "127.0.0.1:1"}}
scopes:
  edge:
    addresses: [{match: "events/{topic}", kafka: main, topic: "{topic}"}]
    access: [{who: [billing, shipping], may: subscribe, on: "events/**"}]
    subscriptions:
      - name: orders
        events: events/orders
        upsert: true
        sinks: [{protocol: http, to: "https://hooks.example", handshake: off}]
"""
CALLER = Caller("billing")


@cache
def rules() -> ManagerRules:
    return manager_rules(load_text(POLICY))[0]


class NoDelivery:
    """Delivery that does nothing, at once."""

    async def put(
        self,
        subscription: Subscription,
        revision: int,
        start_offsets: StartOffsets,
        hold_reason: Reason | None = None,
        edition: int | None = None,
    ) -> None: ...

    def renew(self, subscription: Subscription, revision: int) -> None: ...

    async def remove(self, id: str) -> None: ...

    async def status(self, id: str) -> SubscriptionStatus | None:
        return None

    def state(self, id: str) -> DeliveryState:
        return DeliveryState.ACTIVE

    def set_applied(self, revision: int) -> None: ...

    async def wait_applied(self, id: str, revision: int) -> bool:
        return True

    async def resume(self, id: str) -> bool:
        return False

    async def send_test(self, id: str, event: CloudEvent) -> Answer | None:
        return None


class Sink:
    """A sink that consents later, where it is told an address for that."""

    def __init__(self) -> None:
        self.key = ""

    async def __call__(
        self, subscription: Subscription, previous: Subscription | None, granted: float | None, callback: str | None
    ) -> SinkGrant:
        self.key = (callback or "").partition("key=")[2]
        return SinkGrant(pending=callback is not None)


async def at_once(subscription: Subscription, known: StartOffsets | None) -> StartOffsets:
    return StartOffsets("incarnation", {})


def manager(store: MemorySubscriptionStore, sink: Sink, url: str | None = None) -> SubscriptionManager:
    """The manager of one gateway, which is told of no change of the other one."""
    codec = SubscriptionCodec(rules(), None, frozenset(SinkProtocol))
    return SubscriptionManager(
        rules(), ManagerDependencies(store, NoDelivery(), codec, sink, at_once, ManagerMetrics(), url)
    )


@pytest.fixture
async def two() -> tuple[SubscriptionManager, SubscriptionManager]:
    """Both have read the store, which is empty."""
    store = MemorySubscriptionStore()
    both = manager(store, Sink()), manager(store, Sink())
    for each in both:
        await each.query(CALLER)
    return both


Two = tuple[SubscriptionManager, SubscriptionManager]


def proposal(id: str = "a", path: str = "x") -> bytes:
    return json.dumps({"id": id, "protocol": "HTTP", "sink": f"https://hooks.example/{path}"}).encode()


async def refused(operation: Awaitable[object]) -> ErrorCode:
    with pytest.raises(ApiError) as error:
        await operation
    return error.value.code


async def test_what_the_other_has_created_can_be_read_changed_and_deleted(two: Two) -> None:
    one, other = two
    for id in "abcdef":
        await one.create(CALLER, proposal(id))
    assert (await other.retrieve(CALLER, "a")).id == "a"
    assert (await other.status(CALLER, "b"))["state"]
    assert (await other.update(CALLER, "c", proposal("c", "y"))).created is False
    assert (await other.delete(CALLER, "d")).id == "d"
    assert (await other.resume(CALLER, "e"))["state"]
    assert await refused(other.test(CALLER, "f")) is ErrorCode.UNAVAILABLE
    assert await refused(one.delete(CALLER, "d")) is ErrorCode.NOT_FOUND


async def test_what_the_other_has_deleted_can_be_created_again(two: Two) -> None:
    one, other = two
    await one.create(CALLER, proposal())
    await other.delete(CALLER, "a")
    assert (await one.create(CALLER, proposal())).created
    assert await refused(other.create(CALLER, proposal())) is ErrorCode.CONFLICT


async def test_a_precondition_means_the_revision_that_the_other_has_answered(two: Two) -> None:
    one, other = two
    created = await one.create(CALLER, proposal())
    updated = await other.update(CALLER, "a", proposal(path="y"), expected=[created.revision])
    assert await refused(one.delete(CALLER, "a", expected=[created.revision])) is ErrorCode.CHANGED
    assert (await one.delete(CALLER, "a", expected=[updated.revision])).id == "a"


async def test_one_of_two_updates_creates_and_the_other_replaces(two: Two) -> None:
    one, other = two
    views = await asyncio.gather(one.update(CALLER, "a", proposal()), other.update(CALLER, "a", proposal(path="y")))
    assert sorted(view.created for view in views) == [False, True]
    assert await refused(other.update(Caller("shipping"), "a", proposal())) is ErrorCode.CONFLICT


async def test_a_sink_consents_at_the_other() -> None:
    store, sink = MemorySubscriptionStore(), Sink()
    one, other = (manager(store, sink, "https://events.example") for _ in range(2))
    await other.query(CALLER)
    await one.create(CALLER, proposal())
    assert await refused(other.confirm("a", "wrong", None)) is ErrorCode.FORBIDDEN
    await other.confirm("a", sink.key, None)
