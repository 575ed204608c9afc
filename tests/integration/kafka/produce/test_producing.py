"""Producing to a real broker: outcomes, keys, growth, batches (KM-4, KM-6, KM-9, KM-15, KM-18, KM-19)."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import NewPartitions

from bridges.kafka.clusters.cluster import ClusterConfig
from gateway.amqp.codec.types import Symbol
from gateway.amqp.link.outcomes import ACCEPTED, Modified, Outcome, Rejected
from gateway.errors import INVALID_FIELD, MESSAGE_SIZE_EXCEEDED, NOT_FOUND, RESOURCE_DELETED
from tests.support.amqp.messages import message, section
from tests.support.gateway.crossing import Outbox
from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.process import PATIENCE
from tests.support.kafka.streams import Route, Streams
from tests.support.project.commands import program
from tests.support.project.parts import CLIENTS, folder
from tests.support.servers.kafka import KafkaBroker

GROUP_KEY, TARGET = "event-streams-group-key", "event-streams-target-partition"
KEYS = ["", "a", "order-1", "order-2", "Ärger", "日本", "🙂", "x" * 300, "\0", *(f"customer-{n}" for n in range(60))]


@pytest.fixture
async def streams(kafka_broker: KafkaBroker) -> AsyncIterator[Streams]:
    streams = Streams(ClusterConfig(kafka_broker.bootstrap, refresh=0.3, retry=0.2, timeout=10))
    yield streams
    await streams.close()


def records(broker: KafkaBroker, topic: str, partitions: int, count: int) -> list[Any]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "t", "log_level": 0})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    found: list[Any] = []
    while len(found) < count:
        found += (batch := consumer.consume(count - len(found), PATIENCE))
        assert batch, f"only {len(found)} of {count} records"
    consumer.close()
    return found


def refused(outcome: Outcome) -> str:
    assert isinstance(outcome, Rejected)
    assert outcome.error is not None
    return outcome.error.condition


# -- keys and partitions


@pytest.mark.row("ES-4.6.7-5")
def test_one_key_means_one_partition_for_everybody(
    start_gateway: Gateways, kafka_broker: KafkaBroker, tmp_path: Path
) -> None:
    """After a restart of the gateway, at another gateway, and for a Java producer with its own settings."""
    topic = kafka_broker.create_topic(partitions=12)
    document = Document()
    document.kafka(kafka_broker.bootstrap)
    gateway = start_gateway(document.text)
    send_keys(document.edge, topic)
    gateway.stop()
    gateway.restart()
    send_keys(document.edge, topic)
    second = Document(id="gw-second")
    second.kafka(kafka_broker.bootstrap)
    start_gateway(second.text)
    send_keys(second.edge, topic)
    (tmp_path / "keys").write_text("\n".join(key.encode().hex() for key in KEYS if key))
    source = str(CLIENTS / "kafka" / "Partitions.java")
    command = [program("java"), "-cp", f"{folder('kafka')}/*", source, kafka_broker.bootstrap, topic]
    command.append(str(tmp_path / "keys"))
    printed = subprocess.run(command, capture_output=True, text=True, timeout=3 * PATIENCE, check=True)
    theirs = {line.split()[0]: int(line.split()[1]) for line in printed.stdout.splitlines()}
    assert len(theirs) == len(KEYS) - 1
    chosen: dict[str, set[int]] = {}
    for record in records(kafka_broker, topic, 12, 4 * len(KEYS) - 1):
        chosen.setdefault(record.key().hex(), set()).add(record.partition())
    assert len(chosen.pop("")) == 1
    assert chosen == {key: {partition} for key, partition in theirs.items()}
    assert len(set(theirs.values())) == 12


def send_keys(port: int, topic: str) -> None:
    outbox = Outbox(port, f"events/{topic}")
    outbox.credit()
    for key in KEYS:
        assert outbox.send(message(b"x", ma={GROUP_KEY: key})).matches("accepted")


async def test_a_sender_reaches_partitions_that_were_added(kafka_broker: KafkaBroker, streams: Streams) -> None:
    topic = kafka_broker.create_topic()
    sender, other = await streams.sender(topic), await streams.sender(topic)
    to_new = message(b"to a new one", da={TARGET: "1"})
    assert await sender.send(message(b"before")) is ACCEPTED
    assert refused(await sender.send(to_new)) == NOT_FOUND
    admin = kafka_broker.admin()  # kept: an answer ends with its client
    admin.create_partitions([NewPartitions(topic, 2)])[topic].result(PATIENCE)
    async with asyncio.timeout(PATIENCE):
        for peer in (sender, other):
            while (outcome := await peer.send(to_new)) is not ACCEPTED:
                assert refused(outcome) == NOT_FOUND
    late = await streams.sender(topic)
    assert await late.send(to_new) is ACCEPTED
    found = records(kafka_broker, topic, 2, 4)
    assert sorted((record.partition(), record.value()) for record in found) == [
        (0, b"before"),
        *[(1, b"to a new one")] * 3,
    ]


async def test_a_topic_that_grew_while_nobody_was_there(kafka_broker: KafkaBroker, streams: Streams) -> None:
    topic = kafka_broker.create_topic()
    first = await streams.sender(topic)
    assert await first.send(message(b"0")) is ACCEPTED
    first.link.detach(None)
    await streams.bridge.cluster.loop.run_in_executor(None, grow, kafka_broker, topic)
    while (peer := await streams.sender(topic)) and (await streams.bridge.cluster.topic(topic)).partitions < 2:
        peer.link.detach(None)
        await asyncio.sleep(0.05)
    peer.link.detach(None)
    peer = await streams.sender(topic)  # that one may have come just before
    assert await peer.send(message(b"1", da={TARGET: "1"})) is ACCEPTED


def grow(broker: KafkaBroker, topic: str) -> None:
    broker.grow(topic, 2)


# -- what Kafka refuses


def test_the_size_that_a_topic_takes_is_announced(start_gateway: Gateways, kafka_broker: KafkaBroker) -> None:
    topic = kafka_broker.create_topic(config={"max.message.bytes": "20000"})
    document = Document()
    document.kafka(kafka_broker.bootstrap)
    document.scope()["listen"][0]["limits"] = {"max_message_size": "300kB"}
    start_gateway(document.text)
    small = Outbox(document.edge, f"events/{kafka_broker.create_topic()}")
    assert small.attach.max_message_size == 300_000, "the listener's"
    sender = Outbox(document.edge, f"events/{topic}")
    limit = sender.attach.max_message_size
    assert 19_000 < limit < 20_000
    assert sender.send_with_credit(message(b"x" * (limit - 100))).matches("accepted")
    # Properties are stored twice, readable and exact: what fits the link may not fit the topic.
    refusal = sender.send(message(b"", app={"a": "x" * 15_000}))
    assert refusal["error"]["condition"] == MESSAGE_SIZE_EXCEEDED
    assert sender.send(message(b"next")).matches("accepted")
    assert sender.fails(message(b"x" * 20_000)).error["condition"] == MESSAGE_SIZE_EXCEEDED


async def test_a_record_that_the_topic_refuses_is_invalid(kafka_broker: KafkaBroker, streams: Streams) -> None:
    topic = kafka_broker.create_topic(config={"message.timestamp.before.max.ms": "0"})
    assert refused(await (await streams.sender(topic)).send(message(b"x"))) == INVALID_FIELD


async def test_nobody_knows_of_a_record_whose_broker_fell_silent(own_kafka: KafkaBroker) -> None:
    streams = Streams(ClusterConfig(own_kafka.bootstrap, {"message.timeout.ms": "6000"}, timeout=10))
    sender = await streams.sender(own_kafka.create_topic())
    assert await sender.send(message(b"0")) is ACCEPTED
    own_kafka.process.send_signal(signal.SIGSTOP)
    got = await sender.send(message(b"1"))
    own_kafka.process.send_signal(signal.SIGCONT)
    assert isinstance(got, Modified)
    assert got.failed
    await streams.close()


async def test_a_deleted_topic_takes_nothing_and_one_made_again_does(
    kafka_broker: KafkaBroker, streams: Streams
) -> None:
    topic = kafka_broker.create_topic()
    sender = await streams.sender(topic)
    for number in range(5):
        assert await sender.send(message(b"old %d" % number)) is ACCEPTED
    admin = kafka_broker.admin()  # kept: an answer ends with its client
    admin.delete_topics([topic])[topic].result(PATIENCE)
    assert (await sender.end()).condition == RESOURCE_DELETED
    kafka_broker.create_topic(topic)
    again = await streams.sender(topic)
    for number in range(5):
        assert await again.send(message(b"new %d" % number)) is ACCEPTED
    assert [record.value() for record in records(kafka_broker, topic, 1, 5)] == [b"new %d" % n for n in range(5)]


# -- compacted topics


async def test_keys_are_asked_for_and_deleted_on_compacted_topics(kafka_broker: KafkaBroker, streams: Streams) -> None:
    topic = kafka_broker.create_topic(config={"cleanup.policy": "compact"})
    streams.routes[topic] = Route(topic, tombstones=True, key_from=("group-key", "group-id"))
    sender = await streams.sender(topic)
    assert refused(await sender.send(message(b"no key"))) == INVALID_FIELD
    assert await sender.send(message(b"v", group_id="g")) is ACCEPTED
    assert await sender.send(message(b"v", ma={GROUP_KEY: "k"})) is ACCEPTED
    assert await sender.send(section(0x72, {Symbol(GROUP_KEY): "k"}) + section(0x77, None)) is ACCEPTED
    found = [(record.key(), record.value()) for record in records(kafka_broker, topic, 1, 3)]
    assert found == [(b"g", b"v"), (b"k", b"v"), (b"k", None)]
    receiver = await streams.receiver(topic, after="@earliest", credit=3)
    events = await receiver.receive(3)
    assert [event.message_annotations.get("x-opt-kafka-tombstone") for event in events] == [None, None, True]


async def test_what_a_topic_refuses_takes_nothing_else_with_it(kafka_broker: KafkaBroker, streams: Streams) -> None:
    """Records are sent in batches, and brokers refuse whole batches."""
    topic = kafka_broker.create_topic()
    sender = await streams.sender(topic)
    kafka_broker.configure(topic, "cleanup.policy", "compact")  # nobody has told the gateway: it asks for no keys
    posted = {
        number: await sender.post(message(b"%d" % number, ma={GROUP_KEY: "k"} if number != 50 else None))
        for number in range(100)
    }
    outcomes = dict(zip(posted, await asyncio.gather(*posted.values()), strict=True))
    assert refused(outcomes.pop(50)) == INVALID_FIELD
    assert {outcome.name for outcome in outcomes.values()} <= {"accepted", "released", "modified"}
    taken = [b"%d" % number for number, outcome in outcomes.items() if outcome is ACCEPTED]
    assert await sender.send(message(b"last", ma={GROUP_KEY: "k"})) is ACCEPTED
    assert [record.value() for record in records(kafka_broker, topic, 1, len(taken) + 1)] == [*taken, b"last"]


# -- many small messages


async def test_small_messages_reach_kafka_in_large_batches_and_in_order(kafka_broker: KafkaBroker) -> None:
    streams = Streams(ClusterConfig(kafka_broker.bootstrap, timeout=10))
    topic, count = kafka_broker.create_topic(), 20_000
    sender = await streams.sender(topic)
    posted = [await sender.post(message(b"%d" % number)) for number in range(count)]
    assert set(await asyncio.gather(*posted)) == {ACCEPTED}
    await streams.close()
    assert [int(record.value()) for record in records(kafka_broker, topic, 1, count)] == list(range(count))
    batches = list(record_batches((kafka_broker.data / f"{topic}-0" / f"{0:020d}.log").read_bytes()))
    assert sum(batches) == count
    assert count / len(batches) >= 50


async def test_small_messages_make_no_batch_that_the_topic_refuses(kafka_broker: KafkaBroker, streams: Streams) -> None:
    """Brokers limit the size of batches, and refuse all records of one that is too large."""
    topic, count = kafka_broker.create_topic(config={"max.message.bytes": "3000"}), 2_000
    sender = await streams.sender(topic)
    posted = [await sender.post(message(b"%0100d" % number)) for number in range(count // 2)]
    large = await sender.post(message(b"", app={"a": "x" * 1_500}))  # stored twice: too large by itself
    posted += [await sender.post(message(b"%0100d" % number)) for number in range(count // 2, count)]
    assert refused(await large) == MESSAGE_SIZE_EXCEEDED
    assert set(await asyncio.gather(*posted)) == {ACCEPTED}
    assert [int(record.value()) for record in records(kafka_broker, topic, 1, count)] == list(range(count))


def record_batches(segment: bytes) -> Iterator[int]:
    """The number of records in each batch of a segment, as stored by the broker (format 2)."""
    at = 0
    while at + 61 <= len(segment) and (size := int.from_bytes(segment[at + 8 : at + 12])):
        yield int.from_bytes(segment[at + 57 : at + 61])
        at += 12 + size


async def test_a_limit_that_is_lowered_costs_no_message_that_is_small_enough(
    kafka_broker: KafkaBroker, streams: Streams
) -> None:
    """Brokers refuse whole batches: the other records of a batch that is now too large may be sent again."""
    topic = kafka_broker.create_topic(config={"max.message.bytes": "1000000"})
    sender = await streams.sender(topic)
    assert await sender.send(message(b"first")) is ACCEPTED
    kafka_broker.configure(topic, "max.message.bytes", "20000")
    posted = [await sender.post(message(b"%d" % number + b"x" * 1_000)) for number in range(100)]
    large = await sender.post(message(b"y" * 30_000))
    outcomes = {outcome.name for outcome in await asyncio.gather(*posted)}
    assert outcomes <= {"accepted", "released"}
    assert (await large).name in ("released", "rejected")
    again = [await sender.post(message(b"%d" % number + b"x" * 1_000)) for number in range(100)]
    assert set(await asyncio.gather(*again)) == {ACCEPTED}, "the limit is read anew"
    assert refused(await sender.send(message(b"y" * 30_000))) == MESSAGE_SIZE_EXCEEDED
