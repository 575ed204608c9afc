"""Offsets without events (KM-7): compacted records, records of aborted transactions, transaction markers.

On a real broker: librdkafka's mock cluster neither compacts nor knows transactions.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import pytest

from bridges.kafka.clusters.cluster import ClusterConfig
from gateway.amqp.codec.types import Described, Symbol
from gateway.filters.position.event_stream import OFFSET, offset_symbol
from policies.model.scopes.assignment import Assignment
from tests.support.gateway.process import PATIENCE, wait_until
from tests.support.kafka.streams import Delivered, Route, Streams, position
from tests.support.servers.kafka import KafkaBroker, new_producer
from tests.support.spark.pipeline import Watermarks, consumed

COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "100",
    "min.cleanable.dirty.ratio": "0.001",
    "min.compaction.lag.ms": "0",
    "max.compaction.lag.ms": "100",
    "delete.retention.ms": "0",
}
GROUP, PARTITION = Symbol("event-streams-consumer-group"), Symbol("event-streams-partition")
TICK = b"tick"
"""Key and value of records that only make the log begin a new segment: the active one is not compacted. They come and
go behind the others, and nobody looks at them."""


class Log(NamedTuple):
    """A topic with gaps: its events by offset, and its end."""

    topic: str
    events: dict[int, bytes]
    end: int

    def after(self, offset: int) -> list[tuple[int, bytes]]:
        """The events after an offset."""
        return [each for each in self.events.items() if each[0] > offset]


class Transactions:
    """A producer of red and blue records with keys, in transactions that are committed or not."""

    def __init__(self, broker: KafkaBroker, topic: str) -> None:
        self._topic = topic
        self._producer = new_producer(broker.bootstrap, **{"transactional.id": topic})
        self._producer.init_transactions(PATIENCE)

    def write(self, word: bytes, *keys: int, commit: bool = True) -> None:
        """Write one transaction with a record for each key; those with odd keys are red."""
        self._producer.begin_transaction()
        for key in keys:
            color = b"red" if key % 2 else b"blue"
            value = b"%s-%d" % (word, key)
            self._producer.produce(self._topic, value, b"k%d" % key, headers=[("color", color)])
        assert self._producer.flush(PATIENCE) == 0
        (self._producer.commit_transaction if commit else self._producer.abort_transaction)(PATIENCE)


@pytest.fixture(scope="module")
def gaps(kafka_broker: KafkaBroker) -> Log:
    """Made once: gaps at the beginning, within, and at the end; of each kind."""
    topic = kafka_broker.create_topic(config=COMPACTED)
    transactions = Transactions(kafka_broker, topic)
    transactions.write(b"old", *range(6))
    transactions.write(b"lost", *range(6), commit=False)
    transactions.write(b"new", 0, 3, 4)
    transactions.write(b"lost", 1, 2, commit=False)
    transactions.write(b"newest", 0, 4)
    wanted = [b"old-1", b"old-2", b"old-5", b"new-3", b"newest-0", b"newest-4"]

    def compacted() -> bool:
        with kafka_broker.writing() as write:
            write(topic, TICK, TICK)
        there = consumed(kafka_broker, topic, committed=False)
        return [record.value for record in there if record.key != TICK] == wanted

    wait_until(compacted, "compaction", 4 * PATIENCE)
    transactions.write(b"lost", *range(6), commit=False)  # the log ends with them, and with a marker
    marks = Watermarks(kafka_broker, topic, 1)
    wait_until(lambda: not marks.open(), "the last marker")
    end, there = marks.total(), consumed(kafka_broker, topic)
    marks.close()
    events = {record.offset: record.value or b"" for record in there if record.key != TICK}
    assert set(range(end)) - set(events) > {0, end - 1}
    return Log(topic, events, end)


@pytest.fixture
async def streams(kafka_broker: KafkaBroker) -> AsyncIterator[Streams]:
    streams = Streams(ClusterConfig(kafka_broker.bootstrap, refresh=0.3, retry=0.2, timeout=10))
    yield streams
    await streams.close()


def places(events: list[Delivered]) -> list[tuple[int, bytes]]:
    """Offset and body of each event."""
    return [(event.offset, event.body) for event in events if event.body != TICK]


async def test_every_position_leads_to_the_next_event(gaps: Log, streams: Streams) -> None:
    """A drain ends after the marker at the end of the log; no gap is reported as a loss (KM-8)."""
    everything = await streams.receiver(gaps.topic, after="@earliest", credit=1000)
    assert places(await everything.drain()) == list(gaps.events.items())
    for offset in range(gaps.end):
        receiver = await streams.receiver(gaps.topic, after=offset_symbol(offset), credit=1000)
        events = await receiver.drain()
        assert places(events) == gaps.after(offset)
        assert not any("x-opt-gateway-gap" in event.message_annotations for event in events)
        receiver.link.detach(None)
    assert streams.bridge.counters.gaps == 0


async def test_credit_one_by_one_goes_over_gaps(gaps: Log, streams: Streams) -> None:
    receiver = await streams.receiver(gaps.topic, after="@earliest")
    found = []
    for _ in gaps.events:
        receiver.link.grant(1)
        found += places(await receiver.receive())
    assert found == list(gaps.events.items())
    receiver.link.grant(1000)
    assert places(await receiver.drain()) == []


async def test_filters_go_over_gaps(gaps: Log, streams: Streams) -> None:
    red = {Symbol("sql"): Described(Symbol("amqp:sql-filter"), "color = 'red'")}
    receiver = await streams.receiver(gaps.topic, credit=1000, filter={**red, **from_the_start()})
    assert [body for _, body in places(await receiver.drain())] == [b"old-1", b"old-5", b"new-3"]
    for offset in range(gaps.end):
        beyond = {Symbol("sql"): Described(Symbol("amqp:sql-filter"), f"d.{OFFSET} > '{offset_symbol(offset)}'")}
        receiver = await streams.receiver(gaps.topic, credit=1000, filter=beyond)
        assert places(await receiver.drain()) == gaps.after(offset)
        receiver.link.detach(None)


def from_the_start() -> dict[Symbol, Any]:
    """A position before the first event."""
    return position(**{OFFSET: Symbol("@earliest")})


@pytest.mark.parametrize("mode", ["bound", "shared"])
async def test_groups_go_on_over_gaps(gaps: Log, streams: Streams, mode: Any) -> None:
    """Each member takes two events and leaves; the next one continues after them, whatever gaps follow."""
    streams.routes[gaps.topic] = Route(gaps.topic, assignment=Assignment(group_mode=mode))
    properties: dict[Symbol, Any] = {GROUP: f"of-{mode}", **({PARTITION: Symbol("0")} if mode == "bound" else {})}
    found: list[tuple[int, bytes]] = []
    while len(found) < len(gaps.events):
        side, begin = streams.connect(), None if found else from_the_start()
        member = await streams.receiver(gaps.topic, credit=2, properties=properties, side=side, filter=begin)
        found += places(await member.receive(min(2, len(gaps.events) - len(found))))
        member.link.detach(None)
        await asyncio.wait_for(asyncio.shield(member.detached), PATIENCE)
    assert found == list(gaps.events.items())


async def test_info_tells_the_bounds_whatever_is_between_them(gaps: Log, streams: Streams) -> None:
    info = await streams.receiver(f"{gaps.topic}/$info", credit=1)
    (entry,) = (await info.receive())[0].body["partitions"]
    assert (entry["earliest-offset"], entry["latest-offset"]) == (offset_symbol(0), offset_symbol(gaps.end - 1))
    assert entry["next-offset"] == offset_symbol(gaps.end)
    latest = await streams.receiver(gaps.topic, after="@latest", credit=1)
    assert await latest.drain() == []
