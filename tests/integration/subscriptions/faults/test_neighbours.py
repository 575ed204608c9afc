"""What one subscription does to the others: a sink that does not answer, and filters that are made to cost time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from bridges.cloudevents.delivery.answers import DONE, Answer
from bridges.cloudevents.delivery.sink import SendAttempt
from bridges.cloudevents.delivery.state import DeliveryState
from bridges.cloudevents.dispatch.dispatcher import SubscriptionDispatcher
from bridges.cloudevents.events.filter import EventFilter
from tests.support.cloudevents.delivery import Subscribed, Topic, until
from tests.support.cloudevents.objects import HTTP, parsed

EVENTS, KEYS = 1000, 50
HOSTILE, PACED, RATE = 200, 500, 100
"""Unindexed filters, as many as a manager has by default; events, and events a second, whose latency is measured."""
NOISE = 0.1
"""Seconds that a busy machine adds to a latency."""


@pytest.fixture
async def topic() -> AsyncIterator[Topic]:
    made = Topic(partitions=1)
    yield made
    await made.close()


async def test_a_sink_that_does_not_answer_holds_up_its_own_events_only(topic: Topic) -> None:
    dispatcher = topic.dispatcher()
    topic.scripts["slow"] = lambda attempt: None
    for name in ("slow", "quick"):
        await topic.subscribe(dispatcher, Subscribed(name))
    written = [(f"k{number % KEYS}", str(number)) for number in range(EVENTS)]
    await topic.produce(written)
    await until(lambda: len(topic.ids("quick")) == EVENTS)
    for key in range(KEYS):
        of_key = [int(id) for id in topic.ids("quick") if int(id) % KEYS == key]
        assert of_key == sorted(of_key)
    assert topic.ids("slow") == [str(number) for number in range(topic.slots)], "one of a key, as many as it may have"
    assert dispatcher.state("slow") is DeliveryState.ACTIVE
    status = await dispatcher.status("slow")
    assert status is not None
    assert status.events["delivered"] == 0


def hostile(number: int) -> EventFilter:
    """Cannot be looked up, shares no term with another, and matches nothing."""
    terms = " AND ".join(f"subject NOT LIKE '%{number}_{term}%x%y%'" for term in range(3))
    return parsed({**HTTP, "filters": [{"sql": f"({terms}) AND source LIKE '%-{number}-%'"}]}).filter


async def latencies(topic: Topic, first: int) -> list[float]:
    """Seconds from the writing of each event until the sink of `victim` has it, ascending."""
    sent: dict[str, float] = {}
    late: list[float] = []

    def arrived(attempt: SendAttempt) -> Answer:
        late.extend(time.monotonic() - sent[event.attributes["id"]] for event in attempt.events)
        return DONE

    topic.scripts["victim"] = arrived
    begun = time.monotonic()
    for number in range(PACED):
        await asyncio.sleep(max(0.0, begun + number / RATE - time.monotonic()))
        id = str(first + number)
        sent[id] = time.monotonic()
        await topic.produce([("k", id)])
    await until(lambda: len(late) == PACED)
    return sorted(late)


async def p99(topic: Topic, first: int) -> float:
    return (await latencies(topic, first))[int(0.99 * PACED)]


async def subscribe_hostile(topic: Topic, dispatcher: SubscriptionDispatcher) -> None:
    for number in range(HOSTILE):
        await topic.subscribe(dispatcher, Subscribed(f"hostile-{number}", filter=hostile(number)))
    await until(lambda: dispatcher.observer.filters()["unindexed"] == HOSTILE)


@pytest.mark.soak
@pytest.mark.row("CE-P-5")
async def test_hostile_filters_of_one_user_hardly_delay_the_events_of_others(topic: Topic) -> None:
    dispatcher = topic.dispatcher()
    await topic.subscribe(dispatcher, Subscribed("victim"))
    alone = await p99(topic, 0)
    await subscribe_hostile(topic, dispatcher)
    among = await p99(topic, PACED)
    print(f"p99 alone {alone * 1e3:.1f} ms, beside {HOSTILE} hostile filters {among * 1e3:.1f} ms")
    assert among < 2 * alone + NOISE
