"""Reading logs under a policy, on a real broker: events, and skipped, truncated or deleted ones (KM-3, KM-8, KM-13,
KM-17, KM-18, ledger A1)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from bridges.kafka.clusters.cluster import ClusterConfig
from gateway.amqp.codec.types import Array, Described, Symbol, Timestamp, Uint
from gateway.amqp.link.outcomes import ACCEPTED, Rejected
from gateway.errors import PRECONDITION_FAILED, RESOURCE_DELETED, AmqpError
from gateway.filters.position.event_stream import offset_symbol
from policies.model.scopes.reading import LogReadingRule
from tests.support.amqp import frames
from tests.support.amqp.members import Member, keep_connected, requested_properties
from tests.support.amqp.messages import message, sections
from tests.support.amqp.peer import RECEIVER, Peer
from tests.support.gateway.crossing import Inbox, Outbox, connected, hop_annotations
from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateway, Gateways
from tests.support.gateway.process import PATIENCE, wait_until
from tests.support.gateway.warm import OFTEN, shortened
from tests.support.kafka.streams import Route, Streams
from tests.support.servers.kafka import KafkaBroker, new_producer

ES = "AMQP_EVENT_STREAMS_V1_0"
PARTITION = Symbol("event-streams-partition")
connections = pytest.fixture(autouse=True)(keep_connected)
GAP = "x-opt-gateway-gap"


@pytest.fixture
async def streams(kafka_broker: KafkaBroker) -> AsyncIterator[Streams]:
    streams = Streams(ClusterConfig(kafka_broker.bootstrap, refresh=0.3, retry=0.2, timeout=10))
    yield streams
    await streams.close()


def produce(broker: KafkaBroker, topic: str, *values: bytes, **options: Any) -> None:
    producer = new_producer(broker.bootstrap)
    for value in values:
        producer.produce(topic, value, **options)
    assert producer.flush(PATIENCE) == 0


def truncate(broker: KafkaBroker, topic: str, before: int) -> None:
    """Let retention delete everything before an offset."""
    admin, end = broker.admin(), TopicPartition(topic, 0, before)
    admin.delete_records([end])[end].result(PATIENCE)


def since(offset: str = "@earliest") -> dict[Symbol, Described]:
    content = {Symbol("event-streams-offset"): Symbol(offset)}
    return {Symbol("f"): Described(Symbol("amqp:event-streams-delivery-annotations-filter"), content)}


@dataclass
class Place:
    """A gateway on the broker, where `events/{topic}` has the options of a test."""

    broker: KafkaBroker
    gateway: Gateway
    port: int

    def receiving(self, topic: str, **fields: Any) -> Inbox:
        """A receiver of all events in the log."""
        source = frames.source(f"events/{topic}", filter=since())
        return Inbox(self.port, None, **{"source": source, **fields})


Start = Callable[..., Place]


@pytest.fixture
def start(start_gateway: Gateways, kafka_broker: KafkaBroker) -> Start:
    def begin(**rule: Any) -> Place:
        document = Document()
        document.kafka(kafka_broker.bootstrap)
        document.scope()["addresses"][-1] |= rule
        return Place(kafka_broker, start_gateway(document.text, env=shortened(OFTEN)), document.edge)

    return begin


# -- what events say


@pytest.mark.row("CORE-1", part="tolerant mode")
@pytest.mark.parametrize(
    ("rule", "plain", "desiring", "asking"),
    [("always", True, True, True), ("negotiated", False, True, True), ("never", False, False, False)],
)
def test_events_are_annotated_for_whom_the_policy_says(
    start: Start, rule: str, plain: bool, desiring: bool, asking: bool
) -> None:
    place = start(annotate=rule)
    topic = place.broker.create_topic()
    address = f"events/{topic}"
    requested = Array("symbol", (Symbol(ES),))
    inboxes = {
        "plain": Inbox(place.port, address),
        "desiring": Inbox(connected(place.port, desired_capabilities=requested), address),
        "asking": Inbox(place.port, address, properties={PARTITION: Symbol("0")}),
        "filtering": place.receiving(topic),
    }
    sent = message(b"x", ma={"x-opt-a": 1}, app={"n": 1})
    assert Outbox(place.port, address).send_with_credit(sent).matches("accepted")
    taken = {name: inbox.take() for name, inbox in inboxes.items()}
    annotated = {name: bool(hop_annotations(event)) for name, event in taken.items()}
    assert annotated == {"plain": plain, "desiring": desiring, "asking": asking, "filtering": asking}
    for event in taken.values():
        assert sections(event) | {"delivery_annotations": None} == sections(sent) | {"delivery_annotations": None}


async def test_a_dead_letter_keeps_its_key(kafka_broker: KafkaBroker, streams: Streams) -> None:
    topic, dead = kafka_broker.create_topic(), kafka_broker.create_topic()
    streams.routes[topic] = Route(topic, reading=LogReadingRule(dead_letter=dead), key_from=("group-key", "group-id"))
    sender = await streams.sender(topic)
    assert await sender.send(message(b"x", group_id="g")) is ACCEPTED
    receiver = await streams.receiver(topic, after="@earliest", credit=1)
    await receiver.receive(1, Rejected(AmqpError("app:wrong", "no")))
    (letter,) = await asyncio.to_thread(consume, kafka_broker, dead, 1)
    assert (letter.key(), letter.value()) == (b"g", b"x")
    assert ("amqp.dead-letter.condition", b"app:wrong") in letter.headers()


def consume(broker: KafkaBroker, topic: str, count: int) -> list[Any]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "t", "log_level": 0})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[Any] = []
    while len(found) < count:
        found += (batch := consumer.consume(count - len(found), PATIENCE))
        assert batch, f"only {len(found)} of {count} records"
    consumer.close()
    return found


# -- times


async def test_strict_timestamps_want_the_log_to_say_when(kafka_broker: KafkaBroker, streams: Streams) -> None:
    theirs = kafka_broker.create_topic()
    ours = kafka_broker.create_topic(config={"message.timestamp.type": "LogAppendTime"})
    for topic in (theirs, ours):
        streams.routes[topic] = Route(topic, reading=LogReadingRule(strict_timestamps=True))
    for attach in (streams.sender, streams.receiver):
        with pytest.raises(AmqpError, match="LogAppendTime") as refused:
            await attach(theirs)
        assert refused.value.condition == PRECONDITION_FAILED
    assert await (await streams.sender(ours)).send(message(b"x")) is ACCEPTED


def lives(ttl: int, body: bytes) -> bytes:
    return message(body, header=[None, None, Uint(ttl)])


async def test_a_ttl_is_what_is_left_of_it(kafka_broker: KafkaBroker, streams: Streams) -> None:
    topic = kafka_broker.create_topic()
    sender = await streams.sender(topic)
    for ttl, body in ((60_000, b"minute"), (1, b"over")):
        assert await sender.send(lives(ttl, body)) is ACCEPTED
    assert await sender.send(message(b"for ever")) is ACCEPTED
    await asyncio.sleep(0.3)
    receiver = await streams.receiver(topic, after="@earliest", credit=3)
    minute, over, ever = await receiver.receive(3)
    assert 30_000 < sections(minute.data)["header"][2] <= 59_750
    assert sections(over.data)["header"][2] == 1
    assert "header" not in sections(ever.data)


async def test_what_has_expired_is_skipped_where_the_policy_wants_it(
    kafka_broker: KafkaBroker, streams: Streams
) -> None:
    topic = kafka_broker.create_topic()
    streams.routes[topic] = Route(topic, reading=LogReadingRule(drop_expired=True))
    sender = await streams.sender(topic)
    now = int(time.time() * 1000)
    sent = [
        lives(50, b"0"),
        lives(60_000, b"1"),
        message(b"2", absolute_expiry_time=Timestamp(now - 1000)),
        message(b"3", absolute_expiry_time=Timestamp(now + 60_000)),
        message(b"4"),
        lives(50, b"5"),
    ]
    for each in sent:
        assert await sender.send(each) is ACCEPTED
    await asyncio.sleep(0.1)
    receiver = await streams.receiver(topic, after="@earliest", credit=2)
    assert [event.body for event in await receiver.receive(2)] == [b"1", b"3"]
    receiver.link.grant(10)
    assert [event.body for event in await receiver.drain()] == [b"4"]
    assert streams.bridge.counts()["expired"] == 3


# -- transactions


async def test_uncommitted_events_are_for_nodes_that_want_them(kafka_broker: KafkaBroker, streams: Streams) -> None:
    topic = kafka_broker.create_topic()
    streams.routes["raw"] = Route(topic, reading=LogReadingRule(isolation="read_uncommitted"))
    producer = new_producer(kafka_broker.bootstrap, **{"transactional.id": topic})
    producer.init_transactions(PATIENCE)
    for value, end in ((b"given up", producer.abort_transaction), (b"kept", producer.commit_transaction)):
        producer.begin_transaction()
        producer.produce(topic, value)
        producer.flush(PATIENCE)
        end(PATIENCE)
    producer.begin_transaction()
    producer.produce(topic, b"open")
    producer.flush(PATIENCE)
    raw = await streams.receiver("raw", after="@earliest", credit=10)
    assert [event.body for event in await raw.drain()] == [b"given up", b"kept", b"open"]
    committed = await streams.receiver(topic, after="@earliest", credit=10)
    assert [event.body for event in await committed.drain()] == [b"kept"]
    latest = {}
    for address in ("raw", topic):
        (info,) = await (await streams.receiver(f"{address}/$info", credit=1)).receive()
        latest[address] = info.body["partitions"][0]["latest-offset"]
    assert latest == {"raw": offset_symbol(4), topic: offset_symbol(3)}
    producer.abort_transaction(PATIENCE)


# -- retention and topics that change


DURABLE = {"durable": Uint(2), "expiry_policy": Symbol("never")}


def durable(port: int, topic: str) -> Inbox:
    """A link with a durable terminus."""
    peer = Peer(port)
    peer.start(container_id="c1")
    source = frames.source(f"events/{topic}", filter=since(), **DURABLE)
    return Inbox(peer, None, source=source, name="l1", credit=0)


def resumed(port: int, topic: str, count: int) -> list[bytes]:
    """What the link reads that goes on; where the gateway learns from its first read that the log is another one, it
    ends that link and says so: then what the next one reads."""
    link = durable(port, topic)
    link.peer.flow(0, link_credit=count, delivery_count=0)
    events: list[bytes] = []
    while len(events) < count:
        frame = link.peer.receive()
        assert frame is not None
        if frame.kind == "detach" and not events:
            assert frame.error.matches(RESOURCE_DELETED), frame
            return resumed(port, topic, count)
        if frame.kind == "transfer":
            link.peer.disposition(frame.delivery_id, "accepted")
            events.append(sections(bytes(frame.payload))["data"])
    return events


def gaps(events: list[bytes]) -> list[bytes]:
    """The bodies of the events that report a gap before them."""
    return [sections(event)["data"] for event in events if GAP in sections(event).get("message_annotations", {})]


@pytest.mark.parametrize("rule", ["continue", "detach"])
def test_a_live_link_that_retention_overtook(start: Start, rule: str) -> None:
    place = start(on_truncation=rule)
    topic = place.broker.create_topic()
    inbox = place.receiving(topic, credit=10)
    produce(place.broker, topic, *(b"%010000d" % number for number in range(5_000)))
    for number in range(10):
        assert int(sections(inbox.take())["data"].lstrip(b"0") or b"0") == number
    truncate(place.broker, topic, 4_990)
    inbox.peer.flow(inbox.handle, link_credit=9_000, delivery_count=10)
    if rule == "detach":
        detach = inbox.peer.until("detach", closed=True, error=RESOURCE_DELETED)
        assert "retention" in detach.error["description"]
        return
    numbers, marked = [], []
    while not numbers or numbers[-1] < 4_999:
        event = bytes(inbox.transfer().payload)
        numbers.append(int(sections(event)["data"].lstrip(b"0") or b"0"))
        marked += [numbers[-1]] if gaps([event]) else []
    (gap,) = [b for a, b in zip([9, *numbers], numbers, strict=False) if b != a + 1]
    assert marked == [gap]
    assert place.gateway.wait_log("events lost to retention", topic=topic)["oldest"] == 4_990


@pytest.mark.parametrize("rule", ["continue", "detach"])
def test_a_durable_terminus_that_retention_overtook(start: Start, rule: str) -> None:
    place = start(on_truncation=rule)
    topic = place.broker.create_topic()
    produce(place.broker, topic, *(b"%d" % number for number in range(10)))
    first = durable(place.port, topic)
    first.peer.flow(0, link_credit=3, delivery_count=0)
    assert [sections(first.take())["data"] for _ in range(3)] == [b"0", b"1", b"2"]
    first.peer.detach(closed=False)
    first.peer.until("detach")
    truncate(place.broker, topic, 7)
    peer = Peer(place.port)
    peer.start(container_id="c1")
    source = frames.source(f"events/{topic}", filter=since(), **DURABLE)
    peer.attach("l1", RECEIVER, source=source).until("attach")
    peer.flow(0, link_credit=10)
    if rule == "detach":
        peer.until("detach", closed=True, error=RESOURCE_DELETED)
        return
    events = [bytes(peer.until("transfer").payload) for _ in range(3)]
    assert [sections(event)["data"] for event in events] == [b"7", b"8", b"9"]
    assert gaps(events) == [b"7"]


async def test_a_topic_that_is_emptied_goes_on(kafka_broker: KafkaBroker, streams: Streams) -> None:
    topic = kafka_broker.create_topic()
    produce(kafka_broker, topic, b"0", b"1", b"2")
    receiver = await streams.receiver(topic, after="@earliest", credit=3)
    assert [event.body for event in await receiver.receive(3)] == [b"0", b"1", b"2"]
    truncate(kafka_broker, topic, 3)
    new = await streams.receiver(topic, after="@earliest", credit=10)
    assert await new.drain() == []
    for each in (receiver, new):
        each.link.grant(10)
    produce(kafka_broker, topic, b"3")
    for each in (receiver, new):
        (event,) = await each.receive()
        assert (event.body, event.offset, GAP in event.message_annotations) == (b"3", 3, False)


async def test_a_terminus_of_a_topic_that_was_made_again_begins_anew(
    start: Start, kafka_broker: KafkaBroker
) -> None:
    place = await asyncio.to_thread(start)
    topic = kafka_broker.create_topic()
    produce(kafka_broker, topic, *(b"old %d" % number for number in range(5)))
    await asyncio.to_thread(_assert_recreated, place, kafka_broker, topic)


def recreate_topic(broker: KafkaBroker, topic: str) -> None:
    """Delete a topic and create it under the same name."""
    admin = broker.admin()  # kept: an answer ends with its client
    admin.delete_topics([topic])[topic].result(PATIENCE)
    wait_until(lambda: topic not in broker.metadata().topics, "the topic to be gone")
    broker.create_topic(topic)


def _assert_recreated(place: Place, broker: KafkaBroker, topic: str) -> None:
    first = durable(place.port, topic)
    first.peer.flow(0, link_credit=5, delivery_count=0)
    assert len([first.take() for _ in range(5)]) == 5
    recreate_topic(broker, topic)
    first.peer.until("detach", closed=True, error=RESOURCE_DELETED)
    produce(broker, topic, *(b"new %d" % number for number in range(7)))
    again = durable(place.port, topic)
    again.peer.flow(0, link_credit=7, delivery_count=0)
    assert [sections(again.take())["data"] for _ in range(7)] == [b"new %d" % number for number in range(7)]


def test_what_is_remembered_of_a_log_that_was_made_again_while_nobody_looked(start: Start) -> None:
    """KM-18: the gateway's stored position starts again; an offset that the client stored is used as it is."""
    place = start()
    topic = place.broker.create_topic()
    produce(place.broker, topic, *(b"old %d" % number for number in range(5)))
    first = durable(place.port, topic)
    first.peer.flow(0, link_credit=5, delivery_count=0)
    assert len([first.take() for _ in range(5)]) == 5
    first.peer.detach(closed=False)
    first.peer.until("detach")
    member = Member(place.port, f"events/{topic}", requested_properties("g"), start="@earliest")
    member.attached(credit=4)
    assert [offset for _, offset, _ in member.take(4)] == [0, 1, 2, 3]
    member.close()
    recreate_topic(place.broker, topic)
    produce(place.broker, topic, b"new 0", b"new 1")
    assert resumed(place.port, topic, 2) == [b"new 0", b"new 1"]
    new_member = Member(place.port, f"events/{topic}", requested_properties("g"))
    new_member.attached(credit=4)
    late = Member(place.port, f"events/{topic}", {}, start=offset_symbol(4))
    late.attached(credit=4)
    reported = place.gateway.wait_log("link waits for offsets that do not exist yet", topic=topic)
    assert (reported["first"], "created again" in reported["advice"]) == (offset_symbol(5), True)
    produce(place.broker, topic, *(b"new %d" % number for number in range(2, 7)))
    assert [offset for _, offset, _ in new_member.take(4)] == [2, 3, 4, 5], "the group began with what was added"
    assert [offset for _, offset, _ in late.take(2)] == [5, 6], "literally what the offset says"


def test_the_gateway_says_how_often_it_skipped(start: Start) -> None:
    place = start(drop_expired=True)
    topic = place.broker.create_topic()
    outbox = Outbox(place.port, f"events/{topic}")
    outbox.credit()
    for each in (lives(1, b"0"), message(b"1")):
        assert outbox.send(each).matches("accepted")
    inbox = place.receiving(topic)
    assert sections(inbox.take())["data"] == b"1"
    wait_until(
        lambda: any("expired" in name and value == 1 for name, value in place.gateway.metrics().items()), "the count"
    )
