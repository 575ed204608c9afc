"""Which of a cluster's transactional clients a transaction gets (decision 107)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from bridges.kafka.transactions import pool
from bridges.kafka.transactions.client import TransactionalClient
from bridges.kafka.transactions.leftovers import Leftovers
from bridges.kafka.transactions.pool import TransactionalClients
from gateway.errors import AmqpError
from gateway.tasks import DaemonThreads, Supervisor, until

REFUSED = KafkaError(KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "not yours", True)


class Client:
    """A client that is initialised when the test lets it; `refusal`: what Kafka says then."""

    size = 0

    def __init__(self, identifier: str, refusal: KafkaError | None) -> None:
        self.identifier, self._refusal = identifier, refusal
        self.fatal = self.closed = self.initialised = False
        self.left = Leftovers()

    async def initialise(self) -> None:
        if self._refusal is not None:
            self.fatal = self._refusal.fatal()
            raise KafkaException(self._refusal)
        self.left, self.initialised = Leftovers(), True

    def close(self) -> None:
        self.closed = True


def number_of(client: Client) -> str:
    return client.identifier.rpartition("-")[2]


class Pool:
    """A pool without Kafka; `refused`: the numbers of clients that Kafka refuses, with its errors."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, most: int, supervisor: Supervisor) -> None:
        self.made: list[Client] = []
        self.refused: dict[str, KafkaError] = {}
        cluster: Any = SimpleNamespace(name="main", supervisor=supervisor, loop=asyncio.get_running_loop())
        monkeypatch.setattr(pool, "KafkaBranch", lambda _, transaction, client: client)
        monkeypatch.setattr(TransactionalClients, "_client", lambda _, identifier: self._make(identifier))
        self.clients = TransactionalClients(cluster, Any, most)  # type: ignore[arg-type]
        self.clients.name("gw", 60_000)

    def _make(self, identifier: str) -> Client:
        number = identifier.rpartition("-")[2]
        self.made.append(client := Client(identifier, self.refused.get(number)))
        client.left = self.clients._left.pop(identifier, Leftovers())
        return client

    async def transaction(self) -> str:
        """Begin and end one; return the number of its client."""
        client: Any = self.begin()
        await asyncio.sleep(0)
        self.clients.give_back(client)
        return number_of(client)

    def begin(self) -> Any:
        return self.clients.begin(Any)  # type: ignore[arg-type]


@pytest.fixture
async def supervisor() -> AsyncIterator[Supervisor]:
    supervisor = Supervisor(lambda *_: None)
    yield supervisor
    await supervisor.close()


async def test_clients_take_turns(monkeypatch: pytest.MonkeyPatch, supervisor: Supervisor) -> None:
    """A transaction that follows another at once gets the client that has rested, and no third one is made."""
    tried = Pool(monkeypatch, 20, supervisor)
    assert [await tried.transaction() for _ in range(6)] == ["0", "1", "0", "1", "0", "1"]
    assert len(tried.made) == 2


async def test_there_is_a_spare_beside_those_in_use(monkeypatch: pytest.MonkeyPatch, supervisor: Supervisor) -> None:
    tried = Pool(monkeypatch, 3, supervisor)
    used = [number_of(tried.begin()) for _ in range(3)]
    assert used == ["0", "1", "2"]
    with pytest.raises(AmqpError, match="3 transactions on event logs are open"):
        tried.begin()
    assert len(tried.made) == 3


async def test_a_single_client_has_no_spare(monkeypatch: pytest.MonkeyPatch, supervisor: Supervisor) -> None:
    tried = Pool(monkeypatch, 1, supervisor)
    assert [await tried.transaction() for _ in range(3)] == ["0", "0", "0"]
    assert len(tried.made) == 1


async def test_a_spare_that_kafka_refuses_is_not_tried_again(
    monkeypatch: pytest.MonkeyPatch, supervisor: Supervisor
) -> None:
    """Where rights allow a single id, one transaction after the other goes on as it did."""
    tried = Pool(monkeypatch, 20, supervisor)
    tried.refused["1"] = REFUSED
    assert [await tried.transaction() for _ in range(4)] == ["0", "0", "0", "0"]
    assert [each.closed for each in tried.made] == [False, True]


async def test_a_spare_stays_that_kafka_has_not_answered(
    monkeypatch: pytest.MonkeyPatch, supervisor: Supervisor
) -> None:
    tried = Pool(monkeypatch, 20, supervisor)
    tried.refused["1"] = KafkaError(KafkaError._TIMED_OUT, "no answer", False, True)
    assert [await tried.transaction() for _ in range(4)] == ["0", "1", "0", "1"]
    assert not any(each.closed for each in tried.made)


async def test_clients_whose_ids_another_process_uses_are_replaced(
    monkeypatch: pytest.MonkeyPatch, supervisor: Supervisor
) -> None:
    tried = Pool(monkeypatch, 20, supervisor)
    client = tried.begin()
    client.fatal = True
    tried.clients.fenced()
    tried.clients.give_back(client)
    await tried.transaction()
    assert [each.closed for each in tried.made] == [True, True, False, False]


LEFT = Leftovers(frozenset({"topic"}))


async def test_a_client_that_has_left_something_open_is_replaced_at_once(
    monkeypatch: pytest.MonkeyPatch, supervisor: Supervisor
) -> None:
    """Nobody waits for the next transaction; and no other client than one with its id can end what it has left."""
    tried = Pool(monkeypatch, 20, supervisor)
    failed = tried.begin()
    failed.fatal, failed.left = True, LEFT
    tried.clients.give_back(failed)
    await until(lambda: tried.made[-1].initialised and len(tried.made) == 3, 10)
    await asyncio.sleep(0)
    assert [number_of(each) for each in tried.made] == ["0", "1", "0"]
    assert [await tried.transaction() for _ in range(3)] == ["1", "0", "1"]
    assert not tried.clients._left


async def test_a_client_is_replaced_until_kafka_answers(
    monkeypatch: pytest.MonkeyPatch, supervisor: Supervisor
) -> None:
    """Transactions get other ones meanwhile, as long as there are any."""
    monkeypatch.setattr(pool, "_AGAIN", 0.01)
    tried = Pool(monkeypatch, 2, supervisor)
    failed = tried.begin()
    failed.fatal, failed.left = True, LEFT
    tried.refused["0"] = KafkaError(KafkaError._TRANSPORT, "no answer", True)
    tried.clients.give_back(failed)
    await until(lambda: len(tried.made) > 3, 10)
    assert all(each.closed for each in tried.made[2:-1])
    assert await tried.transaction() == "1"
    del tried.refused["0"]
    await until(lambda: tried.made[-1].initialised, 10)
    await asyncio.sleep(0)
    assert [await tried.transaction() for _ in range(2)] == ["1", "0"]
    assert not tried.clients._left


async def test_a_transaction_waits_for_its_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """A spare is taken while Kafka is asked for it: it is asked once."""
    calls: list[str] = []
    producer = SimpleNamespace(
        init_transactions=lambda _: calls.append("init"), begin_transaction=lambda: calls.append("begin")
    )
    outbox: Any = SimpleNamespace(
        client=producer, reports=lambda: (0, 0), waiting=lambda: 0, wakeups=lambda *_: SimpleNamespace()
    )
    monkeypatch.setattr("bridges.kafka.transactions.client.make_outbox", lambda *_: outbox)
    places: Any = None
    settings = {"transactional.id": "id", "transaction.timeout.ms": 500}
    client = TransactionalClient(settings, asyncio.get_running_loop(), DaemonThreads(2, "test"), places)
    listener: Any = SimpleNamespace(on_reports=lambda *_: None)
    await asyncio.gather(client.initialise(), client.initialise())
    client.begin(listener)
    assert calls == ["init", "begin"]


async def test_kafka_aborts_what_a_killed_gateway_has_left_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """`docs/guide/transactions.md` says how long readers of committed records may wait for that."""
    made: list[dict[str, Any]] = []
    monkeypatch.setattr(pool, "TransactionalClient", lambda settings, *_: made.append(settings))
    cluster: Any = SimpleNamespace(name="main", loop=asyncio.get_running_loop(), settings=dict)
    clients = TransactionalClients(cluster, Any, 1)  # type: ignore[arg-type]
    clients.name("gw", 60_000)
    clients._client("id")
    assert made[0]["transaction.timeout.ms"] == (60 + 15) * 1000
