"""Failures of brokers, leaders, disks and Redis under load: nothing accepted is lost, and the status tells operators.

Three brokers, one Redis, one gateway. A sender and two receivers, one in a consumer group and one without stored state,
run throughout; at the end, the topics are compared with the outcomes that the sender received.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from gateway.amqp.codec.codec import encode
from gateway.amqp.codec.types import Symbol
from tests.support.amqp.members import GROUP, PARTITION
from tests.support.amqp.numbered import NumberedReceiver, NumberedSender, attach, stored, until
from tests.support.gateway import process
from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateway, Gateways
from tests.support.plugins.fixtures import served
from tests.support.servers.servers import Redis
from tests.support.servers.three_kafkas import KafkaBrokers

RATE = 500
PATIENCE = 3 * process.PATIENCE
pytestmark = pytest.mark.soak


@pytest.fixture(scope="module")
def brokers() -> Iterator[KafkaBrokers]:
    """Three brokers that tests may kill."""
    yield from served(KafkaBrokers())


@pytest.fixture
def own_redis() -> Iterator[Redis]:
    """A Redis that tests may restart."""
    yield from served(Redis())


class Reader:
    """A receiver link that is attached again whenever it ends; `sessions` has the events of each link."""

    def __init__(self, address: str, properties: dict[Any, Any] | None = None) -> None:
        self.address, self.binding = address, encode(properties) if properties else b""
        self.sessions: list[NumberedReceiver] = []

    async def run(self, port: int) -> None:
        while True:
            role = NumberedReceiver(self.address, self.binding)
            self.sessions.append(role)
            with suppress(AssertionError, OSError):
                await attach(role, port)
                while not role.trouble:  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
            await asyncio.sleep(0.2)

    @property
    def numbers(self) -> set[int]:
        """All received numbers."""
        return set(itertools.chain.from_iterable(session.numbers for session in self.sessions))


class Scene:
    """The traffic, and what the gateway says."""

    def __init__(self, brokers: KafkaBrokers, redis: Redis, gateways: Gateways) -> None:
        self.brokers, self.redis = brokers, redis
        self.topic = brokers.create_topic()
        document = Document(state=redis.url, lease="5s")
        document.kafka(brokers.bootstrap)
        self.gateway: Gateway = gateways(document.text)
        self.port = document.edge
        address = f"events/{self.topic}"
        self.sender = NumberedSender(address, 0)
        self.alone = Reader(address)
        self.member = Reader(address, {GROUP: "workers", PARTITION: Symbol("0")})

    async def trickle(self) -> None:
        """Let the sender send a few more messages, repeatedly."""
        while True:
            self.sender.limit = min(self.sender.limit + RATE // 50, self.sender.sent + RATE)
            self.sender.turn()
            await asyncio.sleep(0.02)

    @asynccontextmanager
    async def traffic(self) -> AsyncIterator[None]:
        """Run the traffic during the block."""
        await attach(self.sender, self.port)
        tasks = [self.trickle(), self.alone.run(self.port), self.member.run(self.port)]
        running = [asyncio.create_task(task) for task in tasks]
        try:
            yield
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def goes_on(self, what: str) -> None:
        """Wait until further messages are accepted, and received by everybody."""
        goal = len(self.sender.of("accepted")) + RATE
        await until(lambda: len(self.sender.of("accepted")) >= goal, f"outcomes after {what}", PATIENCE)
        accepted = self.sender.of("accepted")
        for reader in (self.alone, self.member):
            await until(lambda reader=reader: accepted <= reader.numbers, f"events after {what}", PATIENCE)  # type: ignore[misc]
        assert not self.sender.trouble

    async def says(self, ready: bool, **parts: bool) -> None:
        """Wait until `/readyz` and the metrics show the actual state."""

        def agrees() -> bool:
            _, text = self.gateway.get("/readyz")
            shown = json.loads(text)["parts"] if text else {}  # no answer yet: the machine is busy
            everything = all(part["ready"] for part in shown.values())
            said = (everything, *(shown[name]["ready"] for name in parts)) if shown else ()
            return said == (ready, *parts.values())

        def counted() -> bool:
            if "kafka/main" not in parts:
                return True
            return self.gateway.metrics().get('scopegate_kafka_up{cluster="main"}') == float(parts["kafka/main"])

        await self.becomes(agrees, f"/readyz says {ready} {parts}: {self.gateway.get('/readyz')}")
        await self.becomes(counted, "scopegate_kafka_up")

    async def becomes(self, condition: Any, what: str) -> None:
        async with asyncio.timeout(PATIENCE):
            while not await asyncio.to_thread(condition):  # noqa: ASYNC110
                await asyncio.sleep(0.05)

    async def led_by_another(self, than: int) -> None:
        """Wait until the partition has another leader."""
        await self.becomes(lambda: self.brokers.leader(self.topic) not in (-1, than), "another leader")

    async def whole(self) -> None:
        """Wait until all replicas are in sync."""
        await asyncio.to_thread(self.brokers.start)
        await self.becomes(lambda: self.brokers.in_sync(self.topic) == 3, "three in sync")


async def test_nothing_that_was_accepted_is_lost_whatever_fails(
    brokers: KafkaBrokers, own_redis: Redis, start_gateway: Gateways
) -> None:
    scene = await asyncio.to_thread(Scene, brokers, own_redis, start_gateway)
    async with scene.traffic():
        await scene.goes_on("the start")
        await scene.says(True, **{"kafka/main": True, "state": True})

        first = brokers.leader(scene.topic)
        brokers.brokers[first].kill()
        await scene.led_by_another(first)
        await scene.goes_on("a leader was killed")
        await scene.says(True, **{"kafka/main": True})
        await scene.whole()

        await asyncio.to_thread(brokers.give_back, scene.topic)
        await scene.becomes(lambda: brokers.leader(scene.topic) == first, "the first leader again")
        await scene.goes_on("the leader was moved")

        await asyncio.to_thread(own_redis.stop)
        await scene.says(False, state=False)
        await asyncio.to_thread(own_redis.start)
        await scene.says(True, **{"kafka/main": True, "state": True})
        await scene.goes_on("Redis was restarted")

        await asyncio.to_thread(brokers.stop)
        await scene.says(False, **{"kafka/main": False, "state": True})
        before = len(scene.sender.of("released"))
        await until(lambda: len(scene.sender.of("released")) > before, "released while Kafka is away", PATIENCE)
        await asyncio.to_thread(brokers.start)
        await scene.says(True, **{"kafka/main": True})
        await scene.goes_on("Kafka was stopped and started")
    check(scene)


async def test_full_disks_are_survived(
    brokers: KafkaBrokers, own_redis: Redis, start_gateway: Gateways
) -> None:
    scene = await asyncio.to_thread(Scene, brokers, own_redis, start_gateway)
    async with scene.traffic():
        await scene.goes_on("the start")
        full = brokers.leader(scene.topic)
        brokers.brokers[full].fill_disk(1)
        await scene.led_by_another(full)
        await scene.goes_on("the leader's disk was full")
        await scene.says(True, **{"kafka/main": True})

        for broker in brokers.brokers.values():
            broker.fill_disk(1)
        await scene.says(False, **{"kafka/main": False, "state": True})
        before = len(scene.sender.of("released"))
        await until(lambda: len(scene.sender.of("released")) > before, "released while no disk has room", PATIENCE)
        await asyncio.to_thread(brokers.stop)
        await scene.whole()
        await scene.says(True, **{"kafka/main": True, "state": True})
        await scene.goes_on("every disk had room again")
    check(scene)


def check(scene: Scene) -> None:
    """Compare Kafka's records with the outcomes of the sender and the events of the receivers."""
    outcomes = scene.sender.outcome
    assert set(outcomes.values()) <= {"accepted", "released", "modified"}
    kept = stored(scene.brokers.bootstrap, scene.topic, [0])[0]
    assert kept == sorted(set(kept)), "in the order of sending, each once"
    assert scene.sender.of("accepted") <= set(kept), "accepted means stored"
    assert not scene.sender.of("released") & set(kept), "released means not stored"
    for reader in (scene.alone, scene.member):
        assert reader.numbers <= set(kept)
        for session in reader.sessions:
            assert session.numbers == sorted(set(session.numbers)), "in the order of the log"
    assert any(scene.member.sessions)
