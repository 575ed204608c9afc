"""Messages in one batch to an event log: an unusual one does not affect the others (KM-15)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from bridges.kafka.clusters.cluster import ClusterConfig
from bridges.kafka.produce import client
from gateway.amqp.link.outcomes import ACCEPTED, Outcome, Rejected
from gateway.errors import INVALID_FIELD, MESSAGE_SIZE_EXCEEDED, NOT_IMPLEMENTED, TRANSFER_LIMIT_EXCEEDED
from tests.support.amqp.messages import message
from tests.support.amqp.numbered import until
from tests.support.kafka.streams import Route, StreamPeer, Streams, bodies

TOPIC, SMALL = "runs", "small"
GROUP_KEY = "event-streams-group-key"
COUNT = 600


@pytest.fixture(params=[client.NativeClient, client.FallbackClient])
async def streams(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Streams]:
    monkeypatch.setattr(client, "BOUND", request.param is client.NativeClient)
    streams = Streams(ClusterConfig(topics={TOPIC: 1, SMALL: 1}, timeout=10), {TOPIC: Route(TOPIC, credit=2 * COUNT)})
    yield streams
    await streams.close()


def unusual_properties(number: int) -> dict[str, Any]:
    """The unusual properties of some of them."""
    if number % 11 == 3:
        return {"ma": {GROUP_KEY: 5}}  # no text: cannot be a record
    if number % 7 == 2:
        return {"ma": {GROUP_KEY: "k"}}
    return {"subject": "s"} if number % 5 == 1 else {}


async def posted(sender: StreamPeer, count: int, **more: Any) -> list[Outcome]:
    waiting = [
        await sender.post(message(b"%d" % number, **unusual_properties(number)), **more) for number in range(count)
    ]
    return await asyncio.gather(*waiting)


async def stored(streams: Streams, count: int) -> list[int]:
    receiver = await streams.receiver(TOPIC, after="@earliest", credit=count)
    return bodies(await receiver.receive(count))


async def test_each_gets_its_own_outcome_and_the_order_stays(streams: Streams) -> None:
    outcomes = await posted(await streams.sender(TOPIC), COUNT)
    refused = [number for number, outcome in enumerate(outcomes) if outcome is not ACCEPTED]
    assert refused == [number for number in range(COUNT) if number % 11 == 3]
    for number in refused:
        outcome = outcomes[number]
        assert isinstance(outcome, Rejected)
        assert outcome.error is not None
        assert outcome.error.condition == INVALID_FIELD
    assert await stored(streams, COUNT - len(refused)) == sorted({*range(COUNT)} - {*refused})
    counters = streams.bridge.counters
    assert (counters.accepted, counters.rejected) == (COUNT - len(refused), len(refused))


async def test_credit_comes_back_for_each(streams: Streams) -> None:
    streams.routes[TOPIC] = Route(TOPIC, credit=50)
    sender = await streams.sender(TOPIC)
    outcomes = await posted(sender, COUNT)
    assert sum(outcome is ACCEPTED for outcome in outcomes) == sum(number % 11 != 3 for number in range(COUNT))
    assert sender.link.credit <= 50


async def test_settled_ones_among_others(streams: Streams) -> None:
    sender = await streams.sender(TOPIC)
    waiting = [await sender.post(message(b"%d" % number), settled=number % 3 == 1) for number in range(COUNT)]
    assert set(await asyncio.gather(*waiting)) == {ACCEPTED}
    assert await stored(streams, COUNT) == list(range(COUNT))
    assert streams.bridge.counters.accepted == COUNT


async def test_a_settled_one_that_cannot_be_stored_ends_the_link_and_what_follows_is_not(streams: Streams) -> None:
    sender = await streams.sender(TOPIC)
    for number in range(100):
        more = {"ma": {GROUP_KEY: 5}} if number == 50 else {}
        await sender.post(message(b"%d" % number, **more), settled=number >= 50)
    assert (await sender.end()).condition == INVALID_FIELD
    assert await stored(streams, 50) == list(range(50))
    await (await streams.sender(TOPIC)).send(message(b"1000"))
    assert await stored(streams, 51) == [*range(50), 1000]


async def test_one_with_response_annotations_ends_the_link_and_what_follows_is_not(streams: Streams) -> None:
    sender = await streams.sender(TOPIC)
    for number in range(60):
        more = {"da": {"response-link-target-address": "back"}} if number == 20 else {}
        await sender.post(message(b"%d" % number, **more))
    assert (await sender.end()).condition == NOT_IMPLEMENTED
    assert await stored(streams, 20) == list(range(20))
    await until(lambda: streams.bridge.counters.accepted == 20, "the reports, which readers may be ahead of")


async def test_one_that_only_speaks_of_them_is_like_others(streams: Streams) -> None:
    sender = await streams.sender(TOPIC)
    waiting = [await sender.post(message(b"response-link-target-address" * (number % 2))) for number in range(60)]
    assert set(await asyncio.gather(*waiting)) == {ACCEPTED}


async def test_one_that_is_too_large_ends_the_link_and_what_follows_is_not(streams: Streams) -> None:
    sender = await streams.sender(TOPIC)
    sender.link.most = 1 << 30  # a client like ours sends nothing that the link does not take
    for number in range(60):
        await sender.post(message(b"%d" % number, app={"a": "x" * 1_500_000} if number == 20 else {}))
    assert (await sender.end()).condition == MESSAGE_SIZE_EXCEEDED
    assert await stored(streams, 20) == list(range(20))


async def test_more_than_there_is_credit_for_ends_the_link(streams: Streams) -> None:
    sender = await streams.sender(TOPIC)
    (link,) = streams.client.other.engine.links
    link._granted = 20  # a client like ours never sends more than it may
    for number in range(60):
        await sender.post(message(b"%d" % number))
    assert (await sender.end()).condition == TRANSFER_LIMIT_EXCEEDED
    assert await stored(streams, 20) == list(range(20))


async def test_links_of_several_connections_hear_of_their_own(streams: Streams) -> None:
    senders = [await streams.sender(TOPIC, side=streams.connect()) for _ in range(5)]
    waiting = [await senders[number % 5].post(message(b"%d" % number)) for number in range(COUNT)]
    assert set(await asyncio.gather(*waiting)) == {ACCEPTED}
    assert sorted(await stored(streams, COUNT)) == list(range(COUNT))


async def test_a_link_that_has_ended_hears_nothing_and_its_records_are_kept(streams: Streams) -> None:
    side = streams.connect()
    sender = await streams.sender(TOPIC, side=side)
    for number in range(COUNT):
        await sender.post(message(b"%d" % number))
    sender.link.detach()
    assert await stored(streams, COUNT) == list(range(COUNT))
    await (await streams.sender(TOPIC)).send(message(b"9"))
    assert streams.bridge.counters.accepted == COUNT + 1
