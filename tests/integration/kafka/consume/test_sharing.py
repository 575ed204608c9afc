"""Many links read with few Kafka clients, on the real process: which links share a client, and its memory (KM-16).

The tests check the operator's view: the gauges `scopegate_kafka_readers`, `…_streams` and `…_cached_bytes`.
"""

from __future__ import annotations

import asyncio
from typing import Any

from cproton_ffi import lib

from tests.bench.running import resident_kib
from tests.support.amqp.numbered import NumberedReceiver, attach, until
from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateway, Gateways
from tests.support.gateway.process import PATIENCE
from tests.support.servers.kafka import KafkaBroker, new_producer

MIB = 1024 * 1024


class Slow(NumberedReceiver):
    """Grants credit only on request, until it is released."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.hold, self.free = True, False

    def give(self, credit: int) -> None:
        """Grant more credit, once."""
        lib.pn_link_flow(self.link, credit)
        self.peer.flush_soon()

    def delivery(self, delivery: Any) -> None:
        if not self.free:
            self.spent = -1  # so that it never comes to half of the credit
        super().delivery(delivery)

    def release(self) -> None:
        """Keep granting credit from now on."""
        self.free, self.spent = True, 0
        self.go()


class Place:
    """A gateway with one topic of one partition."""

    def __init__(self, gateways: Gateways, broker: KafkaBroker, **cluster: Any) -> None:
        document = Document()
        document.kafka(broker.bootstrap, **cluster)
        self.topic = broker.create_topic()
        self.producer = new_producer(broker.bootstrap, **{"queue.buffering.max.kbytes": 262_144})
        self.gateway: Gateway = gateways(document.text)
        self.port, self.count = document.edge, 0

    @property
    def address(self) -> str:
        """Of its event log."""
        return f"events/{self.topic}"

    async def produce(self, count: int, size: int = 1000) -> None:
        """Append this number of numbered records."""
        for number in range(self.count, self.count + count):
            self.producer.produce(self.topic, bytes(size - 8) + number.to_bytes(8, "big"), partition=0)
            if number % 1000 == 0:
                self.producer.poll(0)
        self.count += count
        await asyncio.to_thread(self.producer.flush, PATIENCE)

    async def all(self, *receivers: NumberedReceiver) -> None:
        """Wait until every link has all events, in order and without duplicates."""
        await until(lambda: all(len(each.numbers) >= self.count for each in receivers), "all events", 3 * PATIENCE)
        for each in receivers:
            assert each.numbers == list(range(self.count))
            assert not each.trouble

    async def shows(self, **wanted: float) -> None:
        """Wait until the gauges of the cluster have these values."""
        names = {f'scopegate_kafka_{name}{{cluster="main"}}': value for name, value in wanted.items()}

        def agree() -> bool:
            metrics = self.gateway.metrics()
            return all(metrics.get(name) == value for name, value in names.items())

        async with asyncio.timeout(PATIENCE):
            while not await asyncio.to_thread(agree):  # noqa: ASYNC110
                await asyncio.sleep(0.05)

    def shown(self, name: str) -> float:
        """A gauge of the cluster."""
        return self.gateway.metrics()[f'scopegate_kafka_{name}{{cluster="main"}}']


async def test_consumers_that_tail_share_one_reader(kafka_broker: KafkaBroker, start_gateway: Gateways) -> None:
    place = Place(start_gateway, kafka_broker)
    await place.produce(2000, 100)
    receivers = [await attach(NumberedReceiver(place.address), place.port) for _ in range(12)]
    await place.all(*receivers)
    await place.shows(readers=1, streams=1, turns=0)
    await place.produce(2000, 100)
    await place.all(*receivers)
    await place.shows(readers=1, streams=1, turns=0)
    for receiver in receivers:
        receiver.peer.close()
    await place.shows(readers=0, streams=0, cached_bytes=0, cached_chunks=0)


async def test_who_falls_behind_reads_alone_until_caught_up(kafka_broker: KafkaBroker, start_gateway: Gateways) -> None:
    place = Place(start_gateway, kafka_broker, cache="1MiB")
    quick = await attach(NumberedReceiver(place.address), place.port)
    slow = await attach(Slow(place.address), place.port)
    await place.produce(100)
    slow.give(10)
    await until(lambda: len(slow.numbers) == 10, "the first events")
    await place.produce(10_000)
    await place.all(quick)
    await place.shows(readers=1, streams=1)
    slow.give(10)
    await until(lambda: len(slow.numbers) == 20, "events that are in no cache any more")
    await place.shows(readers=2, streams=2)
    await place.produce(1000)
    await place.all(quick)
    slow.release()
    await place.all(quick, slow)
    await place.shows(readers=1, streams=1)


async def test_who_gives_no_credit_costs_no_memory_beyond_a_bound(
    kafka_broker: KafkaBroker, start_gateway: Gateways
) -> None:
    """The first lot fills the cache; the second, 50 MB that five links do not take, needs less than half of that.

    It needs 0 to 6 MB, and 14 on a busy machine, where output waits for the quick link; with a cache for both, 56.
    """
    place, lot = Place(start_gateway, kafka_broker, cache="16MiB"), 50_000
    quick = await attach(NumberedReceiver(place.address), place.port)
    stopped = [await attach(Slow(place.address), place.port) for _ in range(5)]
    for number, each in enumerate(stopped):
        each.give(1 + number)
    sizes = []
    for _ in range(2):
        await place.produce(lot)
        await place.all(quick)
        sizes.append(resident_kib(place.gateway.process.pid) * 1024)
    assert [len(each.numbers) for each in stopped] == [1, 2, 3, 4, 5]
    assert sizes[1] - sizes[0] < lot * 1000 // 2, sizes
    assert await asyncio.to_thread(place.shown, "cached_bytes") <= 16 * MIB


async def test_more_positions_than_readers_take_turns(kafka_broker: KafkaBroker, start_gateway: Gateways) -> None:
    place = Place(start_gateway, kafka_broker, readers=1, cache="1MiB")
    await place.produce(20_000, 100)
    first = await attach(NumberedReceiver(place.address), place.port)
    await until(lambda: len(first.numbers) >= 10_000, "the first to be ahead")
    second = await attach(NumberedReceiver(place.address), place.port)
    await place.produce(5000, 100)
    await place.all(first, second)
    await place.shows(readers=1, streams=1, turns=0)
