"""Memory for consumers that have stopped, or reject every event (KM-12, KM-16; issue 6: bounded memory)."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from confluent_kafka import Producer

from bridges.kafka.clusters.cluster import ClusterConfig
from gateway.amqp.link.outcomes import Rejected
from policies.model.scopes.reading import LogReadingRule
from tests.bench.running import resident_kib
from tests.support.amqp.members import Member, keep_connected
from tests.support.amqp.messages import sections
from tests.support.amqp.numbered import until
from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.process import PATIENCE
from tests.support.kafka.streams import Route, Streams, fill
from tests.support.servers.kafka import KafkaBroker, new_producer

SIZE, LOT = 32_000, 4_000
"""Size of an event in bytes, and the number of events per lot: 122 MiB."""
GROWN = SIZE * LOT // 4
"""Maximum growth of the gateway by one further lot, in bytes: caches and queues are full after the first."""
OUTPUT = 'scopegate_held_bytes{kind="output"}'
"""The bytes that wait for sockets."""
connections = pytest.fixture(autouse=True)(keep_connected)


def number(payload: bytes) -> int:
    return int(sections(payload)["data"][:8])


async def test_rejected_events_wait_within_bounds_for_a_dead_letter_topic_that_takes_none(
    kafka_broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bridges.kafka.links.receiver._MAX_HELD", 100_000)
    streams, count = Streams(ClusterConfig(kafka_broker.bootstrap, timeout=10)), 4_000
    topic = await asyncio.to_thread(kafka_broker.create_topic)
    letters = await asyncio.to_thread(kafka_broker.create_topic, config={"max.message.bytes": "80"})
    streams.routes[topic] = Route(topic, reading=LogReadingRule(dead_letter=letters))
    await fill(streams, topic, count)
    receiver = await streams.receiver(topic, after="@earliest", credit=count)
    await receiver.receive(1, Rejected(None))
    taken = 1
    with suppress(TimeoutError):
        while True:
            event = await asyncio.wait_for(receiver.messages.get(), 1)
            receiver.link.settle(event.delivery, Rejected(None))
            taken += 1
    assert taken < count // 2
    await asyncio.to_thread(kafka_broker.configure, letters, "max.message.bytes", "1000000")
    await receiver.receive(count - taken, Rejected(None))
    await until(lambda: streams.bridge.counters.dead_lettered == count, "all of them")
    await streams.close()


def appended(producer: Producer, topic: str, numbers: range) -> None:
    for each in numbers:
        producer.produce(topic, b"%08d" % each + bytes(SIZE - 8), partition=0)
    assert producer.flush(PATIENCE) == 0


def test_consumers_that_stopped_cost_no_memory(start_gateway: Gateways, kafka_broker: KafkaBroker) -> None:
    """Some grant no credit, one grants it but does not read its socket; memory is bounded whatever arrives."""
    document = Document()
    document.kafka(kafka_broker.bootstrap)
    document.scope()["listen"][0]["limits"] = {"idle_timeout": "10m"}  # they say nothing while the test goes on
    gateway, topic = start_gateway(document.text), kafka_broker.create_topic()
    producer = new_producer(kafka_broker.bootstrap, **{"queue.buffering.max.kbytes": 2**20})
    *stopped, deaf, quick = [Member(document.edge, f"events/{topic}", {}, start="@earliest") for _ in range(5)]
    for member in stopped:
        member.attached(credit=1)
    deaf.attached()
    deaf.peer.flow(0, link_credit=2 * LOT, incoming_window=2 * LOT)
    quick.attached()
    sizes = []
    for lot in range(2):  # the first warms up
        quick.peer.flow(0, delivery_count=lot * LOT, link_credit=LOT, incoming_window=LOT)
        appended(producer, topic, range(lot * LOT, (lot + 1) * LOT))
        assert [number(each[2]) for each in quick.take(LOT)] == [*range(lot * LOT, (lot + 1) * LOT)]
        gateway.wait_metric(OUTPUT, bool)  # the socket of the deaf one is full
        sizes.append(resident_kib(gateway.process.pid) * 1024)
    assert sizes[1] - sizes[0] < GROWN, sizes
    for member in stopped:
        assert number(member.take(1)[0][2]) == 0
    stopped[0].peer.flow(0, link_credit=1, delivery_count=1)
    assert number(stopped[0].take(1)[0][2]) == 1
    deaf.cut()  # what it has is not waited for at the end
