"""A broker that is killed while subscriptions deliver: events wait, none is lost, and the order of each key stays.

With three brokers, in `make soak`, another one leads the partition, and delivery goes on without the one that died.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.gateway.gateway import Gateways
from tests.support.plugins.fixtures import served
from tests.support.servers.http_sink import NO_CONTENT, SunkRequest, http_sink
from tests.support.servers.kafka import KafkaBroker
from tests.support.servers.three_kafkas import KafkaBrokers
from tests.support.subscriptions.api import (
    PATH,
    ApiClient,
    EventWriter,
    api_port,
    eventually,
    sink_ports,
    subscription_policy,
)

KEYS, LOT = 5, 300


@dataclass
class Delivering:
    """A subscription whose sink takes a moment for each event."""

    api: ApiClient
    events: EventWriter
    topic: str
    came: dict[int, None] = field(default_factory=dict)

    async def accept(self, request: SunkRequest) -> bytes:
        """What the sink answers."""
        await asyncio.sleep(0.01)
        self.came.setdefault(int(request.header("ce-id") or -1))
        return NO_CONTENT

    async def write(self, first: int) -> None:
        """A lot of events from this number on."""

        def write() -> None:
            for number in range(first, first + LOT):
                self.events.write(self.topic, str(number), key=f"k{number % KEYS}", wait=number == first + LOT - 1)

        await asyncio.to_thread(write)

    async def arrive(self, count: int) -> None:
        """Wait for so many events."""

        async def arrived() -> bool:
            return len(self.came) >= count

        await eventually(arrived, 90)

    async def told(self) -> dict[str, Any]:
        """What the status tells."""
        found: dict[str, Any] = (await self.api.ask("GET", f"{PATH}/a/status")).json
        return found

    async def check(self, count: int) -> None:
        """All have come, in the order of their keys, and none is lost."""
        await self.arrive(count)
        for key in range(KEYS):
            of_key = [each for each in self.came if each % KEYS == key]
            assert of_key == list(range(key, count, KEYS))

        async def settled() -> bool:
            told = await self.told()
            return (told["state"], told["events"]["lost"], told["behind"]["offsets"]) == ("active", 0, 0)

        await eventually(settled, 60)


@asynccontextmanager
async def delivering(folder: Path, bootstrap: str, topic: str, start_gateway: Gateways) -> AsyncIterator[Delivering]:
    """A gateway with a subscription to a topic."""
    document = subscription_policy(folder, topics={topic: 1})
    document.data["kafka"]["main"] = {"bootstrap": bootstrap}
    await asyncio.to_thread(start_gateway, document.text)
    made = Delivering(ApiClient(api_port(document)), EventWriter(bootstrap), topic)
    async with http_sink(made.accept, port=sink_ports(document)[0]) as sink:
        body = {"id": "a", "protocol": "HTTP", "sink": f"{sink.url}/"}
        assert (await made.api.ask("POST", PATH, body)).status == 201
        yield made


async def test_a_broker_that_is_killed_and_comes_back_loses_nothing(
    tmp_path: Path, own_kafka: KafkaBroker, start_gateway: Gateways
) -> None:
    topic = own_kafka.create_topic()
    async with delivering(tmp_path, own_kafka.bootstrap, topic, start_gateway) as made:
        await made.write(0)
        await made.arrive(LOT // 3)
        await asyncio.to_thread(own_kafka.kill)
        await made.arrive(LOT // 3 + 1)  # what is in memory still goes
        await asyncio.to_thread(own_kafka.start)
        await made.write(LOT)
        await made.check(2 * LOT)


@pytest.fixture
def brokers() -> Iterator[KafkaBrokers]:
    """Three brokers that tests may kill."""
    yield from served(KafkaBrokers())


@pytest.mark.soak
async def test_a_leader_that_is_killed_is_not_waited_for(
    tmp_path: Path, brokers: KafkaBrokers, start_gateway: Gateways
) -> None:
    topic = brokers.create_topic()
    async with delivering(tmp_path, brokers.bootstrap, topic, start_gateway) as made:
        for round_ in range(3):
            first = 2 * LOT * round_
            await made.write(first)
            await made.arrive(first + LOT // 3)
            leader = brokers.leader(topic)
            await asyncio.to_thread(brokers.brokers[leader].kill)
            await made.write(first + LOT)
            await made.check(first + 2 * LOT)  # while it is dead
            assert brokers.leader(topic) != leader
            await asyncio.to_thread(brokers.start)
