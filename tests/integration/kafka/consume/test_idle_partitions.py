"""Partitions that are read to their ends beside others of the same client."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bridges.kafka.consume.poll import Key
from bridges.kafka.consume.reader import Fetched, PartitionReader, ReaderOwner
from tests.support.servers.kafka import KafkaBroker, new_producer

ROUNDS = 5
SOON = 0.25
"""Seconds that a partition may be held up; librdkafka's own setting holds up one in two of them for longer."""


class Reading:
    """A reader, and what has come from it."""

    def __init__(self, bootstrap: str) -> None:
        self.found: asyncio.Queue[Key] = asyncio.Queue()
        owner = ReaderOwner(self.arrived, self.never, self.never, lambda _: None)
        settings = {"bootstrap.servers": bootstrap, "log_level": 0}
        self.reader = PartitionReader(settings, asyncio.get_running_loop(), owner)

    def arrived(self, _: PartitionReader, fetched: Fetched) -> None:
        for key in (*fetched.records, *fetched.ends):
            self.found.put_nowait(key)

    def never(self, *_: object) -> None:
        raise AssertionError("nothing fails")

    async def until(self, key: Key) -> None:
        while await asyncio.wait_for(self.found.get(), 10) != key:
            pass


@asynccontextmanager
async def reading(bootstrap: str) -> AsyncIterator[Reading]:
    """A reader, which ends with the test."""
    found = Reading(bootstrap)
    found.reader.start()
    try:
        yield found
    finally:
        found.reader.stop()
        await asyncio.to_thread(found.reader.join, 10)


async def test_a_partition_does_not_wait_for_one_that_has_nothing_more(kafka_broker: KafkaBroker) -> None:
    """A client has one request on its way to each broker, which may wait for events of all partitions in it."""
    idle, busy = kafka_broker.create_topic(), kafka_broker.create_topic(partitions=ROUNDS)
    producer = new_producer(kafka_broker.bootstrap)
    for partition in range(ROUNDS):
        producer.produce(busy, b"event", partition=partition)
    assert producer.flush(10) == 0
    took = []
    async with reading(kafka_broker.bootstrap) as found:
        found.reader.add((idle, 0), 0)
        await found.until((idle, 0))
        for partition in range(ROUNDS):
            begun = time.monotonic()
            found.reader.add((busy, partition), 0)
            await found.until((busy, partition))
            took.append(time.monotonic() - begun)
            await found.until((busy, partition))  # its end
    assert sorted(took)[ROUNDS // 2] < SOON, took
