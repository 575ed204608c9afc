"""A client ends in the logs what an earlier one with its transactional.id has left open (decision 108)."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from bridges.kafka.admin.client import Bounds
from bridges.kafka.common.ahead import StoredPosition
from bridges.kafka.transactions import client, leftovers
from bridges.kafka.transactions.client import TransactionalClient
from bridges.kafka.transactions.leftovers import Leftovers, OpenPlaces, SentOffsets
from gateway.errors import INTERNAL_ERROR, NOT_FOUND, AmqpError
from gateway.tasks import DaemonThreads

AWAY = AmqpError(INTERNAL_ERROR, "Kafka does not answer")
AT = StoredPosition(7, ())


class Cluster:
    """Topics of two partitions; `stable`: how far readers of committed records see, of 5 records.

    In the topic `busy` they see more each time.
    """

    def __init__(self, stable: dict[str, tuple[int, int]]) -> None:
        self._stable = stable
        self.error: AmqpError | None = None

    async def topic(self, name: str) -> Any:
        if self.error is not None:
            raise self.error
        if name not in self._stable:
            raise AmqpError(NOT_FOUND, "no such topic")
        return SimpleNamespace(partitions=2)

    async def bounds(self, topic: str, partitions: Any, isolation: str = "read_committed") -> dict[int, Bounds]:
        ends = self._stable[topic] if isolation == "read_committed" else (5, 5)
        if topic == "busy" and isolation == "read_committed":
            self._stable[topic] = (ends[0] + 1, ends[1] + 1)
        return {each: Bounds(0, ends[each]) for each in partitions}


class Producer:
    """Says what is asked of it; reports each record at once."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.refused: dict[str, KafkaError] = {}
        self._unreported = 0
        self.client = self

    def _call(self, name: str) -> None:
        self.log.append(name)
        if (error := self.refused.get(name)) is not None:
            raise KafkaException(error)

    def init_transactions(self, _: float) -> None:
        self._call("init")

    def begin_transaction(self) -> None:
        self._call("begin")

    def abort_transaction(self, _: float) -> None:
        self._call("abort")

    def put(self, topic: str, partition: int, *record: object) -> None:
        assert record == (b"", b"", None)
        self._unreported += 1
        self._call(f"{topic} {partition}")

    def reports(self) -> tuple[int, int]:
        count, self._unreported = self._unreported, 0
        return count, 0

    def waiting(self) -> int:
        return self._unreported

    def wakeups(self, loop: asyncio.AbstractEventLoop, wake: Any) -> Any:
        return SimpleNamespace(expect=lambda: loop.call_soon(wake))


class World:
    """A client that takes the place of another one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, before: Leftovers, stable: dict[str, tuple[int, int]]) -> None:
        self.producer, self.cluster = Producer(), Cluster(stable)
        monkeypatch.setattr(leftovers, "_LASTING", 0.01)
        monkeypatch.setattr(client, "make_outbox", lambda *_: self.producer)
        monkeypatch.setattr(TransactionalClient, "_send_offsets", self._send)
        cluster: Any = self.cluster
        threads = DaemonThreads(1, "test")
        settings = {"transactional.id": "id"}
        self.client = TransactionalClient(settings, asyncio.get_running_loop(), threads, OpenPlaces(cluster), before)

    def _send(self, group: str, places: list[Any], _: float) -> None:
        self.producer._call(f"{group} {places[0].topic} {places[0].offset}")


async def test_what_is_open_is_ended_by_a_transaction_that_is_aborted(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the partitions where readers of committed records wait, and in the groups; a topic may be gone meanwhile."""
    before = Leftovers(frozenset({"quiet", "gone", "held"}), (SentOffsets("group", "input", {0: AT}),))
    world = World(monkeypatch, before, {"quiet": (5, 5), "held": (5, 2)})
    await world.client.initialise()
    assert world.producer.log == ["init", "begin", "held 1", "group input 7", "abort"]
    assert not world.client.left
    await world.client.initialise()
    assert len(world.producer.log) == 5


async def test_nothing_is_written_where_nothing_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or where transactions of others come and go."""
    world = World(monkeypatch, Leftovers(frozenset({"quiet", "busy"})), {"quiet": (5, 5), "busy": (1, 2)})
    await world.client.initialise()
    assert world.producer.log == ["init"]
    assert not world.client.left


@pytest.mark.parametrize("when", ["find", "abort"])
async def test_a_client_that_could_not_end_it_is_of_no_use(monkeypatch: pytest.MonkeyPatch, when: str) -> None:
    """Its successor has to: a commit of this one would commit what was rolled back."""
    before = Leftovers(frozenset({"held"}))
    world = World(monkeypatch, before, {"held": (2, 5)})
    if when == "find":
        world.cluster.error = AWAY
    else:
        world.producer.refused["abort"] = KafkaError(KafkaError._FENCED, "taken", True)
    with pytest.raises(KafkaException):
        await world.client.initialise()
    assert world.client.fatal
    assert not world.client.initialised
    assert world.client.left == before


async def test_positions_that_kafka_refuses_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The id would be of no use for ever."""
    world = World(monkeypatch, Leftovers(offsets=(SentOffsets("group", "input", {0: AT}),)), {})
    world.producer.refused["group input 7"] = KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED)
    await world.client.initialise()
    assert world.producer.log == ["init", "begin", "group input 7", "abort"]
    assert world.client.initialised


async def test_a_client_knows_where_its_transaction_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, Leftovers(), {})
    await world.client.initialise()
    world.client.begin(None)
    world.client.produce("topic", 0, b"", b"", None)
    await world.client.send_offsets("group", "input", {0: AT})
    assert world.client.left == Leftovers(frozenset({"topic"}), (SentOffsets("group", "input", {0: AT}),))
    await world.client.abort()
    assert not world.client.left
