"""Logs that change while links attach, and unread partitions, on a real broker (KM-9; ES-E2E-11)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from bridges.kafka.admin.client import Topic
from bridges.kafka.clusters.cluster import ClusterConfig
from gateway.amqp.codec.types import Symbol
from gateway.errors import RESOURCE_DELETED
from policies.model.scopes.assignment import Assignment
from tests.support.amqp.numbered import until
from tests.support.gateway.process import PATIENCE, wait_until
from tests.support.kafka.streams import Route, Streams
from tests.support.servers.kafka import KafkaBroker

PARTITION, GROUP = Symbol("event-streams-partition"), Symbol("event-streams-consumer-group")


@pytest.fixture
async def streams(kafka_broker: KafkaBroker) -> AsyncIterator[Streams]:
    streams = Streams(ClusterConfig(kafka_broker.bootstrap, refresh=0.3, retry=0.2, timeout=10))
    yield streams
    await streams.close()


def grow(broker: KafkaBroker, topic: str) -> None:
    """Give a topic a second partition."""
    broker.grow(topic, 2)


def recreate_topic(broker: KafkaBroker, topic: str) -> None:
    """Delete a topic and create it again, as large as before."""
    admin = broker.admin()
    admin.delete_topics([topic])[topic].result(PATIENCE)
    wait_until(lambda: topic not in broker.metadata().topics, "no topic")
    broker.create_topic(topic)


def produce(broker: KafkaBroker, topic: str, value: bytes, partition: int) -> None:
    with broker.writing() as write:
        write(topic, value, partition=partition)


async def member(streams: Streams, topic: str, group: str, partition: int | None) -> Any:
    """A link of a group, on its own connection."""
    properties: dict[Symbol, Any] = {GROUP: group}
    if partition is not None:
        properties[PARTITION] = Symbol(str(partition))
    return await streams.receiver(topic, credit=10, properties=properties, side=streams.connect())


@pytest.mark.parametrize("mode", ["bound", "shared"])
async def test_a_group_reads_what_was_added_to_a_new_partition_before_anybody_had_it(
    kafka_broker: KafkaBroker, streams: Streams, mode: Any
) -> None:
    topic = await asyncio.to_thread(kafka_broker.create_topic)
    streams.routes[topic] = Route(topic, assignment=Assignment(group_mode=mode))
    first = await member(streams, topic, "g", 0 if mode == "bound" else None)
    first.link.detach(None)
    await asyncio.to_thread(grow, kafka_broker, topic)
    await asyncio.to_thread(produce, kafka_broker, topic, b"early", 1)
    await noticed(streams, topic, lambda known: known.partitions == 2)
    second = await member(streams, topic, "g", 1 if mode == "bound" else None)
    (event,) = await second.receive()
    assert (event.body, event.partition, event.offset) == (b"early", "1", 0)


async def test_a_partition_that_was_there_when_the_group_began_is_read_from_then_on(
    kafka_broker: KafkaBroker, streams: Streams
) -> None:
    topic = await asyncio.to_thread(kafka_broker.create_topic, partitions=2)
    await member(streams, topic, "g", 0)
    await asyncio.to_thread(produce, kafka_broker, topic, b"old", 1)
    second = await member(streams, topic, "g", 1)
    await asyncio.to_thread(produce, kafka_broker, topic, b"new", 1)
    assert (await second.receive())[0].body == b"new"


async def attached_slowly(streams: Streams, topic: str, meanwhile: Callable[[], Awaitable[None]]) -> Any:
    """A receiver whose attach waits for Kafka until `meanwhile` has run."""
    cluster = streams.bridge.cluster
    ask = cluster.bounds

    async def slow(*about: Any) -> Any:
        cluster.bounds = ask  # type: ignore[method-assign]
        answer = await ask(*about)
        await meanwhile()
        return answer

    cluster.bounds = slow  # type: ignore[method-assign]
    return await streams.receiver(topic, credit=10)


async def noticed(streams: Streams, topic: str, change: Callable[[Topic], bool]) -> None:
    """Wait until the gateway has seen the topic change."""
    async with asyncio.timeout(PATIENCE):
        while not change(await streams.bridge.cluster.topic(topic)):  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def test_a_log_that_grows_while_a_link_attaches(kafka_broker: KafkaBroker, streams: Streams) -> None:
    topic = await asyncio.to_thread(kafka_broker.create_topic)

    async def meanwhile() -> None:
        await asyncio.to_thread(grow, kafka_broker, topic)
        await noticed(streams, topic, lambda known: known.partitions == 2)

    await gets_from_both(kafka_broker, topic, await attached_slowly(streams, topic, meanwhile))


async def test_a_log_that_was_not_watched_while_a_link_attached(kafka_broker: KafkaBroker, streams: Streams) -> None:
    """The gateway forgets unwatched topics at each refresh, and an attaching link does not watch its topic yet."""
    topic, cluster = await asyncio.to_thread(kafka_broker.create_topic), streams.bridge.cluster

    async def meanwhile() -> None:
        await until(lambda: topic not in cluster._topics, "a look at the topics")

    receiver = await attached_slowly(streams, topic, meanwhile)
    await asyncio.to_thread(grow, kafka_broker, topic)
    await gets_from_both(kafka_broker, topic, receiver)


async def gets_from_both(broker: KafkaBroker, topic: str, receiver: Any) -> None:
    await asyncio.to_thread(produce, broker, topic, b"x", 1)
    (event,) = await receiver.receive()
    assert (event.body, event.partition) == (b"x", "1")
    assert event.annotations["event-streams-associated-partitions-changed"].items == ("0", "1")


async def test_a_log_that_is_made_anew_while_a_link_attaches(kafka_broker: KafkaBroker, streams: Streams) -> None:
    topic = await asyncio.to_thread(kafka_broker.create_topic)
    before = (await streams.bridge.cluster.topic(topic)).identity

    async def meanwhile() -> None:
        await asyncio.to_thread(recreate_topic, kafka_broker, topic)
        await noticed(streams, topic, lambda known: known.identity != before)

    receiver = await attached_slowly(streams, topic, meanwhile)
    assert (await receiver.end()).condition == RESOURCE_DELETED
