"""What happens to the log under a subscription: retention, a topic that is deleted or made again, more partitions.

What is lost is counted and told, and nothing else is lost; the order of each key stays.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.support.cloudevents.delivery import until
from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateway, Gateways
from tests.support.gateway.warm import OFTEN, shortened
from tests.support.servers.http_sink import NO_CONTENT, HttpSinkServer, SunkRequest, http_sink, status
from tests.support.servers.kafka import KafkaBroker
from tests.support.subscriptions.api import (
    PATH,
    ApiClient,
    EventWriter,
    api_port,
    eventually,
    sink_ports,
    subscription_policy,
)

KEYS = 5
RETRY = {"min": "20ms", "max": "100ms"}
LOST = 'scopegate_subscription_events_total{manager="edge/orders",outcome="lost",protocol="HTTP"}'


@dataclass
class Faulty:
    """A gateway that delivers from a topic of its own for each test, and the sink of its only subscription."""

    document: Document
    gateway: Gateway
    kafka: KafkaBroker
    events: EventWriter
    api: ApiClient
    topics: list[str]
    topic: str = ""
    sink: HttpSinkServer = field(default_factory=HttpSinkServer)
    came: list[str] = field(default_factory=list)
    """Ids of what the sink accepted."""
    well: bool = True

    async def accept(self, request: SunkRequest) -> bytes:
        """What the sink answers."""
        if not self.well:
            return status(500)
        self.came.append(request.header("ce-id") or "")
        return NO_CONTENT

    @asynccontextmanager
    async def subscribed(self, **more: Any) -> AsyncIterator[None]:
        """Have a subscription to another topic, named like it."""
        self.topic, self.came, self.well = self.topics.pop(), [], True
        async with http_sink(self.accept, port=sink_ports(self.document)[0]) as self.sink:
            config = {"address": f"events/{self.topic}"}
            body = {"id": self.topic, "protocol": "HTTP", "sink": f"{self.sink.url}/", "config": config, **more}
            assert (await self.api.ask("POST", PATH, body)).status == 201
            yield
            await self.api.ask("DELETE", f"{PATH}/{self.topic}")

    async def write(self, *numbers: int) -> None:
        """Events with these numbers, each of five keys."""

        def write() -> None:
            for number in numbers:
                self.events.write(self.topic, str(number), key=f"k{number % KEYS}", wait=number == numbers[-1])

        await asyncio.to_thread(write)

    async def status(self) -> dict[str, Any]:
        """What the subscription's status tells."""
        reported: dict[str, Any] = (await self.api.ask("GET", f"{PATH}/{self.topic}/status")).json
        return reported

    async def matched(self, count: int) -> bool:
        """Whether so many events have been read, or more."""
        return bool((await self.status())["events"]["matched"] >= count)

    async def caught_up(self) -> bool:
        """Whether the status says that nothing is left; it says nothing about that while Kafka stands still."""
        return bool((await self.status())["behind"]["offsets"] == 0)

    async def away(self) -> None:
        """Wait until the sink has failed for so long that nothing is kept in memory."""
        await eventually(self.fails)
        await until(lambda: self.gateway.metrics()["scopegate_subscription_held_bytes"] < 2048)

    async def fails(self, reason: str = "") -> bool:
        """Whether the status says that it fails, and why."""
        reported = await self.status()
        return reported["state"] == "failing" and reported.get("reason", "").startswith(reason)

    async def suspended(self) -> bool:
        """Whether the status says that it is suspended."""
        return bool((await self.status())["state"] == "suspended")

    async def reached(self, offset: int, partition: int = 0) -> bool:
        """Whether all before an offset is done with."""
        positions = (await self.status())["positions"].get(f"events/{self.topic}", {})
        return int(positions.get(str(partition), -1)) == offset

    def in_order(self) -> bool:
        """Whether the first arrivals of each key are in order."""
        firsts = [int(id) for id in dict.fromkeys(self.came)]
        of_keys = [[each for each in firsts if each % KEYS == key] for key in range(KEYS)]
        return all(numbers == sorted(numbers) for numbers in of_keys)


@pytest.fixture(scope="module")
def place(
    tmp_path_factory: pytest.TempPathFactory, kafka_broker: KafkaBroker, start_module_gateway: Gateways
) -> Faulty:
    topics = {kafka_broker.create_topic(): 1 for _ in range(5)}
    document = subscription_policy(tmp_path_factory.mktemp("faults"), topics=topics, delivery={"retry": RETRY})
    document.data["kafka"]["main"] = {"bootstrap": kafka_broker.bootstrap}
    gateway = start_module_gateway(document.text, env=shortened(OFTEN))
    events, api = EventWriter(kafka_broker.bootstrap), ApiClient(api_port(document))
    return Faulty(document, gateway, kafka_broker, events, api, list(topics))


async def test_what_retention_deletes_before_it_is_delivered_is_counted_and_told(place: Faulty) -> None:
    async with place.subscribed():
        before = place.gateway.metrics().get(LOST, 0.0)
        place.well = False
        await place.write(*range(100))
        await place.away()
        await asyncio.to_thread(place.kafka.delete_before, place.topic, 60)
        place.well = True
        await eventually(lambda: place.reached(100))
        await eventually(place.caught_up)
        reported = await place.status()
        assert set(map(str, range(60, 100))) <= set(place.came)
        assert place.in_order()
        lost = 100 - len(set(place.came))  # one may have been in memory
        assert lost >= 59
        assert reported["events"]["lost"] == lost
        assert reported["events"]["delivered"] == 100 - lost
        assert place.gateway.metrics()[LOST] - before == lost
        lines = [line for line in place.gateway.log() if line["event"] == "events of a subscription lost to retention"]
        assert sum(line["offsets"] for line in lines if line["id"] == place.topic) == lost
        assert len(lines) < 10


async def test_what_retention_deletes_before_it_is_read_is_counted_and_told(place: Faulty) -> None:
    async with place.subscribed():
        await place.write(0)
        await eventually(lambda: place.reached(1))
        place.sink.answer = lambda request: status(410)
        await place.write(1)
        await eventually(place.suspended)
        await place.write(*range(2, 50))
        await asyncio.to_thread(place.kafka.delete_before, place.topic, 40)
        place.sink.answer = place.accept
        assert (await place.api.ask("POST", f"{PATH}/{place.topic}/resume")).status == 200
        await eventually(lambda: place.reached(50))
        reported = await place.status()
        assert {str(each) for each in range(40, 50)} <= set(place.came)
        assert reported["events"]["lost"] == 50 - len(set(place.came))
        assert reported["events"]["lost"] >= 38


async def test_a_topic_that_was_made_again_is_read_from_its_beginning(place: Faulty) -> None:
    async with place.subscribed():
        await place.write(*range(20))
        await eventually(lambda: place.reached(20))
        await asyncio.to_thread(place.kafka.recreate, place.topic)
        await place.write(*range(100, 105))
        await eventually(lambda: place.reached(5))
        assert sorted(map(int, place.came)) == [*range(20), *range(100, 105)]
        assert place.in_order()
        assert place.gateway.wait_log("topic of a subscription was recreated", id=place.topic)
        await eventually(place.caught_up)
        assert (await place.status())["state"] == "active"


async def test_what_was_not_sent_of_a_deleted_topic_is_counted_and_told(place: Faulty) -> None:
    async with place.subscribed():
        await place.write(*range(20))
        await eventually(lambda: place.reached(20))
        place.well = False
        await place.write(*range(20, 40))
        await place.away()
        await eventually(lambda: place.matched(20 + 2))  # with events of two keys, nothing more is read
        read = (await place.status())["events"]["matched"]
        await asyncio.to_thread(place.kafka.delete, place.topic)
        await eventually(lambda: place.fails(f"events/{place.topic} cannot be read"))
        place.well = True
        assert place.gateway.wait_log("stream of a subscription cannot be read", id=place.topic)
        await asyncio.to_thread(place.kafka.create_topic, place.topic)
        await place.write(*range(40, 45))
        await eventually(lambda: place.reached(5))
        reported = await place.status()
        assert (reported["state"], reported["events"]["lost"]) == ("active", read - 20)
        assert sorted(map(int, place.came)) == [*range(20), *range(40, 45)]


async def test_partitions_that_are_added_are_read_from_their_beginning(place: Faulty) -> None:
    async with place.subscribed():
        await place.write(0)
        await eventually(lambda: place.reached(1))
        await asyncio.to_thread(place.kafka.grow, place.topic, 3)
        with place.kafka.writing() as produce:
            for number in range(9):
                about = {"ce_specversion": "1.0", "ce_id": f"n{number}", "ce_source": "/s", "ce_type": "t"}
                key = f"k{number % 3}".encode()  # events without a key may come in any order
                produce(place.topic, b"", key=key, partition=number % 3, headers=list(about.items()))
        for partition, end in enumerate((4, 3, 3)):
            await eventually(lambda p=partition, e=end: place.reached(e, p))  # type: ignore[misc]
        assert sorted(place.came) == ["0", *(f"n{number}" for number in range(9))]
        assert place.came.index("n1") < place.came.index("n4") < place.came.index("n7")
