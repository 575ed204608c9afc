"""Event-stream nodes on a real broker: behaviour that the mock cluster lacks (KM-3, KM-7 to KM-9, KM-17 to KM-19)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from structlog.testing import capture_logs

from bridges.kafka.clusters.cluster import ClusterConfig
from gateway.amqp.codec.types import Symbol, Timestamp
from gateway.amqp.link.outcomes import ACCEPTED, Rejected
from gateway.amqp.message.sections import properties
from gateway.errors import INVALID_FIELD, MESSAGE_SIZE_EXCEEDED, RESOURCE_DELETED
from gateway.filters.position.event_stream import OFFSET, TIMESTAMP, offset_symbol
from tests.support.amqp.messages import message
from tests.support.gateway.process import PATIENCE
from tests.support.kafka.streams import Clients, Delivered, Streams, position
from tests.support.kafka.streams_remote import Remote
from tests.support.servers.kafka import KafkaBroker, new_producer
from tests.support.spark.pipeline import settled

PARTITION = Symbol("event-streams-partition")
TIMES = "CreateTime", "LogAppendTime"


@pytest.fixture
async def streams(request: pytest.FixtureRequest, kafka_broker: KafkaBroker) -> AsyncIterator[Clients]:
    found: Streams | Remote
    if getattr(request, "param", "bridge") == "process":
        found = request.getfixturevalue("remotes")()
    else:
        found = Streams(ClusterConfig(kafka_broker.bootstrap, refresh=0.3, retry=0.2, timeout=10))
    yield found
    await found.close()


everywhere = pytest.mark.parametrize("streams", ["bridge", "process"], indirect=True)
"""For tests that the real process can play without waiting for its next look at the topics."""


def produce(broker: KafkaBroker, topic: str, *values: bytes, **options: Any) -> None:
    producer = new_producer(broker.bootstrap)
    errors: list[Any] = []
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: error and errors.append(error), **options)
    assert producer.flush(PATIENCE) == 0
    assert errors == []


def bodies(messages: list[Delivered]) -> list[bytes]:
    return [message.body for message in messages]


@everywhere
@pytest.mark.row("ES-5.1.2-1", "ES-5.1.2-2")
async def test_the_timestamp_is_when_the_event_was_added(kafka_broker: KafkaBroker, streams: Clients) -> None:
    topic = kafka_broker.create_topic(config={"message.timestamp.type": "LogAppendTime"})
    sender = await streams.sender(topic)
    assert await sender.send(message(b"x", creation_time=1_000_000_000_000)) is ACCEPTED
    receiver = await streams.receiver(topic, after="@earliest", credit=1)
    (event,) = await receiver.receive()
    assert abs(event.annotations["event-streams-timestamp"] - time.time() * 1000) < 120_000
    assert properties(event.data, event.layout).creation_time == 1_000_000_000_000
    info = await streams.receiver(f"{topic}/$info", credit=1)
    assert (await info.receive())[0].body["timestamp-type"] == "append"


async def test_a_topic_that_keeps_its_producers_times_is_warned_of_once(
    kafka_broker: KafkaBroker, streams: Streams
) -> None:
    topics = {kind: kafka_broker.create_topic(config={"message.timestamp.type": kind}) for kind in TIMES}
    with capture_logs() as logs:
        for topic in (*topics.values(), *topics.values()):
            await streams.sender(topic)
            await streams.receiver(topic)
    warned = [line["topic"] for line in logs if line["event"] == "topic keeps its producers' times"]
    assert warned == [topics["CreateTime"]]


@everywhere
@pytest.mark.row("ES-5-1", "ES-5.2-5", "ES-5.1.2-4", "ES-5.1.2-5")
async def test_times_filter_each_event_and_never_reorder(kafka_broker: KafkaBroker, streams: Clients) -> None:
    topic = kafka_broker.create_topic()
    for stamp in (100, 300, 50, 400):
        produce(kafka_broker, topic, b"%d" % stamp, timestamp=stamp)
    for after, expected in ((150, [300, 400]), (-5, [100, 300, 50, 400]), (300, [400]), (400, [])):
        wanted = position(**{TIMESTAMP: Timestamp(after)})
        receiver = await streams.receiver(topic, filter=wanted, credit=10)
        assert bodies(await receiver.drain()) == [b"%d" % stamp for stamp in expected]
    both = position(**{OFFSET: Symbol(offset_symbol(1)), TIMESTAMP: Timestamp(60)})
    receiver = await streams.receiver(topic, filter=both, credit=10)
    assert bodies(await receiver.drain()) == [b"400"]


@everywhere
async def test_only_committed_records_are_delivered_and_drain_ends_behind_markers(
    kafka_broker: KafkaBroker, streams: Clients
) -> None:
    topic = kafka_broker.create_topic()
    producer = Producer(
        {"bootstrap.servers": kafka_broker.bootstrap, "transactional.id": topic, "log_level": 0}
    )
    producer.init_transactions(PATIENCE)
    producer.begin_transaction()
    producer.produce(topic, b"lost")
    producer.flush(PATIENCE)
    producer.abort_transaction(PATIENCE)
    producer.begin_transaction()
    producer.produce(topic, b"kept")
    producer.commit_transaction(PATIENCE)
    await asyncio.to_thread(settled, kafka_broker, topic)
    receiver = await streams.receiver(topic, after="@earliest", credit=10)
    assert bodies(await receiver.drain()) == [b"kept"]
    producer.begin_transaction()
    producer.produce(topic, b"open")
    producer.flush(PATIENCE)
    late = await streams.receiver(topic, credit=10)  # KM-7: what is behind an open transaction comes later
    producer.commit_transaction(PATIENCE)
    assert bodies(await late.receive()) == [b"open"]


@pytest.mark.row("ES-4.6.5-2", "ES-6-7")
async def test_growth_is_announced_once(kafka_broker: KafkaBroker, streams: Streams) -> None:
    topic = kafka_broker.create_topic(partitions=1)
    receiver = await streams.receiver(topic, credit=100)
    info = await streams.receiver(f"{topic}/$info", credit=2)
    assert len((await info.receive())[0].body["partitions"]) == 1
    kafka_broker.grow(topic, 2)
    produce(kafka_broker, topic, b"early", partition=1)
    (early,) = await receiver.receive()
    assert (early.body, early.partition) == (b"early", "1")
    produce(kafka_broker, topic, b"late", partition=0)
    (late,) = await receiver.receive()
    changed = [
        event.annotations.get("event-streams-associated-partitions-changed") for event in (early, late)
    ]
    assert changed[0].items == ("0", "1")
    assert changed[1] is None
    assert len((await info.receive())[0].body["partitions"]) == 2


@pytest.mark.row("ES-4.6.5-2")
async def test_growth_is_told_each_time_and_to_agnostic_links_alone(
    kafka_broker: KafkaBroker, streams: Streams
) -> None:
    """Whether or not a link has already received an event (KM-9)."""
    topic = kafka_broker.create_topic(partitions=3)
    agnostic = await streams.receiver(topic, credit=100)
    bound = await streams.receiver(topic, credit=100, properties={PARTITION: Symbol("0")})
    info = await streams.receiver(f"{topic}/$info")

    async def next_bounds(*values: bytes, partition: int = 0) -> list[Any]:
        """What the next events say of the partitions to the agnostic link; to the bound one they say nothing."""
        produce(kafka_broker, topic, *values, partition=partition)
        events = await agnostic.receive(len(values))
        assert bodies(events) == list(values)
        if partition == 0:
            assert [changed(event) for event in await bound.receive(len(values))] == [None] * len(values)
        return [changed(event) for event in events]

    assert await next_bounds(b"0", b"1") == [("0", "1", "2"), None]
    for count in (4, 6):
        kafka_broker.grow(topic, count)
        seen = 0
        while seen < count:  # $info says it once the gateway has seen it
            info.link.grant(1)
            seen = len((await info.receive())[0].body["partitions"])
        everything = tuple(map(str, range(count)))
        assert await next_bounds(b"before %d" % count, b"after %d" % count) == [everything, None]
        assert await next_bounds(b"new %d" % count, partition=count - 1) == [None]
    late = await streams.receiver(topic, credit=10)
    assert await next_bounds(b"last") == [None]
    assert changed((await late.receive())[0]) == tuple(map(str, range(6)))


def changed(event: Delivered) -> Any:
    """The partitions that a transfer reports as associated with its link; None if it does not."""
    found = event.annotations.get("event-streams-associated-partitions-changed")
    return None if found is None else tuple(found.items)


async def test_retention_overtakes_a_link(kafka_broker: KafkaBroker, streams: Streams) -> None:
    topic = kafka_broker.create_topic()
    produce(kafka_broker, topic, *(b"%d" % number for number in range(10)))
    admin = kafka_broker.admin()  # kept: an answer ends with its client
    admin.delete_records([TopicPartition(topic, 0, 6)])[TopicPartition(topic, 0)].result(PATIENCE)
    old = await streams.receiver(topic, after=offset_symbol(2), credit=10)
    assert bodies(await old.drain()) == [b"6", b"7", b"8", b"9"]
    info = await streams.receiver(f"{topic}/$info", credit=1)
    (entry,) = (await info.receive())[0].body["partitions"]
    assert (entry["earliest-offset"], entry["latest-offset"]) == (offset_symbol(6), offset_symbol(9))
    admin = kafka_broker.admin()  # kept: an answer ends with its client
    admin.delete_records([TopicPartition(topic, 0, 10)])[TopicPartition(topic, 0)].result(PATIENCE)
    info = await streams.receiver(f"{topic}/$info", credit=1)
    (entry,) = (await info.receive())[0].body["partitions"]
    assert (entry["earliest-offset"], entry["latest-offset"]) == (None, None)


async def test_a_deleted_topic_ends_its_links(kafka_broker: KafkaBroker, streams: Streams) -> None:
    topic = kafka_broker.create_topic()
    sender = await streams.sender(topic)
    receiver = await streams.receiver(topic, credit=1)
    admin = kafka_broker.admin()  # kept: an answer ends with its client
    admin.delete_topics([topic])[topic].result(PATIENCE)
    assert (await sender.end()).condition == RESOURCE_DELETED
    assert (await receiver.end()).condition == RESOURCE_DELETED


async def test_a_recreated_topic_is_another_log(kafka_broker: KafkaBroker, streams: Streams) -> None:
    topic = kafka_broker.create_topic()
    produce(kafka_broker, topic, b"1", b"2", b"3")
    receiver = await streams.receiver(topic, after="@earliest", credit=10)
    assert bodies(await receiver.receive(3)) == [b"1", b"2", b"3"]
    admin = kafka_broker.admin()  # kept: an answer ends with its client
    admin.delete_topics([topic])[topic].result(PATIENCE)
    kafka_broker.create_topic(topic)
    assert (await receiver.end()).condition == RESOURCE_DELETED


async def test_kafka_refuses_and_the_peer_learns_why(kafka_broker: KafkaBroker, streams: Streams) -> None:
    small = kafka_broker.create_topic(config={"max.message.bytes": "2000"})
    sender = await streams.sender(small)
    assert 0 < sender.link.max_message_size < 2000 or await sender.send(message(b"x" * 1000)) is ACCEPTED
    inflated = message(b"x", app={"a" * 50 + str(number): "b" * 20 for number in range(15)})
    outcome = await sender.send(inflated)
    assert isinstance(outcome, Rejected)
    assert outcome.error is not None
    assert outcome.error.condition == MESSAGE_SIZE_EXCEEDED
    compacted = kafka_broker.create_topic(config={"cleanup.policy": "compact"})
    outcome = await (await streams.sender(compacted)).send(message(b"no key"))
    assert isinstance(outcome, Rejected)
    assert outcome.error is not None
    assert outcome.error.condition == INVALID_FIELD


async def test_large_messages_pass_whole(kafka_broker: KafkaBroker, streams: Streams) -> None:
    topic = kafka_broker.create_topic(config={"max.message.bytes": str(12 * 1024 * 1024)})
    body = bytes(range(256)) * 40_000
    assert await (await streams.sender(topic)).send(message(body)) is ACCEPTED
    receiver = await streams.receiver(topic, after="@earliest", credit=1)
    (event,) = await receiver.receive()
    assert event.body == body


@everywhere
@pytest.mark.row("ES-1-3")
async def test_order_holds_per_partition_under_load(kafka_broker: KafkaBroker, streams: Clients) -> None:
    topic = kafka_broker.create_topic(partitions=3)
    sender = await streams.sender(topic)
    posted = [await sender.post(message(b"%d" % number)) for number in range(20_000)]
    for outcome in posted:
        assert await outcome is ACCEPTED
    receiver = await streams.receiver(topic, after="@earliest", credit=20_000)
    last = {}
    for event in await receiver.receive(20_000):
        number = int(event.body)
        assert number > last.get(event.partition, -1)
        last[event.partition] = number


async def test_a_link_that_retention_overtook_goes_on_and_says_so(
    kafka_broker: KafkaBroker, streams: Streams
) -> None:
    topic = kafka_broker.create_topic()
    receiver = await streams.receiver(topic, credit=10)
    produce(kafka_broker, topic, *(b"%01000d" % number for number in range(30_000)))
    events = await receiver.receive(10)
    admin, end = kafka_broker.admin(), TopicPartition(topic, 0, 29_990)
    admin.delete_records([end])[TopicPartition(topic, 0)].result(PATIENCE)
    receiver.link.grant(30_000)
    events += await receiver.drain()
    numbers = [int(event.body) for event in events]
    assert len(numbers) < 30_000
    assert numbers[-10:] == list(range(29_990, 30_000))
    (gap,) = [index for index in range(1, len(numbers)) if numbers[index] != numbers[index - 1] + 1]
    flagged = [
        index for index, event in enumerate(events) if "x-opt-gateway-gap" in event.message_annotations
    ]
    assert flagged == [gap]
    assert streams.bridge.counters.gaps == 1
