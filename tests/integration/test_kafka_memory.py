"""What consumers cost that have stopped, or reject what nobody takes (KM-12, KM-16; issue 6: bounded memory)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress

import pytest
from confluent_kafka import Producer

from bridges.kafka.cluster import ClusterConfig
from gateway.amqp.link.outcomes import Rejected
from policies.model.reading import LogReadingRule
from tests.bench.running import resident_kib
from tests.support.document import Document
from tests.support.gateway import Gateways
from tests.support.kafka import KafkaBroker
from tests.support.members import Member, keep_connected
from tests.support.messages import sections
from tests.support.numbered import until
from tests.support.process import PATIENCE, wait_until
from tests.support.streams import Route, Streams, fill

SIZE, COUNT = 32_000, 8_000
LOG = SIZE * COUNT // 2**20
"""MiB in the topic."""
STOPPED = 60
"""MiB that the gateway may take for links that grant nothing: chunks read ahead, queues of Kafka clients."""
DEAF = 200
"""MiB with a link that has credit and takes nothing from its socket: 64 MiB wait for that and for outcomes, and the
cache holds what they were made of."""
connections = pytest.fixture(autouse=True)(keep_connected)


def number(payload: bytes) -> int:
    return int(sections(payload)["data"][:8])


def calm(size: Callable[[], float]) -> bool:
    """Whether it stays the same for a while."""
    seen = []
    for _ in range(5):
        seen.append(size())
        time.sleep(0.1)
    return max(seen) - min(seen) < 1


async def test_rejected_events_wait_within_bounds_for_a_dead_letter_topic_that_takes_none(
    kafka_broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bridges.kafka.consume.link._MAX_HELD", 100_000)
    streams, count = Streams(ClusterConfig(kafka_broker.bootstrap)), 4_000
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


def test_a_consumer_that_stopped_costs_no_memory(start_gateway: Gateways, kafka_broker: KafkaBroker) -> None:
    document = Document()
    document.kafka(kafka_broker.bootstrap)
    gateway = start_gateway(document.text)
    topic = kafka_broker.create_topic()
    producer = Producer({"bootstrap.servers": kafka_broker.bootstrap, "queue.buffering.max.kbytes": 2**20})
    for each in range(COUNT):
        producer.produce(topic, b"%08d" % each + bytes(SIZE - 8), partition=0)
    assert producer.flush(PATIENCE) == 0
    before = resident_kib(gateway.process.pid)

    def grown() -> float:
        return (resident_kib(gateway.process.pid) - before) / 1024

    stopped = [Member(document.edge, f"events/{topic}", {}, start="@earliest") for _ in range(3)]
    for member in stopped:
        member.attached(credit=1)
        assert number(member.take(1)[0][2]) == 0
    wait_until(lambda: calm(grown), "the gateway to have read what it will")
    idle = grown()
    deaf = Member(document.edge, f"events/{topic}", {}, start="@earliest")
    deaf.attached(credit=COUNT)  # and reads nothing of it
    wait_until(lambda: calm(grown), "the gateway to have read what it will")
    waiting = grown()
    print(f"of {LOG} MiB in the topic: {idle:.0f} MiB for links without credit, {waiting:.0f} with a deaf one")
    assert idle < STOPPED
    assert waiting < DEAF < LOG
    stopped[0].peer.flow(0, link_credit=1, delivery_count=1)
    assert number(stopped[0].take(1)[0][2]) == 1
