"""Event-stream nodes seen through an AMQP engine, on the embedded Kafka and at the real process (ES 1 to 6, KM-12)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from gateway.amqp.codec.codec import decode_all
from gateway.amqp.codec.types import Described, Symbol, Timestamp, Ulong
from gateway.amqp.link.outcomes import ACCEPTED, FAILED, RELEASED, Modified, Outcome, Rejected
from gateway.amqp.message import sections
from gateway.errors import (
    INVALID_FIELD,
    NOT_FOUND,
    PRECONDITION_FAILED,
    AmqpError,
)
from gateway.filters.position.event_stream import FILTER_CODE, OFFSET, TIMESTAMP, offset_symbol
from tests.support.amqp.messages import message
from tests.support.amqp.numbered import until
from tests.support.gateway.process import PATIENCE
from tests.support.kafka.streams import Clients, Delivered, Route, Streams, bodies, fill, position

SOLO, ORDERS = "solo", "orders"
UNDELIVERABLE = Modified(undeliverable=True)
inside = pytest.mark.parametrize("streams", ["embedded"], indirect=True)
"""For tests that look into the bridge."""


def records(streams: Clients, topic: str, partitions: int, count: int) -> list[Any]:
    """The records as an ordinary Kafka client reads them."""
    consumer = Consumer({"bootstrap.servers": streams.bootstrap, "group.id": "test", "log_level": 0})
    consumer.assign([TopicPartition(streams.topic(topic), partition, 0) for partition in range(partitions)])
    found: list[Any] = []
    while len(found) < count:
        found += consumer.consume(count - len(found), PATIENCE)
    consumer.close()
    return found


# -- plain producers and consumers


@pytest.mark.row("ES-1-4", "ES-3.2-5", "ES-4.6.1-3", "ES-4.5-4")
async def test_without_a_filter_only_later_events_come(streams: Clients) -> None:
    await fill(streams, SOLO, 3)
    receiver = await streams.receiver(SOLO)
    assert receiver.link.properties == {}
    await fill(streams, SOLO, 2, first=3)  # before any credit: the attach, not the flow, determines the start
    receiver.link.grant(10)
    assert bodies(await receiver.receive(2)) == [3, 4]
    assert await receiver.drain() == []


@pytest.mark.row("ES-1-1", "ES-1-6")
async def test_consumers_do_not_compete_and_credit_continues(streams: Clients) -> None:
    await fill(streams, SOLO, 6)
    one = await streams.receiver(SOLO, after="@earliest", credit=2, distribution_mode="move")
    two = await streams.receiver(SOLO, after="@earliest", credit=6)
    assert one.link.source.distribution_mode == "copy"
    assert bodies(await one.receive(2)) == [0, 1]
    assert one.messages.empty()
    one.link.grant(4)
    assert bodies(await one.receive(4)) == [2, 3, 4, 5]
    assert bodies(await two.receive(6)) == list(range(6))


@pytest.mark.row(
    "ES-1-3", "ES-4.4-1", "ES-4.6.4-1", "ES-4.6.5-1", "ES-5.1-1", "ES-5.1.1-1"
)
async def test_every_event_says_where_and_when_it_was_added(streams: Clients) -> None:
    """The first event also reports the link's partitions: a change from none (ES 4.6.5)."""
    await fill(streams, ORDERS, 30)
    receiver = await streams.receiver(ORDERS, after="@earliest", credit=100)
    events = await receiver.receive(30)
    last: dict[str, Delivered] = {}
    for number, event in enumerate(events):
        annotations = event.annotations
        assert type(annotations["event-streams-offset"]) is Symbol
        assert type(annotations["event-streams-source-partition"]) is Symbol
        assert type(annotations["event-streams-timestamp"]) is Timestamp
        assert (number == 0) == ("event-streams-associated-partitions-changed" in annotations)
        if (before := last.get(event.partition)) is not None:
            assert event.offset > before.offset
            assert int(event.body) > int(before.body)
        last[event.partition] = event
    announced = events[0].annotations["event-streams-associated-partitions-changed"]
    assert (announced.kind, announced.items) == ("symbol", ("0", "1", "2"))


@pytest.mark.row("ES-3.2-4")
async def test_plain_messages_reach_kafka_byte_for_byte(streams: Clients) -> None:
    sender = await streams.sender(ORDERS)
    original = message(b"\x00body", ma={"event-streams-group-key": "k"}, app={"a": 1}, subject="s")
    assert await sender.send(original) is ACCEPTED
    (record,) = records(streams, ORDERS, 3, 1)
    assert (record.key(), record.value()) == (b"k", b"\x00body")
    receiver = await streams.receiver(ORDERS, after="@earliest", credit=1)
    (event,) = await receiver.receive()
    assert event.data[event.layout.bare :] == original[sections.walk(original).bare :]
    assert event.message_annotations["event-streams-group-key"] == "k"


@inside
async def test_presettled_messages_are_stored_too(streams: Streams) -> None:
    sender = await streams.sender(SOLO)
    for number in range(5):
        await sender.send(message(str(number).encode()), settled=True)
    receiver = await streams.receiver(SOLO, after="@earliest", credit=5)
    assert bodies(await receiver.receive(5)) == [0, 1, 2, 3, 4]
    await until(lambda: streams.bridge.counters.accepted == 5, "the reports, which readers may be ahead of")


@inside
async def test_credit_follows_what_is_in_flight(streams: Streams) -> None:
    streams.routes[SOLO] = Route(SOLO, credit=20)
    sender = await streams.sender(SOLO)
    posted = [await sender.post(message(b"%d" % number)) for number in range(500)]
    assert set(await asyncio.gather(*posted)) == {ACCEPTED}
    assert sender.link.credit <= 20


# -- positions


@pytest.mark.row("ES-5.2.1-4", part="offsets")
@pytest.mark.row("ES-1-2", "ES-1-7", "ES-5.2.1-5", "ES-5.1.1-4", "ES-5.1.1-3", "ES-8-4")
async def test_an_offset_resumes_after_that_event(streams: Clients) -> None:
    await fill(streams, SOLO, 1200)
    first = await streams.receiver(SOLO, after="@earliest", credit=1200)
    symbols = [str(event.annotations["event-streams-offset"]) for event in await first.receive(1200)]
    assert symbols == sorted(symbols)
    for index in (4, 9, 99, 999):
        resumed = await streams.receiver(SOLO, after=symbols[index], credit=2)
        assert bodies(await resumed.receive(2)) == [index + 1, index + 2]


@pytest.mark.row("ES-5.1.1-6", "ES-5.1.1-7", "ES-5.1.1-8", "ES-5.2.1-2")
@pytest.mark.parametrize(
    ("filter_", "expected"),
    [
        (position(**{OFFSET: Symbol("@earliest")}), [0, 1, 2, 3]),
        (position(**{OFFSET: Symbol("@latest")}), [3]),
        (position(**{OFFSET: Symbol("zzz")}), []),
        (position(**{OFFSET: Symbol("a")}), []),
        (position(**{OFFSET: offset_symbol(0)}), [1, 2, 3]),
        (position(), [0, 1, 2, 3]),
        (position(**{TIMESTAMP: Timestamp(0)}), [0, 1, 2, 3]),
        (position(**{TIMESTAMP: 1 << 60}), []),
        (position(**{OFFSET: Symbol(offset_symbol(0)), TIMESTAMP: Timestamp(5)}), [1, 2, 3]),
    ],
)
async def test_positions(streams: Clients, filter_: dict[Symbol, Described], expected: list[int]) -> None:
    await fill(streams, SOLO, 3)
    receiver = await streams.receiver(SOLO, filter=filter_)
    await fill(streams, SOLO, 1, first=3)
    receiver.link.grant(50)
    assert bodies(await receiver.drain()) == expected
    assert receiver.link.open


@pytest.mark.row("ES-5.2.1-1", "CORE-3", "ES-5-1")
@pytest.mark.parametrize(
    "descriptor", [Symbol("amqp:event-streams-delivery-annotations-filter"), Ulong(FILTER_CODE)]
)
async def test_only_what_is_in_force_is_echoed(streams: Clients, descriptor: Any) -> None:
    wanted = Described(descriptor, {Symbol(OFFSET): Symbol("@earliest")})
    asked = {Symbol("mine"): wanted, Symbol("other"): Described(Symbol("x:unknown"), "?")}
    await fill(streams, SOLO, 1)
    receiver = await streams.receiver(SOLO, filter=asked, credit=1)
    assert receiver.link.source.filter == {"mine": wanted}
    assert type(receiver.link.source.filter["mine"].descriptor) is type(descriptor)
    assert bodies(await receiver.receive()) == [0]


@pytest.mark.row("ES-5.2.1-3", "ES-5.2.1-6")
@pytest.mark.parametrize(
    "entries", [{"event-streams-source-partition": Symbol("0")}, {OFFSET: 4}, {TIMESTAMP: "yesterday"}]
)
async def test_malformed_positions_are_refused(streams: Clients, entries: dict[str, Any]) -> None:
    with pytest.raises(AmqpError) as refused:
        await streams.receiver(SOLO, filter=position(**entries))
    assert refused.value.condition == INVALID_FIELD
    assert refused.value.info == {"filter": "position"}


# -- partitions


@pytest.mark.row(
    "ES-4-8", "ES-4.1-1", "ES-4.1-4", "ES-4.3-1", "ES-4.3-4", "ES-4.4-2", "ES-4.6.1-1", "ES-4.6.1-2"
)
async def test_bound_links_keep_to_their_partition(streams: Clients) -> None:
    bound = {Symbol("event-streams-partition"): Symbol("2")}
    sender = await streams.sender(ORDERS, properties=bound)
    receiver = await streams.receiver(ORDERS, after="@earliest", credit=100, properties=bound)
    for link in (sender.link, receiver.link):
        assert link.properties == {"event-streams-partition": "2"}
        assert type(link.properties["event-streams-partition"]) is Symbol
    await fill(streams, ORDERS, 30)
    assert await sender.send(message(b"77", ma={"event-streams-group-key": "any"})) is ACCEPTED
    events = await receiver.drain()
    assert events[-1].body == b"77"
    assert {event.partition for event in events} == {"2"}


@pytest.mark.row("ES-4-10", "ES-4.1-2", "ES-4.3-2")
@pytest.mark.parametrize("incoming", [True, False])
async def test_unknown_partitions_are_refused(streams: Clients, incoming: bool) -> None:
    attach = streams.receiver if incoming else streams.sender
    for wanted, condition in ((Symbol("99"), NOT_FOUND), (Symbol("01"), NOT_FOUND), (7, INVALID_FIELD)):
        with pytest.raises(AmqpError) as refused:
            await attach(ORDERS, properties={Symbol("event-streams-partition"): wanted})
        assert refused.value.condition == condition


@pytest.mark.row("ES-4.2-1", "ES-4.6.6-1", "ES-4.6.6-3", "ES-4.6.7-2")
async def test_transfers_choose_partitions(streams: Clients) -> None:
    sender = await streams.sender(ORDERS)

    async def send(target: Any = None, **annotations: Any) -> Outcome:
        da = None if target is None else {"event-streams-target-partition": target}
        return await sender.send(message(b"x", da=da, ma=annotations or None))

    key = {"event-streams-group-key": "foobar"}  # to Java's clients partition 0 of 3
    assert await send(Symbol("1"), **key) is ACCEPTED
    for _ in range(10):
        assert await send(**key) is ACCEPTED
    for target, condition in ((Symbol("99"), NOT_FOUND), (3, INVALID_FIELD)):
        outcome = await send(target)
        assert isinstance(outcome, Rejected)
        assert outcome.error is not None
        assert outcome.error.condition == condition
    found = records(streams, ORDERS, 3, 11)
    assert sorted(record.partition() for record in found) == 10 * [0] + [1]
    assert {record.key() for record in found} == {b"foobar"}
    (reported,) = await (await streams.receiver(f"{ORDERS}/$info", credit=1)).receive()
    assert [entry["next-offset"] for entry in reported.body["partitions"]] == [f"{end:020d}" for end in (10, 1, 0)]


@pytest.mark.row("ES-4.2-2", "ES-4.6.6-2")
async def test_a_target_other_than_the_bound_partition_is_rejected(streams: Clients) -> None:
    sender = await streams.sender(ORDERS, properties={Symbol("event-streams-partition"): "2"})
    wrong = message(b"x", da={"event-streams-target-partition": Symbol("1")})
    outcome = await sender.send(wrong)
    assert isinstance(outcome, Rejected)
    assert outcome.error is not None
    assert outcome.error.condition == PRECONDITION_FAILED
    right = message(b"x", da={"event-streams-target-partition": Symbol("2")})
    assert await sender.send(right) is ACCEPTED
    await sender.send(wrong, settled=True)
    assert (await sender.end()).condition == PRECONDITION_FAILED
    (reported,) = await (await streams.receiver(f"{ORDERS}/$info", credit=1)).receive()
    assert [entry["next-offset"] for entry in reported.body["partitions"]] == [offset_symbol(end) for end in (0, 0, 1)]


@pytest.mark.parametrize("address", ["nowhere", "..", "", "a b", "x" * 300, "a/b"])
@pytest.mark.parametrize("incoming", [True, False])
async def test_unknown_topics_are_not_found(streams: Clients, address: str, incoming: bool) -> None:
    attach = streams.receiver if incoming else streams.sender
    with pytest.raises(AmqpError) as refused:
        await attach(address)
    assert refused.value.condition == NOT_FOUND


# -- outcomes on consume


@pytest.mark.row("ES-3.2-6")
@pytest.mark.parametrize("outcome", [ACCEPTED, Rejected(None), UNDELIVERABLE])
async def test_final_outcomes_let_the_link_go_on(streams: Clients, outcome: Outcome) -> None:
    await fill(streams, SOLO, 3)
    receiver = await streams.receiver(SOLO, after="@earliest", credit=10)
    assert bodies(await receiver.receive(3, outcome)) == [0, 1, 2]
    assert await receiver.drain() == []


async def test_released_and_failed_events_come_again_in_order(streams: Clients) -> None:
    await fill(streams, SOLO, 4)
    receiver = await streams.receiver(SOLO, after="@earliest", credit=4)
    events = await receiver.receive(4, None)
    for index in (3, 2):
        receiver.link.settle(events[index].delivery, RELEASED)
    receiver.link.settle(events[0].delivery, FAILED)
    receiver.link.settle(events[1].delivery, ACCEPTED)
    receiver.link.grant(3)
    again = await receiver.receive(3)
    assert bodies(again) == [0, 2, 3]
    assert [sections.header(event.data, event.layout) for event in again[1:]] == [[], []]
    assert sections.header(again[0].data, again[0].layout)[4] == 1


async def test_an_event_that_is_sent_again_does_not_announce_partitions_again(streams: Clients) -> None:
    """The link's partitions have not changed since then (ES 4.6.5)."""
    changed = "event-streams-associated-partitions-changed"
    await fill(streams, SOLO, 1)
    receiver = await streams.receiver(SOLO, after="@earliest", credit=1)
    [event] = await receiver.receive(1, RELEASED)
    assert changed in event.annotations
    receiver.link.grant(1)
    [again] = await receiver.receive(1)
    assert (again.offset, again.body) == (event.offset, event.body)
    assert again.annotations.keys() == event.annotations.keys() - {changed}


@inside
async def test_a_poison_event_is_given_up(streams: Streams) -> None:
    await fill(streams, SOLO, 1)
    receiver = await streams.receiver(SOLO, after="@earliest", credit=10)
    for _ in range(6):
        assert bodies(await receiver.receive(1, FAILED)) == [0]
    await fill(streams, SOLO, 1, first=1)
    assert bodies(await receiver.receive(1)) == [1]
    assert streams.bridge.counters.dropped == 1


async def test_annotations_of_modified_are_merged(streams: Clients) -> None:
    await fill(streams, SOLO, 1)
    receiver = await streams.receiver(SOLO, after="@earliest", credit=2)
    changes = sections.annotations_section(0x72, {"x-opt-why": b"\xa1\x02no"})[3:]
    assert decode_all(changes) == {"x-opt-why": "no"}
    await receiver.receive(1, Modified(annotations=changes))
    (again,) = await receiver.receive()
    assert again.message_annotations["x-opt-why"] == "no"


# -- flow


async def test_drain_returns_the_credit_at_the_end(streams: Clients) -> None:
    await fill(streams, ORDERS, 20)
    receiver = await streams.receiver(ORDERS, after="@earliest", credit=1000)
    assert sorted(bodies(await receiver.drain())) == list(range(20))
    await fill(streams, ORDERS, 3, first=20)
    receiver.link.grant(10)
    assert sorted(bodies(await receiver.drain())) == [20, 21, 22]
    receiver.link.grant(1)
    assert await receiver.drain() == []


@inside
async def test_unsettled_events_are_held_within_bounds(
    streams: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bridges.kafka.links.receiver._MAX_HELD", 50_000)
    await fill(streams, SOLO, 3000)
    receiver = await streams.receiver(SOLO, after="@earliest", credit=5000)
    first = await receiver.receive(300, None)
    probe = await streams.receiver(
        SOLO, after="@earliest", credit=3000
    )  # what it gets, the other could have had
    await probe.receive(3000)
    assert receiver.messages.qsize() < 1000
    for event in first:
        receiver.link.settle(event.delivery, ACCEPTED)
    await receiver.receive(2700)
    assert await receiver.drain() == []


async def test_one_slow_receiver_does_not_slow_another(streams: Clients) -> None:
    await fill(streams, SOLO, 3000)
    await streams.receiver(SOLO, after="@earliest", credit=1)
    fast = await streams.receiver(SOLO, after="@earliest", credit=3000)
    assert bodies(await fast.receive(3000)) == list(range(3000))


async def test_a_peer_that_leaves_while_kafka_is_asked_leaves_nothing(streams: Clients) -> None:
    gone = streams.connect()
    for number in range(20):
        streams.request(SOLO, incoming=number % 2 == 0, side=gone)
    gone.flush()
    gone.engine.close()
    gone.flush()
    receiver = await streams.receiver(SOLO, credit=1)
    await fill(streams, SOLO, 1)
    assert bodies(await receiver.receive()) == [0]
