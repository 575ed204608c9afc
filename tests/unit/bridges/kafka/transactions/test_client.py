"""How long the calls of a transactional client may take (decision 69)."""

from __future__ import annotations

import asyncio
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from bridges.kafka.transactions import client
from bridges.kafka.transactions.client import TransactionalClient
from gateway.tasks import DaemonThreads, until

NOWHERE: Any = None
"""Nothing was left open: nobody is asked where."""


class Clock:
    """The running loop with a clock that can be put forward: a busy machine has no part in what a test measures."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.skipped = 0.0

    def time(self) -> float:
        return self._loop.time() + self.skipped

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)


class Producer:
    """A client whose cluster is silent: a call takes its time limit; `deaf`: it does not keep it."""

    def __init__(self, deaf: bool, clock: Clock) -> None:
        self.limits: list[float] = []
        self._deaf, self._never, self._clock = deaf, threading.Event(), clock

    def commit_transaction(self, seconds: float) -> None:
        self.limits.append(seconds)
        if self._deaf:
            self._never.wait()
        self._clock.skipped += seconds
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "no answer", False, True))

    abort_transaction = commit_transaction

    def end(self) -> None:
        self._never.set()


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_CALL", 0.2)
    monkeypatch.setattr(client, "_PATIENCE", 0.3)


def made(monkeypatch: pytest.MonkeyPatch, *, deaf: bool, timeout_ms: int = 500) -> tuple[TransactionalClient, Producer]:
    clock: Any = Clock()
    producer = Producer(deaf, clock)
    outbox: Any = SimpleNamespace(
        client=producer, reports=lambda: (0, 0), waiting=lambda: 0, wakeups=lambda *_: SimpleNamespace()
    )
    monkeypatch.setattr(client, "make_outbox", lambda *_: outbox)
    settings = {"transactional.id": "id", "transaction.timeout.ms": timeout_ms}
    return TransactionalClient(settings, clock, DaemonThreads(1, "test"), NOWHERE), producer


@pytest.mark.parametrize(("call", "patience"), [("commit", 50), ("abort", 30)])
async def test_a_call_is_repeated_until_its_time_is_over(
    monkeypatch: pytest.MonkeyPatch, call: str, patience: float
) -> None:
    """The last one has what is left: nobody waits for a whole call more."""
    monkeypatch.setattr(client, "_CALL", 20)
    monkeypatch.setattr(client, "_PATIENCE", 30)
    tried, producer = made(monkeypatch, deaf=False, timeout_ms=50_000)
    start = time.monotonic()
    with pytest.raises(KafkaException):
        await getattr(tried, call)()
    assert producer.limits[0] == 20
    assert patience - (time.monotonic() - start) <= sum(producer.limits) <= patience + client._LEAST
    assert not tried.fatal


@pytest.mark.parametrize(("call", "patience"), [("commit", 0.5), ("abort", 0.3)])
async def test_a_call_that_does_not_return_is_given_up(
    monkeypatch: pytest.MonkeyPatch, call: str, patience: float
) -> None:
    tried, producer = made(monkeypatch, deaf=True)
    start = time.monotonic()
    with pytest.raises(KafkaException):
        await getattr(tried, call)()
    assert patience + 0.2 <= time.monotonic() - start
    assert tried.fatal
    assert len(producer.limits) == 1
    with pytest.raises(KafkaException):  # at once: it has no other thread
        await tried.abort()
    assert len(producer.limits) == 1
    producer.end()


async def test_reports_of_many_records_are_taken_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a few at once: their sender waits for them."""
    looks: list[int] = []
    outbox: Any = SimpleNamespace(client=Producer(False, Clock()), put=lambda *_: None)
    outbox.reports = lambda: looks.append(1) or (0, 0)
    outbox.wakeups = lambda _, wake: SimpleNamespace(wake=wake, expect=lambda: None)
    monkeypatch.setattr(client, "make_outbox", lambda *_: outbox)
    monkeypatch.setattr(client, "_FEW", 1)
    tried = TransactionalClient({}, asyncio.get_running_loop(), DaemonThreads(1, "test"), NOWHERE)
    wakeups: Any = tried._wakeups
    tried.produce("topic", 0, None, b"", None)
    wakeups.wake()
    assert len(looks) == 1
    tried.produce("topic", 0, None, b"", None)
    for _ in range(2):
        wakeups.wake()
    assert len(looks) == 1
    await until(lambda: len(looks) == 2, 10)
    await asyncio.sleep(0)
    assert len(looks) == 2
