"""Durable termini on the real process and real brokers (ES-E2E-12, KM-11, KM-12)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions

from bridges.kafka.clusters.cluster import ClusterConfig
from bridges.kafka.links import checkpointer
from gateway.amqp.codec.types import Described, Symbol, Uint
from gateway.errors import AmqpError
from tests.support.amqp import frames
from tests.support.amqp.links import connected
from tests.support.amqp.messages import sections
from tests.support.amqp.numbered import until
from tests.support.amqp.peer import RECEIVER, Peer
from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateway, Gateways
from tests.support.gateway.process import PATIENCE, ports, wait_until
from tests.support.kafka.records import copies
from tests.support.kafka.streams import Streams
from tests.support.servers.embedded_kafka import EmbeddedKafka, Kafka, begun, on
from tests.support.servers.kafka import KafkaBroker, new_producer
from tests.support.servers.servers import Redis

NEVER = {"durable": Uint(2), "expiry_policy": Symbol("never")}
FILTER = "amqp:event-streams-delivery-annotations-filter"
OFFSET = "event-streams-offset"


class Place:
    """Gateway processes with the same policy, and their own topic."""

    def __init__(
        self, gateways: Gateways, broker: Kafka, state: str = "memory", *, gateway: Any = None, **rule: Any
    ) -> None:
        self.gateways, self.broker = gateways, broker
        self.topic = broker.create_topic()
        self.document = Document(state=state, **(gateway or {}))
        on(broker, self.document)
        addresses = self.document.scope()["addresses"]
        addresses[-1:] = [{"match": "letters/{topic}", "kafka": "main", "topic": "{topic}.dead"}, addresses[-1] | rule]
        self.gateway: Gateway = gateways(self.document.text)
        begun(broker, self.gateway)
        self.producer = new_producer(broker.bootstrap)

    def another(self) -> int:
        """The port of a further process with the same shared state."""
        other = self.document.but()
        port, http = ports(2)
        other.data["gateway"] |= {"id": "gw-other", "http": f"127.0.0.1:{http}"}
        other.scope()["listen"][0]["bind"] = f"127.0.0.1:{port}"
        self.gateways(other.text)
        return port

    def produce(self, *numbers: int) -> None:
        """Append events."""
        for number in numbers:
            self.producer.produce(self.topic, b"%d" % number, partition=0)
        assert self.producer.flush(PATIENCE) == 0

    def attach(self, container: str = "c1", *, port: int | None = None, credit: int = 20, **source: Any) -> Peer:
        """A connection of `container` whose link `l1` has a durable source."""
        peer = connected(port or self.document.edge, container_id=container)
        terminus = frames.source(f"events/{self.topic}", **{**NEVER, **source})
        self.answer = peer.attach_receiver(None, source=terminus, name="l1")
        return peer.flow(0, link_credit=credit) if credit else peer


def bodies(peer: Peer, count: int) -> list[tuple[int, int]]:
    """Delivery id and number of the next events."""
    found = []
    for _ in range(count):
        transfer = peer.until("transfer")
        found.append((transfer.delivery_id, int(sections(transfer.payload)["data"])))
    return found


def numbers(peer: Peer, count: int) -> list[int]:
    """Numbers of the next events, each accepted."""
    found = bodies(peer, count)
    for delivery, _ in found:
        peer.disposition(delivery, "accepted")
    return [number for _, number in found]


def settled(place: Place, peer: Peer) -> None:
    """Wait until the gateway has read the peer's dispositions: it answers a detach after them."""
    peer.detach(0, closed=False)
    assert not peer.until("detach").closed, "a terminus that stays is detached, not closed"


def stored_positions(redis: Redis) -> list[int]:
    """The stored positions of partition 0."""
    keys = redis.command("--raw", "KEYS", "scopegate:terminus:*").split()
    return [int(redis.command("--raw", "HGET", key, "0") or -1) for key in keys]


@pytest.fixture
def place(start_gateway: Gateways, kafka_broker: KafkaBroker) -> Place:
    return Place(start_gateway, kafka_broker)


@pytest.fixture(params=["broker", "embedded"])
def either(request: pytest.FixtureRequest, start_gateway: Gateways) -> Place:
    broker = request.getfixturevalue("kafka_broker") if request.param == "broker" else EmbeddedKafka()
    return Place(start_gateway, broker)


@pytest.fixture
def shared(start_gateway: Gateways, kafka_broker: KafkaBroker, redis_server: Redis) -> Place:
    redis_server.empty()
    return Place(start_gateway, kafka_broker, redis_server.url)


@pytest.mark.row("ES-3.2-7", "ES-3.2-8", "CORE-6")
def test_a_durable_terminus_goes_on_where_acceptance_was_contiguous(either: Place) -> None:
    with either.attach() as peer:
        assert either.answer.source["durable"] == 0, "only this process knows the position"
        assert either.answer.source["expiry_policy"] == "never"
        either.produce(*range(8))
        found = bodies(peer, 8)
        for delivery, number in found:
            if number in (0, 1, 2, 3, 4, 6):
                peer.disposition(delivery, "accepted")
        settled(either, peer)
    either.produce(8, 9, 10)
    with either.attach() as peer:
        assert numbers(peer, 6) == [5, 6, 7, 8, 9, 10]


@pytest.mark.row("ES-3.2-7", "ES-3.2-8")
def test_it_survives_the_kill_of_the_gateway_and_moves_to_another_process(
    shared: Place, redis_server: Redis
) -> None:
    with shared.attach() as peer:
        assert shared.answer.source["durable"] == 1
        assert shared.answer.source["expiry_policy"] == "never"
        shared.produce(*range(8))
        for delivery, number in bodies(peer, 8):
            if number < 5:
                peer.disposition(delivery, "accepted")
        settled(shared, peer)
    wait_until(lambda: stored_positions(redis_server) == [5], "the position to be written")
    shared.gateway.kill()
    shared.produce(8)
    shared.gateway.restart()
    with shared.attach() as peer:
        assert numbers(peer, 4) == [5, 6, 7, 8]
        settled(shared, peer)
    wait_until(lambda: stored_positions(redis_server) == [9], "the position to be written")
    shared.produce(9)
    with shared.attach(port=shared.another()) as peer:
        assert numbers(peer, 1) == [9]


def test_a_kill_without_a_detach_repeats_events_and_loses_none(shared: Place) -> None:
    with shared.attach() as peer:
        shared.produce(*range(8))
        assert numbers(peer, 8) == list(range(8))
        shared.gateway.kill()
    shared.produce(8)
    shared.gateway.restart()
    with shared.attach() as peer:
        found = [number for _, number in bodies(peer, 1)]
        while found[-1] != 8:
            found += [number for _, number in bodies(peer, 1)]
        assert found == list(range(found[0], 9))


@pytest.mark.row("ES-3.2-7")
def test_the_kept_position_counts_more_than_that_of_a_filter(either: Place) -> None:
    either.produce(*range(4))
    earliest = Described(Symbol(FILTER), {Symbol(OFFSET): Symbol("@earliest")})
    with either.attach(filter={Symbol("from"): earliest}) as peer:
        assert numbers(peer, 4) == [0, 1, 2, 3]
        settled(either, peer)
    either.produce(4)
    with either.attach(filter={Symbol("from"): earliest}) as peer:
        assert numbers(peer, 1) == [4]


@pytest.mark.row("ES-3.2-9")
def test_closing_the_link_ends_the_terminus(either: Place) -> None:
    with either.attach() as peer:
        either.produce(0, 1)
        assert numbers(peer, 1) == [0]
        peer.detach(0, closed=True)
        peer.until("detach", closed=True)
    with either.attach(credit=0) as peer:
        either.produce(2)
        peer.flow(0, link_credit=10)
        assert numbers(peer, 1) == [2]


@pytest.mark.row("ES-3.2-9")
def test_the_timeout_begins_when_its_connection_ends(shared: Place, redis_server: Redis) -> None:
    lasting: Any = {"expiry_policy": Symbol("connection-close"), "timeout": Uint(1)}

    def kept() -> bool:
        return "terminus" in redis_server.command("KEYS", "scopegate:terminus:*")

    with shared.attach(**lasting) as peer:
        shared.produce(0, 1)
        assert numbers(peer, 1) == [0]
        settled(shared, peer)
        peer.attach_receiver(None, 1, source=frames.source(f"events/{shared.topic}", **{**NEVER, **lasting}), name="l1")
        peer.flow(1, link_credit=10)
        assert numbers(peer, 1) == [1]
        assert kept()
    wait_until(lambda: not kept(), "the terminus to expire")
    with shared.attach(credit=0, **lasting) as peer:
        shared.produce(2)
        peer.flow(0, link_credit=10)
        assert numbers(peer, 1) == [2]


def test_what_would_end_with_its_link_is_not_called_durable(place: Place) -> None:
    with place.attach(expiry_policy=Symbol("link-detach"), credit=0):
        assert not place.answer.source["durable"]


def test_who_takes_the_terminus_at_another_process_ends_the_older_link(shared: Place) -> None:
    port = shared.another()
    with shared.attach() as old:
        shared.produce(0)
        assert numbers(old, 1) == [0]
        with shared.attach(port=port) as new:
            assert str(old.until("detach", closed=True).error["condition"]) == "amqp:link:stolen"
            shared.produce(1)
            found = numbers(new, 1)
            assert found in ([0], [1])  # the acceptance of 0 may have been on its way


def test_ordinary_tools_see_the_position_as_a_committed_offset(place: Place) -> None:
    assert isinstance(place.broker, KafkaBroker)
    admin = place.broker.admin()

    def committed() -> set[int]:
        found = admin.list_consumer_groups(request_timeout=PATIENCE).result().valid
        offsets = set()
        for group in found:
            if group.group_id.startswith("amqp."):
                asked = ConsumerGroupTopicPartitions(group.group_id)
                answer = admin.list_consumer_group_offsets([asked])[group.group_id].result()
                offsets |= {each.offset for each in answer.topic_partitions if each.topic == place.topic}
        return offsets

    with place.attach() as peer:
        place.produce(*range(5))
        assert numbers(peer, 5) == list(range(5))
        wait_until(lambda: committed() == {5}, "the committed offset")


def test_without_its_state_a_durable_terminus_is_refused_and_others_serve_on(
    start_gateway: Gateways, kafka_broker: KafkaBroker
) -> None:
    own = Redis()
    try:
        place = Place(start_gateway, kafka_broker, own.url)
        own.stop()
        with connected(place.document.edge, container_id="c1") as peer:
            source = frames.source(f"events/{place.topic}", **NEVER)
            peer.attach("l1", RECEIVER, source=source)
            peer.until("attach", source=None)
            assert str(peer.expect("detach", closed=True).error["condition"]) == "amqp:internal-error"
            peer.attach_receiver(f"events/{place.topic}", 1)
            peer.flow(1, link_credit=1)
            place.produce(7)
            assert numbers(peer, 1) == [7]
    finally:
        own.stop()


def test_a_kept_position_behind_the_end_of_its_log_is_its_end(shared: Place, redis_server: Redis) -> None:
    """A log may lose its last events (unclean election, restored disk); later events are new."""
    with shared.attach() as peer:
        shared.produce(0)
        assert numbers(peer, 1) == [0]
        settled(shared, peer)
    wait_until(lambda: stored_positions(redis_server) == [1], "the position to be written")
    (key,) = redis_server.command("--raw", "KEYS", "scopegate:terminus:*").split()
    redis_server.command("HSET", key, "0", "1000")
    with shared.attach("c2") as other, shared.attach() as peer:
        shared.produce(1)
        assert numbers(peer, 1) == numbers(other, 1) == [1]


def test_a_user_has_so_many_termini(start_gateway: Gateways, kafka_broker: KafkaBroker) -> None:
    place = Place(start_gateway, kafka_broker, gateway={"user_termini": 2})
    with place.attach("c1") as first, place.attach("c2"), connected(place.document.edge, container_id="c3") as third:
        source = frames.source(f"events/{place.topic}", **NEVER)
        third.attach("l1", RECEIVER, source=source)
        third.until("attach", source=None)
        error = third.expect("detach", closed=True, error="amqp:resource-limit-exceeded").error
        assert "gateway.user_termini" in error["description"]
        first.detach(0, closed=True)
        first.until("detach", closed=True)
        third.detach().attach("l1", RECEIVER, source=source, handle=1)
        assert third.until("attach").source is not None


async def test_a_process_keeps_so_many_termini_and_forgets_those_whose_link_never_stood(
    kafka_broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpointer, "MAX_TERMINI", 2)
    streams = Streams(ClusterConfig(kafka_broker.bootstrap, timeout=10))
    topic, wanted = await asyncio.to_thread(kafka_broker.create_topic), {"durable": True}
    try:
        stored, side, closed = streams.bridge._checkpointer, streams.connect(), asyncio.Event()
        cluster, bounds = streams.bridge.cluster, streams.bridge.cluster.bounds

        async def later(*about: Any) -> Any:
            await closed.wait()
            return await bounds(*about)

        monkeypatch.setattr(cluster, "bounds", later)
        for _ in range(3):
            streams.request(topic, incoming=True, side=side, **wanted)
        asked = streams.supervisor._tasks
        await until(lambda: sum(task.get_name().startswith("attach") for task in asked) == 3, "the attaches")
        side.engine.close(None)  # gone before the answer
        closed.set()
        await until(lambda: not any(task.get_name().startswith("attach") for task in asked), "their answers")
        assert not stored._attached
        first = await streams.receiver(topic, **wanted)
        await streams.receiver(topic, **wanted)
        with pytest.raises(AmqpError) as error:
            await streams.receiver(topic, **wanted)
        assert error.value.condition == "amqp:resource-limit-exceeded"
        await streams.receiver(topic)  # others need none
        first.link.detach()
        await until(lambda: len(stored._attached) == 1, "room")
        await streams.receiver(topic, **wanted)
    finally:
        await streams.close()


def test_in_order_after_a_release(place: Place) -> None:
    """KM-12: released events are sent again before any newer ones."""
    with place.attach(credit=2) as peer:
        place.produce(*range(4))
        (first, _), (second, _) = bodies(peer, 2)
        peer.disposition(first, "released")
        peer.disposition(second, "accepted")
        peer.flow(0, link_credit=10, delivery_count=2)
        again = bodies(peer, 1)
        assert [number for _, number in again] == [0]
        peer.disposition(again[0][0], "accepted")
        assert numbers(peer, 2) == [2, 3]


@pytest.mark.row("ES-3.2-6")
def test_what_a_consumer_cannot_take_is_copied_before_the_position_moves_past_it(
    start_gateway: Gateways, kafka_broker: KafkaBroker
) -> None:
    """KM-12: rejected, and dropped when it was modified too often; what is released was not tried."""
    place = Place(start_gateway, kafka_broker, dead_letter="{topic}.dead", max_redeliveries=1)
    letters = kafka_broker.create_topic(f"{place.topic}.dead")
    with place.attach() as peer:
        place.produce(0, 1, 2)
        rejected, released, accepted = (delivery for delivery, _ in bodies(peer, 3))
        why = frames.error("app:bad-order", "no such customer")
        peer.disposition(rejected, frames.composite("rejected", error=why))
        peer.disposition(accepted, "accepted").disposition(released, "released")
        for outcome in ("released", "released", "modified", "modified"):
            ((again, number),) = bodies(peer, 1)
            assert number == 1
            peer.disposition(again, outcome)
        found = copies(kafka_broker, letters, 2)
        reported = {record.value(): dict(record.headers()) for record in found}
        assert reported[b"0"]["amqp.dead-letter.condition"] == b"app:bad-order"
        assert reported[b"0"]["amqp.dead-letter.description"] == b"no such customer"
        assert reported[b"0"]["amqp.dead-letter.topic"] == place.topic.encode()
        assert reported[b"1"]["amqp.dead-letter.offset"] == b"1"
        # A reader may see them before the gateway receives the delivery reports, and only then they are done.
        place.gateway.wait_metric(
            'scopegate_kafka_events_total{cluster="main",event="dead_lettered"}', lambda value: value == 2
        )
        settled(place, peer)
    place.produce(3)
    with place.attach() as peer:
        assert numbers(peer, 1) == [3]
    with connected(place.document.edge) as peer:
        earliest = Described(Symbol(FILTER), {Symbol(OFFSET): Symbol("@earliest")})
        peer.attach_receiver(None, source=frames.source(f"letters/{place.topic}", filter={Symbol("from"): earliest}))
        peer.flow(0, link_credit=2)
        assert sorted(numbers(peer, 2)) == [0, 1]
