"""Subscriptions shared by two gateways: one delivers at a time, and the other goes on where it was (CE-P-2)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import NoReturn

import pytest

from bridges.cloudevents.delivery.answers import DONE
from bridges.cloudevents.delivery.sink import SinkListener
from bridges.cloudevents.dispatch.dispatcher import SubscriptionDispatcher
from bridges.cloudevents.dispatch.interface import DeliverableSubscription
from bridges.cloudevents.model.values import SinkUri
from bridges.cloudevents.reading.start_offsets import StartOffsets
from gateway.state.termini.store import TerminiUnavailable
from tests.support.cloudevents.delivery import ScriptedSink, Subscribed, Topic, reported, until

IDS = [f"s{number}" for number in range(12)]


@pytest.fixture
async def topic() -> AsyncIterator[Topic]:
    """A topic with two partitions."""
    made = Topic()
    yield made
    await made.close()


async def subscribe(topic: Topic, dispatchers: list[SubscriptionDispatcher]) -> dict[str, StartOffsets]:
    """The same subscriptions at each gateway, as both follow the same store."""
    starts = {id: await topic.starts() for id in IDS}
    for dispatcher in dispatchers:
        for id in IDS:
            await dispatcher.put(Subscribed(id), 1, starts[id])
    return starts


def deliverers(dispatchers: list[SubscriptionDispatcher]) -> dict[str, int]:
    """How many of the gateways deliver each subscription."""
    return {id: sum(id in dispatcher._workers for dispatcher in dispatchers) for id in IDS}


@pytest.mark.row("CE-P-2")
async def test_slices_are_shared_out_and_each_subscription_is_delivered_once(topic: Topic) -> None:
    dispatchers = [topic.dispatcher(slices=2), topic.dispatcher(slices=2)]
    await subscribe(topic, dispatchers)
    await until(
        lambda: all(dispatcher._workers for dispatcher in dispatchers) and set(deliverers(dispatchers).values()) == {1}
    )
    await topic.produce([("k", str(number)) for number in range(20)])
    await until(lambda: all(len(topic.ids(id)) >= 20 for id in IDS))
    assert all(topic.ids(id) == [str(number) for number in range(20)] for id in IDS)


@pytest.mark.row("CE-P-2")
async def test_one_delivers_and_the_other_takes_over_when_it_ends(topic: Topic) -> None:
    first = topic.dispatcher()
    starts = await subscribe(topic, [first])
    await until(lambda: len(first._workers) == len(IDS))
    second = topic.dispatcher()
    for id in IDS:
        await second.put(Subscribed(id), 1, starts[id])
    await topic.produce([("k", str(number)) for number in range(10)])
    await until(lambda: all(len(topic.ids(id)) == 10 for id in IDS))
    assert second._workers == {}
    status = await second.status("s0")
    assert status is not None
    assert not status.delivered_here
    await first.close()
    await until(lambda: len(second._workers) == len(IDS))
    await topic.produce([("k", str(number)) for number in range(10, 20)])
    await until(lambda: all(len(topic.ids(id)) >= 20 for id in IDS))
    assert all(topic.ids(id) == [str(number) for number in range(20)] for id in IDS)


@pytest.mark.row("CE-P-2")
async def test_a_gateway_that_sleeps_sends_nothing_after_its_lease_and_writes_no_position(topic: Topic) -> None:
    topic.script, topic.lease = lambda attempt: DONE, 2.0
    sleeper, topic.lease = topic.dispatcher(), 6.0
    starts = await subscribe(topic, [sleeper])
    await until(lambda: len(sleeper._workers) == len(IDS))
    topic.script = lambda attempt: None  # under way, and never answered
    await topic.produce([("k", "0")])
    await until(lambda: all(topic.ids(id) == ["0"] for id in IDS))
    topic.lease_tasks[0].cancel()  # it renews its lease no more, and does not notice
    asleep = list(topic.sinks)
    topic.script = lambda attempt: DONE
    other = topic.dispatcher()
    for id in IDS:
        await other.put(Subscribed(id), 1, starts[id])
    await until(lambda: len(other._workers) == len(IDS))
    assert not sleeper.valid
    for sink in asleep:  # the answers come in late
        for attempt in list(sink.waiting.values()):
            sink.answer(attempt, DONE)
    await topic.produce([("k", str(number)) for number in range(1, 10)])
    await until(lambda: all(len(topic.ids(id)) >= 11 for id in IDS))
    for id in IDS:
        assert topic.ids(id) == ["0", "0", *map(str, range(1, 10))]
    await until(lambda: not sleeper._workers)  # it has learned with its next write that it was displaced
    assert not await asyncio.wait_for(sleeper.resume("s0"), 1)


@pytest.mark.parametrize("changed", [False, True])
async def test_what_was_sent_while_nothing_could_be_stored_is_not_sent_again(
    topic: Topic, monkeypatch: pytest.MonkeyPatch, changed: bool
) -> None:
    """`changed`: by the owner, at another gateway; then what the old filter passed over may be wanted."""
    dispatcher = topic.dispatcher()
    starts = await subscribe(topic, [dispatcher])
    await topic.produce([("k", str(number)) for number in range(5)])
    await until(lambda: all(len(topic.ids(id)) == 5 for id in IDS))
    await until(lambda: not dispatcher._changed)

    async def away(*about: object) -> NoReturn:
        raise TerminiUnavailable

    with monkeypatch.context() as patched:
        for name in ("save", "acquire"):
            patched.setattr(topic.termini, name, away)
        await topic.produce([("k", str(number)) for number in range(5, 15)])
        for id in IDS:
            await reported(dispatcher, id, lambda status: status.events["delivered"] == 15)
        dispatcher._ownership.over()  # its lease has ended
        await until(lambda: len(dispatcher._progress) == len(IDS))
        if changed:
            for id in IDS:
                await dispatcher.put(Subscribed(id), 2, starts[id])
    await until(lambda: len(dispatcher._workers) == len(IDS))
    await topic.produce([("k", str(number)) for number in range(15, 20)])
    expected = [*range(15), *range(5 if changed else 15, 20)]
    await until(lambda: all(topic.ids(id)[-1] == "19" for id in IDS))
    assert all(topic.ids(id) == list(map(str, expected)) for id in IDS)
    assert dispatcher._progress == {}


async def test_more_slices_move_no_position(topic: Topic) -> None:
    dispatcher = topic.dispatcher()
    await subscribe(topic, [dispatcher])
    await until(lambda: len(dispatcher._workers) == len(IDS))
    await topic.produce([("k", str(number)) for number in range(10)])
    await until(lambda: all(len(topic.ids(id)) == 10 for id in IDS))
    await until(lambda: not dispatcher._changed)
    rules = dispatcher._settings
    dispatcher.reconfigure(rules._replace(slices=5))
    await until(lambda: not dispatcher.valid)
    await topic.produce([("k", str(number)) for number in range(10, 20)])
    await until(lambda: all(len(topic.ids(id)) >= 20 for id in IDS))
    assert all(topic.ids(id) == [str(number) for number in range(20)] for id in IDS)


@pytest.mark.row("CE-P-2")
async def test_a_new_owner_sends_nothing_to_the_sink_of_a_version_that_was_replaced(topic: Topic) -> None:
    """A gateway that stood still gets a slice before it hears of the changes that were answered meanwhile."""
    sinks = {name: SinkUri(f"http://{name}/in", "http", ((name, 80),), "/in", "") for name in ("old", "new")}
    make_sink, opened, asked = topic._sink, list[str](), list[bool]()

    def open_sink(subscription: DeliverableSubscription, listener: SinkListener) -> ScriptedSink:
        opened.append(subscription.sink.text)
        return make_sink(subscription, listener)

    async def caught_up() -> bool:
        asked.append(len(asked) > 1)
        if asked[-1]:
            await second.put(Subscribed("s", sink=sinks["new"]), 2, starts)
        return asked[-1]

    first = topic.dispatcher()
    starts = await topic.subscribe(first, Subscribed("s", sink=sinks["new"]))
    await until(lambda: "s" in first._workers)
    topic.caught_up, topic._sink = caught_up, open_sink  # type: ignore[method-assign]
    second = topic.dispatcher()
    await second.put(Subscribed("s", sink=sinks["old"]), 1, starts)
    await first.close()
    topic.lease_tasks[0].cancel()
    await topic.produce([("k", "1")])
    await until(lambda: topic.ids("s") == ["1"])
    assert (opened, asked) == ([sinks["new"].text], [False, False, True])
