"""Subscriptions that match nothing cost nothing per event: what a batch touches does not grow with their number."""

from __future__ import annotations

import asyncio
import gc
import sys
import tracemalloc
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

import pytest

from bridges.cloudevents.delivery.checkpoint import load_checkpoint
from bridges.cloudevents.dispatch.dispatcher import SubscriptionDispatcher
from bridges.cloudevents.dispatch.stored.checkpoint_record import bucket_of, record_key
from bridges.cloudevents.events.filter import EventFilter
from tests.support.cloudevents.delivery import ADDRESS, Subscribed, Topic, until
from tests.support.cloudevents.objects import HTTP, parsed
from tests.support.gateway.process import PATIENCE

FEW, MANY = 100, 400
MOST_BYTES: Final = 10_000
"""Of one idle subscription with a filter of its own in a stream of one partition."""
BATCHES: Final = 4


def wants(id: str) -> EventFilter:
    """A filter for the events with this id."""
    found = parsed({**HTTP, "filter": {"dialect": "basic", "filters": [
        {"type": "exact", "property": "id", "value": id}]}})  # fmt: skip
    return found.filter


@pytest.fixture
async def topic() -> AsyncIterator[Topic]:
    made = Topic(partitions=1)
    yield made
    await made.close()


async def idle(topic: Topic, dispatcher: SubscriptionDispatcher, first: int, count: int) -> None:
    """Subscriptions that wait for events that never come."""
    starts = await topic.starts()
    for number in range(first, count):
        wanted = wants(f"never-{number}")
        await dispatcher.put(Subscribed(f"idle-{number}", filter=wanted), 1, starts)


async def received(topic: Topic, id: str) -> None:
    """Wait until the subscription to all events was sent this one."""
    await until(lambda: topic.ids("all")[-1:] == [id])


class Touched:
    """Collects the objects that work for a batch: all but those that store positions, a bounded number at a time."""

    NAMES: Final = frozenset(
        ("wake", "_run_step", "_step", "read", "on_records", "unpark", "park", "matching", "_evaluate", "offer")
    )

    def __init__(self) -> None:
        self.objects: dict[int, object] = {}

    def __call__(self, frame: Any, event: str, argument: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_name in self.NAMES and "/bridges/cloudevents/" in code.co_filename:
            found = frame.f_locals.get("self")
            self.objects[id(found)] = found

    async def during(self, work: Callable[[], Any]) -> int:
        """How many are touched while this is awaited."""
        sys.setprofile(self)
        try:
            await work()
        finally:
            sys.setprofile(None)
        return len(self.objects)


async def test_a_batch_touches_only_what_it_concerns(topic: Topic) -> None:
    dispatcher = topic.dispatcher()
    await topic.subscribe(dispatcher, Subscribed("all"))
    serial = 0

    async def batch() -> None:
        nonlocal serial
        serial += 1
        await topic.produce([("k", f"e-{serial}")])
        await received(topic, f"e-{serial}")

    found = {}
    for first, count in ((0, FEW), (FEW, MANY)):
        await idle(topic, dispatcher, first, count)
        await until(lambda count=count: parked(dispatcher) >= count)  # type: ignore[misc]
        found[count] = max([await Touched().during(batch) for _ in range(BATCHES)])
    assert found[MANY] <= found[FEW] + 2 < 30, "the one that matches, the tail, the index, and nobody else"


def parked(dispatcher: SubscriptionDispatcher) -> int:
    """How many readers have left their partitions to the tail."""
    return sum(map(len, dispatcher.tails))


async def test_an_idle_subscription_gets_its_event_and_its_position_moves(topic: Topic) -> None:
    dispatcher = topic.dispatcher()
    await topic.subscribe(dispatcher, Subscribed("all"))
    await idle(topic, dispatcher, 0, 5)
    for number in range(12):
        await topic.produce([("k", f"e-{number}")])
        await received(topic, f"e-{number}")

    async def stored() -> int:
        (text,) = await topic.termini.marks(record_key("core/m", bucket_of("idle-3")), ["idle-3"])
        return 0 if text is None else load_checkpoint(text).streams[ADDRESS].positions[0].next

    async with asyncio.timeout(PATIENCE):
        while await stored() < 12:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    status = await dispatcher.status("idle-3")
    assert status is not None
    assert (status.positions[ADDRESS], status.lag) == ({0: 12}, 0)
    await topic.produce([("k", "never-3"), ("k", "more"), ("k", "never-4"), ("k", "never-3")])
    await until(lambda: topic.ids("idle-3") == ["never-3", "never-3"])
    await until(lambda: topic.ids("idle-4") == ["never-4"])
    await until(lambda: topic.ids("all")[-4:] == ["never-3", "more", "never-4", "never-3"])
    assert topic.ids("idle-1") == []


async def test_an_idle_subscription_takes_little_memory_and_has_no_sink(topic: Topic) -> None:
    dispatcher = topic.dispatcher()
    await idle(topic, dispatcher, 0, FEW)
    await until(lambda: parked(dispatcher) == FEW)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        await idle(topic, dispatcher, FEW, MANY)
        await until(lambda: parked(dispatcher) == MANY)
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (after - before) // (MANY - FEW) < MOST_BYTES
    assert topic.sinks == []
