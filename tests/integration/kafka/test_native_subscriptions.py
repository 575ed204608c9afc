"""AMQP links and Kafka consumers as subscriptions to the CloudEvents of a topic, without the API (CE 3.1)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from gateway.amqp.codec.types import Symbol
from gateway.amqp.link.outcomes import ACCEPTED
from gateway.amqp.message import sections
from tests.support.amqp.messages import message
from tests.support.filters.corpus import app
from tests.support.gateway.process import PATIENCE
from tests.support.kafka.streams import Clients, Delivered, position

SOLO = "solo"
MADE, PAID = "order.made", "order.paid"


def event(number: int, kind: str) -> bytes:
    attributes = {"specversion": "1.0", "id": str(number), "source": "/shop", "type": kind}
    return message(b"{}", app={f"cloudEvents:{name}": value for name, value in attributes.items()})


def ids(delivered: list[Delivered]) -> list[str]:
    found = [sections.application_properties(each.data, each.layout) for each in delivered]
    return [each["cloudEvents:id"] for each in found]


@pytest.mark.parametrize("streams", ["embedded"], indirect=True)
@pytest.mark.row("CE-1-4", "CE-3-1", "CE-3-3", "CE-3.1-1", "CE-3.1.2-1", "CE-3.1.2-2", "CE-3.1.2-3", "CE-3.1.4-1")
async def test_links_get_exactly_the_events_of_their_filter_for_as_long_as_they_are_there(streams: Clients) -> None:
    sender = await streams.sender(SOLO)
    kinds = [MADE, PAID, MADE, "order.mad"]
    for number, kind in enumerate(kinds):
        assert await sender.send(event(number, kind)) == ACCEPTED
    start = position(**{"event-streams-offset": "@earliest"})
    made = {**start, Symbol("made"): app(**{"cloudEvents:type": MADE})}
    mine = await streams.receiver(SOLO, credit=10, filter=made, distribution_mode="copy")
    others = await streams.receiver(SOLO, credit=10, filter=made, distribution_mode="copy")
    assert ids(await mine.receive(2)) == ids(await others.receive(2)) == ["0", "2"]
    assert await mine.drain() == []
    mine.link.detach()
    await asyncio.wait_for(mine.detached, PATIENCE)
    assert await sender.send(event(4, MADE)) == ACCEPTED
    assert ids(await others.receive(1)) == ["4"]
    assert mine.messages.empty()
    everything = [(str(number), kind) for number, kind in enumerate([*kinds, MADE])]
    assert await asyncio.to_thread(of_kafka, streams) == everything


def of_kafka(streams: Clients) -> list[tuple[str, str]]:
    """The ids and types that an ordinary consumer of the topic reads, without a filter."""
    consumer = Consumer({"bootstrap.servers": streams.bootstrap, "group.id": "native", "log_level": 0})
    consumer.assign([TopicPartition(streams.topic(SOLO), 0, 0)])
    found: list[Any] = []
    while len(found) < 5:
        found += consumer.consume(5 - len(found), PATIENCE)
    consumer.close()
    headers = [dict(each.headers()) for each in found]
    return [(each["ce_id"].decode(), each["ce_type"].decode()) for each in headers]
