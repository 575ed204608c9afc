"""Rows of event streams, each with its visible effect (ES-E2E-2, 6, 7, 13; KM-1, KM-3, KM-11, KM-12)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from bridges.kafka.clusters.cluster import ClusterConfig
from bridges.kafka.links.terminus_request import durable_terminus
from gateway.amqp.codec.types import Described, Symbol, Timestamp
from gateway.amqp.link.outcomes import ACCEPTED, RELEASED, Modified, Outcome, Rejected
from gateway.amqp.message import sections
from gateway.amqp.proton.proton_data import ABSENT
from gateway.tasks import until
from policies.model.scopes.reading import LogReadingRule
from tests.support.amqp.messages import message
from tests.support.gateway.process import PATIENCE
from tests.support.kafka.streams import Route, Streams, bodies, fill

KEY, TARGET = "event-streams-group-key", "event-streams-target-partition"
OFFSET, TIME, SOURCE = "event-streams-offset", "event-streams-timestamp", "event-streams-source-partition"
HASHES = {  # of Kafka's own tests (UtilsTest.java), as its clients have them
    "21": -973932308,
    "foobar": -790332482,
    "a-little-bit-long-string": -985981536,
    "a-little-bit-longer-string": -1486304829,
    "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    "abc": 479470107,
}


@pytest.fixture
async def local() -> AsyncIterator[Streams]:
    """A bridge on the embedded Kafka."""
    topics = {"solo": 1, "orders": 3, "wide": 12, "dlq": 1}
    routes = {"letters": Route("solo", reading=LogReadingRule(dead_letter="dlq"))}
    found = Streams(ClusterConfig(topics=topics, refresh=0.2, retry=0.1, timeout=10), routes)
    yield found
    await found.close()


def in_kafka(streams: Streams, topic: str, partitions: int, count: int) -> list[Any]:
    """The first `count` records as an ordinary Kafka client sees them."""
    consumer = Consumer({"bootstrap.servers": streams.bootstrap, "group.id": "t", "log_level": 0})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    found: list[Any] = []
    while len(found) < count:
        found += (batch := consumer.consume(count - len(found), PATIENCE))
        assert batch, f"only {len(found)} of {count} records"
    consumer.close()
    return found


async def ends(streams: Streams, topic: str) -> dict[int, int]:
    return await streams.bridge.ends(topic)


@pytest.mark.row("ES-3.2-4")
async def test_messages_without_a_hint_are_spread_over_the_partitions(local: Streams) -> None:
    sender = await local.sender("orders")
    for number in range(300):
        assert await sender.send(message(b"%d" % number)) is ACCEPTED
    found = await ends(local, "orders")
    assert sum(found.values()) == 300
    assert min(found.values()) > 30, "a share for each of the three"


@pytest.mark.row("ES-4-4")
async def test_hints_are_optional(local: Streams) -> None:
    sender = await local.sender("orders")
    hinted = [{"da": {TARGET: Symbol("1")}}, {"ma": {KEY: "k"}}, {}]
    assert [await sender.send(message(b"x", **hint)) for hint in hinted] == [ACCEPTED] * 3
    assert sum((await ends(local, "orders")).values()) == 3


@pytest.mark.row("ES-4.2-1", "ES-4.6.7-5")
async def test_a_key_lands_where_clients_of_kafka_expect_it(local: Streams) -> None:
    sender = await local.sender("wide")
    for key in HASHES:
        for _ in range(2):
            assert await sender.send(message(key.encode(), ma={KEY: key})) is ACCEPTED
    found = [(record.key().decode(), record.partition()) for record in in_kafka(local, "wide", 12, 2 * len(HASHES))]
    assert sorted(found) == sorted(2 * [(key, (hashed & 0x7FFFFFFF) % 12) for key, hashed in HASHES.items()])


@pytest.mark.row("ES-4.6.6-4")
async def test_a_target_wins_over_the_key_and_the_key_is_kept(local: Streams) -> None:
    sender = await local.sender("orders")
    for target in ("0", "1", "2"):
        both = message(b"x", da={TARGET: Symbol(target)}, ma={KEY: "one key"})
        assert await sender.send(both) is ACCEPTED
    receiver = await local.receiver("orders", after="@earliest", credit=3)
    found = await receiver.receive(3)
    assert sorted(event.partition for event in found) == ["0", "1", "2"]
    for event in found:
        assert event.message_annotations == {Symbol(KEY): "one key"}
        assert Symbol(TARGET) not in event.annotations
    assert {record.key() for record in in_kafka(local, "orders", 3, 3)} == {b"one key"}


@pytest.mark.row("ES-4.6.6-3")
@pytest.mark.parametrize("target", ["3", "-1", "01", "x", ""])
async def test_what_is_refused_for_its_target_is_not_written(local: Streams, target: str) -> None:
    sender = await local.sender("orders")
    outcome = await sender.send(message(b"x", da={TARGET: Symbol(target)}, ma={KEY: "k"}))
    assert isinstance(outcome, Rejected)
    assert await sender.send(message(b"y", da={TARGET: Symbol("2")})) is ACCEPTED
    assert await ends(local, "orders") == {0: 0, 1: 0, 2: 1}


@pytest.mark.row("ES-4-5")
async def test_an_agnostic_link_sees_every_partition(local: Streams) -> None:
    sender = await local.sender("orders")
    for target in ("0", "1", "2"):
        await sender.send(message(target.encode(), da={TARGET: Symbol(target)}))
    receiver = await local.receiver("orders", after="@earliest", credit=3)
    found = await receiver.receive(3)
    assert sorted((event.partition, event.body) for event in found) == [("0", b"0"), ("1", b"1"), ("2", b"2")]


@pytest.mark.row("ES-4-16", "ES-6-9", "ES-6-1")
async def test_the_partitions_of_info_are_in_numeric_order_and_can_be_attached_to(local: Streams) -> None:
    sender = await local.sender("wide")
    await sender.send(message(b"x", da={TARGET: Symbol("10")}))
    info = await local.receiver("wide/$info", credit=1)
    (reported,) = await info.receive()
    entries = reported.body["partitions"]
    names = [entry["partition"] for entry in entries]
    assert names == [str(number) for number in range(12)], "by number, not as text"
    for entry in entries:
        full = entry["partition"] == "10"
        assert entry["earliest-offset"] == entry["latest-offset"] == ("0" * 20 if full else None)
        kinds = {type(entry[key]) for key in ("earliest-offset", "latest-offset")}
        assert kinds == ({Symbol} if full else {type(None)})
        assert type(entry["partition"]) is Symbol
    for name in (names[0], names[-1]):
        bound = {Symbol("event-streams-partition"): name}
        for link in (await local.sender("wide", properties=bound), await local.receiver("wide", properties=bound)):
            assert link.link.properties["event-streams-partition"] == name


@pytest.mark.row("ES-6-1")
async def test_info_has_the_last_known_offsets_while_kafka_is_away(
    local: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(local, "solo", 3)
    first = await local.receiver("solo/$info", credit=1)
    (known,) = await first.receive()
    assert known.body["partitions"][0]["latest-offset"] == f"{2:020d}"
    assert local.bridge.cluster._embedded is not None
    monkeypatch.setattr(local.bridge.cluster._admin, "_timeout", 1.0)  # from here on: what came before took its time
    local.bridge.cluster._embedded.set_reachable(False)
    await until(lambda: not local.bridge.cluster.up, PATIENCE)
    assert not local.bridge.cluster.up
    first.link.grant(1)
    (reported,) = await first.receive()
    assert reported.body["partitions"] == known.body["partitions"]
    assert reported.body["current"] is False


SQL = {Symbol("s"): Described(Symbol("amqp:sql-filter"), "d.event-streams-offset >= '@earliest'")}
LINKS: dict[str, dict[str, Any]] = {
    "agnostic": {"after": "@earliest"},
    "bound": {"after": "@earliest", "properties": {Symbol("event-streams-partition"): Symbol("0")}},
    "group": {"after": "@earliest", "properties": {Symbol("event-streams-consumer-group"): "g"}},
    "sql": {"filter": SQL},
}


@pytest.mark.row("ES-5.1-1", "ES-5.1.2-1")
@pytest.mark.parametrize("kind", sorted(LINKS))
async def test_every_kind_of_link_says_where_and_when_an_event_was_added(local: Streams, kind: str) -> None:
    """The time of the append: neither the sender's creation time nor the time of delivery."""
    sender = await local.sender("solo")
    before = time.time_ns() // 1_000_000
    assert await sender.send(message(b"x", creation_time=1_000_000_000_000)) is ACCEPTED
    after = time.time_ns() // 1_000_000
    await asyncio.sleep(0.05)
    receiver = await local.receiver("solo", credit=1, **LINKS[kind])
    (event,) = await receiver.receive()
    said = event.annotations
    assert (said[Symbol(OFFSET)], type(said[Symbol(OFFSET)])) == ("0" * 20, Symbol)
    assert (said[Symbol(SOURCE)], type(said[Symbol(SOURCE)])) == ("0", Symbol)
    assert type(said[Symbol(TIME)]) is Timestamp
    assert before <= said[Symbol(TIME)] <= after
    assert sections.properties(event.data, event.layout).creation_time == 1_000_000_000_000


@pytest.mark.row("ES-5.2.1-4")
@pytest.mark.parametrize("name", [OFFSET, TIME])
async def test_a_filter_leaves_out_the_event_whose_place_it_names(local: Streams, name: str) -> None:
    """The filter is exclusive: the event itself is not delivered, the next one is."""
    for number in range(3):
        await fill(local, "solo", 1, first=number)
        now = time.time_ns() // 1_000_000
        await until(lambda before=now: time.time_ns() // 1_000_000 > before, PATIENCE)  # each has a time of its own
    found = await (await local.receiver("solo", after="@earliest", credit=3)).receive(3)
    places = [event.annotations[Symbol(name)] for event in found]
    assert places[0] < places[1] < places[2]
    content = {Symbol(name): places[1]}
    later = Described(Symbol("amqp:event-streams-delivery-annotations-filter"), content)
    receiver = await local.receiver("solo", filter={Symbol("later"): later}, credit=3)
    assert bodies(await receiver.drain()) == [2]


@pytest.mark.row("ES-3.2-6")
@pytest.mark.parametrize(
    ("outcome", "count"),
    [(RELEASED, 0), (Modified(failed=True, undeliverable=False), 1), (Modified(failed=False, undeliverable=False), 0)],
)
async def test_what_was_given_back_comes_again_with_its_count(local: Streams, outcome: Outcome, count: int) -> None:
    await fill(local, "solo", 1)
    receiver = await local.receiver("solo", after="@earliest", credit=2)
    await receiver.receive(1, outcome)
    (again,) = await receiver.receive(1)
    fields = list(sections.header(again.data, again.layout))
    assert (fields[4] if len(fields) > 4 else 0) == count


@pytest.mark.row("ES-3.2-6")
async def test_what_is_undeliverable_here_is_copied_to_the_dead_letter_topic_and_not_sent_again(local: Streams) -> None:
    await fill(local, "solo", 2)
    receiver = await local.receiver("letters", after="@earliest", credit=3)
    await receiver.receive(1, Modified(failed=True, undeliverable=True))
    assert bodies(await receiver.receive(1)) == [1]
    loop = asyncio.get_running_loop()
    (letter,) = await loop.run_in_executor(None, in_kafka, local, "dlq", 1, 1)
    assert letter.value() == b"0"
    assert dict(letter.headers())["amqp.dead-letter.offset"] == b"0"
    assert await receiver.drain() == []


def test_positions_of_links_that_differ_in_anything_are_apart() -> None:
    """KM-11: link names are unique only between two containers."""
    source = ABSENT._replace(present=True, durable=1, expiry=3)

    def key(scope: str = "s", user: str = "u", container: str = "c", name: str = "l", node: str = "k/t") -> str:
        engine = SimpleNamespace(remote_container=container)
        link = SimpleNamespace(scope=scope, user=user, name=name, engine=engine, source=source, offset_group=None)
        requested = durable_terminus(link, node, [])
        assert requested is not None
        return requested.key

    others = [key(scope="x"), key(user="x"), key(container="x"), key(name="x"), key(node="x")]
    assert len({key(), *others}) == 6
    assert key() == key()
    assert key(scope="a", user="bc") != key(scope="ab", user="c")
