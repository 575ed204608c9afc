"""Bridges between real places: topics of two gateways, a queue of Artemis; kills, and who takes over (KM-24)."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition

from tests.support.amqp.links import receiving
from tests.support.amqp.messages import sections
from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateway, Gateways
from tests.support.gateway.process import PATIENCE, ports, wait_until
from tests.support.servers.kafka import KafkaBroker, new_producer
from tests.support.servers.servers import Artemis, Redis

PARTITIONS = 3


@pytest.fixture
def own_redis() -> Iterator[Redis]:
    server = Redis()
    yield server
    server.stop()


class Site:
    """A gateway of a broker, and what happens to it."""

    def __init__(self, start: Gateways, broker: KafkaBroker, name: str, state: str = "memory") -> None:
        self.start_gateway, self.name = start, name
        self.document = Document(state=state, lease="5s", drain="1s")
        self.document.data["gateway"]["id"] = name
        self.document.kafka(broker.bootstrap)
        self.gateway: Gateway

    def bridge(self, **entry: Any) -> None:
        """Add a bridge `b`."""
        self.document.scope().setdefault("bridge", []).append({"name": "b", **entry})

    def start(self) -> Site:
        self.gateway = self.start_gateway(self.document.text)
        return self

    def again(self) -> None:
        """Kill it and start it anew."""
        self.gateway.kill()
        self.gateway.restart()

    def another(self) -> Gateway:
        """One more process with the same policy, at other ports."""
        other = self.document.but()
        edge, http = ports(2)
        other.data["gateway"] |= {"id": f"{self.name}-2", "http": f"127.0.0.1:{http}"}
        other.scope()["listen"][0]["bind"] = f"127.0.0.1:{edge}"
        return self.start_gateway(other.text)


class Topics:
    """The records of topics, as Kafka's own clients write and read them."""

    def __init__(self, broker: KafkaBroker) -> None:
        self.broker = broker
        self.producer = new_producer(broker.bootstrap)

    def make(self) -> str:
        return self.broker.create_topic(partitions=PARTITIONS)

    def produce(self, topic: str, numbers: range) -> None:
        """Append events to the partitions in turn; keys say which one."""
        for number in numbers:
            partition = number % PARTITIONS
            self.producer.produce(topic, b"%d" % number, key=b"p%d" % partition, partition=partition)
        assert self.producer.flush(PATIENCE) == 0

    def read(self, topic: str, enough: Callable[[list[int]], bool]) -> dict[int, list[int]]:
        """What is in each partition, read until it is enough."""
        settings = {"bootstrap.servers": self.broker.bootstrap, "group.id": "t", "auto.offset.reset": "earliest"}
        consumer = Consumer(settings)
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
        found: dict[int, list[int]] = {partition: [] for partition in range(PARTITIONS)}

        def reads() -> bool:
            for record in consumer.consume(1000, 0.2):
                assert record.error() is None
                found[record.partition()].append(int(record.value()))
            return enough([number for numbers in found.values() for number in numbers])

        try:
            wait_until(reads, "enough records")
        finally:
            consumer.close()
        return found


def holds(numbers: range) -> Callable[[list[int]], bool]:
    """All of these are there."""
    return lambda found: set(numbers) <= set(found)


def first_times(numbers: list[int]) -> list[int]:
    """Without what came again."""
    return list(dict.fromkeys(numbers))


def repeated(found: dict[int, list[int]]) -> int:
    return sum(len(numbers) - len(set(numbers)) for numbers in found.values())


def in_order(found: dict[int, list[int]]) -> bool:
    """What comes again comes with all that followed it; apart from that each partition is in order."""
    return all(first_times(numbers) == sorted(set(numbers)) for numbers in found.values())


@pytest.fixture
def topics(kafka_broker: KafkaBroker) -> Topics:
    return Topics(kafka_broker)


def pushed(
    start: Gateways, broker: KafkaBroker, topics: Topics, state: str, **more: Any
) -> tuple[Site, Site, str, str]:
    """Gateway A moves a topic of its own to a topic behind gateway B."""
    source, target = topics.make(), topics.make()
    b = Site(start, broker, "gw-b").start()
    a = Site(start, broker, "gw-a", state)
    a.document.connector(b.document.edge, "b")
    to = {"connector": "b", "address": f"events/{target}"}
    a.bridge(**{"from": f"events/{source}", "to": to, "start": "earliest", "keep_partitions": True, **more})
    return a, b, source, target


def test_a_topic_goes_to_a_topic_of_another_gateway(
    start_gateway: Gateways, kafka_broker: KafkaBroker, topics: Topics
) -> None:
    a, _, source, target = pushed(start_gateway, kafka_broker, topics, "memory")
    topics.produce(source, range(300))
    a.start()
    found = topics.read(target, holds(range(300)))
    assert found == {partition: list(range(partition, 300, PARTITIONS)) for partition in range(PARTITIONS)}
    name = 'scopegate_bridge_lag{bridge="b",scope="edge"}'
    wait_until(lambda: a.gateway.metrics()[name] == 0, "the lag to be none")
    admin, group = kafka_broker.admin(), "amqp.bridge.edge.b"

    def committed() -> int:
        """What ordinary tools see of the position, all partitions together."""
        asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(PATIENCE)
        return sum(each.offset for each in asked.topic_partitions if each.topic == source)

    wait_until(lambda: committed() == 300, "the position among the groups of Kafka")


KILLS = pytest.param((2_000,), id="once"), pytest.param((2_000, 8_000), id="twice", marks=pytest.mark.soak)
"""How many events are there when a gateway is killed."""


@pytest.mark.parametrize("kills", KILLS)
@pytest.mark.parametrize("victim", ["a", "b"])
def test_killed_in_the_middle_nothing_is_lost(
    own_redis: Redis,
    start_gateway: Gateways,
    kafka_broker: KafkaBroker,
    topics: Topics,
    victim: str,
    kills: tuple[int, ...],
) -> None:
    """What comes again is what was not settled, or settled within the last writes of the position."""
    a, b, source, target = pushed(start_gateway, kafka_broker, topics, own_redis.url, credit=50)
    total = range(10_000 * len(kills))
    topics.produce(source, total)
    a.start()
    for part in kills:
        topics.read(target, lambda found, part=part: len(set(found)) >= part)
        (a if victim == "a" else b).again()
    found = topics.read(target, holds(total))
    assert {number for numbers in found.values() for number in numbers} == set(total)
    assert in_order(found)
    if victim == "b":  # the bridge remembers what was settled: what is in flight comes again, no more
        assert repeated(found) <= 2 * 50
    else:
        assert repeated(found) < len(total) // 2


def test_another_gateway_takes_over_and_only_one_moves(
    own_redis: Redis, start_gateway: Gateways, kafka_broker: KafkaBroker, topics: Topics
) -> None:
    a, _, source, target = pushed(start_gateway, kafka_broker, topics, own_redis.url)
    a.start()
    wait_until(lambda: up(a.gateway) == 1, "the first to move")
    other = a.another()
    topics.produce(source, range(300))
    topics.read(target, holds(range(300)))
    assert up(other) == 0
    assert "standing by" in other.get("/readyz")[1]
    a.gateway.process.send_signal(signal.SIGSTOP)
    try:
        topics.produce(source, range(300, 600))
        topics.read(target, holds(range(600)))
        assert up(other) == 1
    finally:
        a.gateway.process.send_signal(signal.SIGCONT)
    wait_until(lambda: up(a.gateway) == 0, "the first to know that it is displaced")
    topics.produce(source, range(600, 900))
    found = topics.read(target, holds(range(900)))
    assert in_order(found)
    # an event is in the topic before its bridge hears so, and counts it
    wait_until(lambda: moves(a.gateway) + moves(other) - repeated(found) == 900, "all to be counted once")


def test_a_container_that_is_away_is_a_missing_end(
    start_gateway: Gateways, kafka_broker: KafkaBroker, topics: Topics
) -> None:
    """The link to it waits for its return; whoever looks must not be told that events are forwarded."""
    a, b, source, target = pushed(start_gateway, kafka_broker, topics, "memory")
    a.start()
    wait_until(lambda: up(a.gateway) == 1, "the bridge")
    b.gateway.kill()
    wait_until(lambda: up(a.gateway) == 0, "the bridge to be down")
    assert "not forwarding, to: the container is not connected" in a.gateway.get("/readyz")[1]
    topics.produce(source, range(30))
    b.gateway.restart()
    topics.read(target, holds(range(30)))
    wait_until(lambda: up(a.gateway) == 1, "the bridge to be up again")
    assert "not forwarding" not in a.gateway.get("/readyz")[1]


def test_who_stands_by_says_so_again_when_redis_is_back(
    own_redis: Redis, start_gateway: Gateways, kafka_broker: KafkaBroker, topics: Topics
) -> None:
    a, *_ = pushed(start_gateway, kafka_broker, topics, own_redis.url)
    a.start()
    gateways = a.gateway, a.another()
    own_redis.process.send_signal(signal.SIGSTOP)
    try:
        wait_until(lambda: all(said(each, "amqp:internal-error") for each in gateways), "leases to expire")
    finally:
        own_redis.process.send_signal(signal.SIGCONT)
    wait_until(lambda: sum(up(each) for each in gateways) == 1, "one to go on")
    wait_until(lambda: sum(said(each, "standing by") for each in gateways) == 1, "the other to stand by", 30)


def said(gateway: Gateway, words: str) -> bool:
    """Whether `/readyz` has these words."""
    return words in gateway.get("/readyz")[1]


def up(gateway: Gateway) -> float:
    return gateway.metrics()['scopegate_bridge_up{bridge="b",scope="edge"}']


def moves(gateway: Gateway) -> float:
    return gateway.metrics()['scopegate_bridge_events_total{bridge="b",event="moved",scope="edge"}']


def test_a_remote_log_is_moved_here_and_its_position_is_kept(
    own_redis: Redis, start_gateway: Gateways, kafka_broker: KafkaBroker, topics: Topics
) -> None:
    """The remote log offers a durable terminus: killed or not, the bridge continues at its stored position."""
    source, target = topics.make(), topics.make()
    b = Site(start_gateway, kafka_broker, "gw-b", own_redis.url).start()
    a = Site(start_gateway, kafka_broker, "gw-a", own_redis.url)
    a.document.connector(b.document.edge, "b", require_event_streams=True)
    there = {"connector": "b", "address": f"events/{source}"}
    a.bridge(**{"from": there, "to": f"events/{target}", "start": "earliest", "keep_partitions": True, "credit": 100})
    topics.produce(source, range(3_000))
    a.start()
    topics.read(target, lambda found: len(set(found)) >= 1_000)
    a.again()
    topics.read(target, lambda found: len(set(found)) >= 2_000)
    b.again()
    found = topics.read(target, holds(range(3_000)))
    a.gateway.stop()
    topics.produce(source, range(3_000, 3_300))
    a.gateway.restart()
    found = topics.read(target, holds(range(3_300)))
    assert in_order(found)
    assert repeated(found) < 2_000
    assert a.gateway.wait_log("bridge link open", end="from")["position"] == "position kept there"


def test_a_filter_of_the_policy(start_gateway: Gateways, kafka_broker: KafkaBroker, topics: Topics) -> None:
    a, _, source, target = pushed(
        start_gateway, kafka_broker, topics, "memory", filter="m.[event-streams-group-key] = 'p1'"
    )
    topics.produce(source, range(30))
    a.start()
    found = topics.read(target, holds(range(1, 30, PARTITIONS)))
    assert found == {0: [], 1: list(range(1, 30, PARTITIONS)), 2: []}


def test_a_topic_goes_to_a_queue_of_a_broker(
    start_gateway: Gateways, kafka_broker: KafkaBroker, topics: Topics, artemis: Artemis
) -> None:
    source = topics.make()
    a = Site(start_gateway, kafka_broker, "gw-a")
    sasl = {"mechanism": "plain", "user": artemis.user, "password": {"env": "ARTEMIS"}}
    a.document.connector(artemis.port, "artemis", sasl=sasl, allow_plain_without_tls=True)
    queue = {"connector": "artemis", "address": f"q-{source}"}
    a.bridge(**{"from": f"events/{source}", "to": queue, "start": "earliest"})
    topics.produce(source, range(100))
    a.gateway = start_gateway(a.document.text, env={"ARTEMIS": artemis.password})
    wait_until(lambda: moves(a.gateway) == 100, "all to be moved")
    a.document.scope()["addresses"].append({"match": "**", "relay": "artemis", "replies": "none"})
    a.gateway.reload(a.document.text)
    peer = receiving(a.document.edge, f"q-{source}", credit=200)
    got = []
    for _ in range(100):
        transfer = peer.until("transfer")
        parts = sections(transfer.payload)
        assert not any("event-streams-" in name for name in parts.get("delivery_annotations", {}))
        assert parts["message_annotations"]["event-streams-group-key"] == f"p{int(parts['data']) % PARTITIONS}"
        assert parts["header"][0] is True, "else a restart of the broker loses what it has accepted"
        got.append(int(parts["data"]))
        peer.disposition(transfer.delivery_id, "accepted")
    for partition in range(PARTITIONS):
        assert [number for number in got if number % PARTITIONS == partition] == list(range(partition, 100, PARTITIONS))
