"""`$info` of event-stream nodes, on the embedded Kafka and at the real process (ES 6)."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.amqp.codec.types import Symbol
from gateway.amqp.message import sections
from gateway.errors import NOT_ALLOWED, NOT_FOUND, AmqpError
from gateway.filters.position.event_stream import offset_symbol
from tests.support.kafka.streams import Clients, StreamPeer, bodies, fill

SOLO, ORDERS = "solo", "orders"


async def info(peer: StreamPeer) -> dict[str, Any]:
    (event,) = await peer.receive()
    assert sections.body_kind(event.data, event.layout) == sections.AMQP_VALUE
    assert event.annotations == {}
    body: dict[str, Any] = event.body
    return body


@pytest.mark.row(
    "ES-6-1", "ES-6-2", "ES-6-3", "ES-6-4", "ES-6-6", "ES-6-7", "ES-6-8", "ES-6-9", "ES-4-1", "ES-8-3"
)
async def test_info_describes_partitions(streams: Clients) -> None:
    empty = await info(await streams.receiver(f"{SOLO}/$info", credit=1))
    assert type(empty["partitions"]) is list
    (entry,) = empty["partitions"]
    assert entry == {
        "partition": "0", "earliest-offset": None, "latest-offset": None, "next-offset": offset_symbol(0)
    }  # fmt: skip
    assert type(entry["partition"]) is Symbol
    await fill(streams, SOLO, 5)
    (entry,) = (await info(await streams.receiver(f"{SOLO}/$info", credit=1)))["partitions"]
    assert entry == {
        "partition": "0", "earliest-offset": offset_symbol(0), "latest-offset": offset_symbol(4),
        "next-offset": offset_symbol(5),
    }  # fmt: skip
    assert type(entry["latest-offset"]) is Symbol
    orders = await info(await streams.receiver(f"{ORDERS}/$info", credit=1))
    assert [entry["partition"] for entry in orders["partitions"]] == ["0", "1", "2"]


@pytest.mark.row("ES-6-5")
async def test_info_comes_again_when_something_changed(streams: Clients) -> None:
    receiver = await streams.receiver(f"{SOLO}/$info", credit=2)
    assert (await info(receiver))["partitions"][0]["latest-offset"] is None
    await fill(streams, SOLO, 1)
    assert (await info(receiver))["partitions"][0]["latest-offset"] == offset_symbol(0)


@pytest.mark.row("ES-6-5")
async def test_info_drains(streams: Clients) -> None:
    receiver = await streams.receiver(f"{SOLO}/$info", credit=5)
    assert len(await receiver.drain()) == 1
    receiver.link.grant(3)
    assert await receiver.drain() == []


@pytest.mark.row("ES-6-2", "ES-6-10")
async def test_info_is_a_source_of_known_nodes_only(streams: Clients) -> None:
    with pytest.raises(AmqpError) as refused:
        await streams.sender(f"{SOLO}/$info")
    assert refused.value.condition == NOT_ALLOWED
    with pytest.raises(AmqpError) as refused:
        await streams.receiver("nowhere/$info")
    assert refused.value.condition == NOT_FOUND


@pytest.mark.row("ES-5.1.1-5", "ES-4-16")
async def test_info_gives_resume_positions(streams: Clients) -> None:
    await fill(streams, SOLO, 5)
    latest = (await info(await streams.receiver(f"{SOLO}/$info", credit=1)))["partitions"][0]["latest-offset"]
    receiver = await streams.receiver(SOLO, after=latest, credit=10)
    await fill(streams, SOLO, 1, first=5)
    assert bodies(await receiver.receive()) == [5]
