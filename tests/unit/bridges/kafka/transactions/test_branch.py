"""Records of a transaction: those that come while others are in flight go to Kafka together."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from bridges.kafka.transactions import branch, records
from gateway.errors import INTERNAL_ERROR, TRANSACTION_ROLLBACK
from gateway.tasks import until
from gateway.transactions.posts import Post
from tests.support.transactions.branches import BranchClient, BranchWorld

FIRST = records._FIRST


@pytest.fixture(autouse=True)
def _none_is_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "_FIRST", 0)


async def test_messages_wait_for_the_reports_of_those_before_them() -> None:
    world = BranchWorld()
    world.post(1, 2)
    world.post_one(3)
    assert world.client.calls == []
    await world.begun()
    assert world.client.calls == [[b"1", b"2"], [b"3"]]
    world.post(4)
    world.post_one(5)
    world.branch.commit(world.answers.append)
    world.branch.on_reports(2, 0)
    assert (len(world.client.calls), world.settled) == (2, ["1 accepted", "2 accepted"])
    world.branch.on_reports(1, 0)
    assert world.client.calls[2:] == [[b"4"], [b"5"]]
    world.branch.on_reports(1, 0)
    await asyncio.sleep(0)
    assert world.answers == []
    world.branch.on_reports(1, 0)
    await until(lambda: world.answers == [None], 10)
    assert world.answers == [None]
    assert world.settled == [f"{number} accepted" for number in range(1, 6)]
    assert world.client.log == ["commit"]


async def test_a_few_messages_wait_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even for a task, if the client has been used before: they are parts of one read."""
    monkeypatch.setattr(records, "_FIRST", FIRST)
    world = BranchWorld(client=BranchClient(initialised=True))
    world.post(*range(200))
    world.post_one(200)
    world.post(*range(201, 256))
    assert sum(map(len, world.client.calls)) == 256
    assert world.tasks == []
    world.post(256)
    assert len(world.client.calls) == 3
    world.branch.on_reports(255, 0)
    world.post(257)  # behind the one that waits
    assert len(world.client.calls) == 3
    world.branch.on_reports(1, 0)
    assert world.client.calls[3:] == [[b"256"], [b"257"]]
    world.post(258)
    assert len(world.client.calls) == 5


async def test_a_client_that_does_not_begin_at_once_says_why_later() -> None:
    client = BranchClient(initialised=True)
    client.begin_error = KafkaException(KafkaError(KafkaError._STATE))
    world = BranchWorld(client=client)
    assert world.transaction.failure is None
    world.post(1)
    await world.begun()
    assert world.transaction.failure is not None


async def test_one_message_at_a_time_does_not_wait() -> None:
    world = BranchWorld()
    await world.begun()
    for number in range(3):
        world.post_one(number)
        assert len(world.client.calls) == number + 1
        world.branch.on_reports(1, 0)


async def test_messages_do_not_wait_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "_WAIT", 0.001)
    world = BranchWorld()
    await world.begun()
    world.post(1)
    world.post(2)
    assert len(world.client.calls) == 1
    await until(lambda: len(world.client.calls) == 2, 10)
    assert len(world.client.calls) == 2
    world.branch.on_reports(2, 0)
    assert world.settled == ["1 accepted", "2 accepted"]


async def test_a_rollback_releases_those_that_wait() -> None:
    world = BranchWorld()
    await world.begun()
    world.post(1)
    world.post(2, 3)
    world.post_one(4)
    world.branch.roll_back(world.answers.append)
    await until(lambda: len(world.settled) == 3, 10)
    assert len(world.settled) == 3
    world.branch.on_reports(1, 0)
    await until(lambda: world.answers == [None], 10)
    assert world.answers == [None]
    assert world.settled == ["2 released", "3 released", "4 released", "1 accepted"]
    assert (world.client.calls, world.client.log) == ([[b"1"]], ["abort"])


async def test_after_a_failure_those_that_waited_are_released() -> None:
    world = BranchWorld()
    await world.begun()
    world.post(1)
    world.post(2)
    world.branch.on_reports(1, -195)
    world.branch.on_reports(1, 0)
    assert world.settled == ["1 released", "2 released"]
    assert world.transaction.failure is not None


@pytest.mark.parametrize("fail", [False, True])
@pytest.mark.parametrize("code", [KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError._TIMED_OUT])
@pytest.mark.parametrize("when", ["report", "abort", "commit"])
async def test_the_answer_names_another_process_with_the_same_identifier(when: str, code: int, fail: bool) -> None:
    """Whenever that shows; a report may tell nothing of it, so that Kafka seemed to be away."""
    world = BranchWorld()
    error = KafkaException(KafkaError(code, fatal=True))
    resource: Any = SimpleNamespace(begin=lambda _: world.branch)
    world.transaction.enlist(resource)
    await world.begun()
    if when != "commit":
        world.client.abort_error = error
        world.post(1)
        world.branch.on_reports(1, code if when == "report" else KafkaError._PURGE_QUEUE)
    else:
        world.client.commit_error = error
    world.transaction.discharge(fail=fail, then=world.answers.append)
    await until(lambda: bool(world.answers), 10)
    (answer,) = world.answers
    if fail:
        assert answer is None
    else:
        assert answer is not None
        assert answer.condition == TRANSACTION_ROLLBACK
        named = "another process has taken over the transactional.id" in answer.description
        assert named is (code != KafkaError._TIMED_OUT)


@pytest.mark.parametrize("late", [False, True])
async def test_nobody_knows_what_a_commit_has_done_that_is_refused_late(
    monkeypatch: pytest.MonkeyPatch, late: bool
) -> None:
    """A broker that stood still did the first request, and fenced off the client for its time-out before the next."""
    monkeypatch.setattr(branch, "_PROMPT", -1.0 if late else 60.0)
    world = BranchWorld()
    resource: Any = SimpleNamespace(begin=lambda _: world.branch)
    world.transaction.enlist(resource)
    await world.begun()
    world.client.commit_error = KafkaException(KafkaError(KafkaError._FENCED, fatal=True))
    world.transaction.discharge(fail=False, then=world.answers.append)
    await until(lambda: bool(world.answers), 10)
    (answer,) = world.answers
    assert answer is not None
    assert answer.condition == (INTERNAL_ERROR if late else TRANSACTION_ROLLBACK)
    assert world.client.log == (["commit"] if late else ["commit", "abort"])


async def test_a_transaction_that_kafka_does_not_begin_is_rolled_back() -> None:
    """Also if its discharge has come before: nobody need doubt what has become of it."""
    world = BranchWorld()
    world.client.begin_error = KafkaException(KafkaError(KafkaError._TIMED_OUT))
    resource: Any = SimpleNamespace(begin=lambda _: world.branch)
    world.transaction.enlist(resource)
    world.transaction.discharge(fail=False, then=world.answers.append)
    world.client.may_begin.set()
    await until(lambda: bool(world.answers), 10)
    (refused,) = world.answers
    assert refused is not None
    assert (refused.condition, world.client.log) == (TRANSACTION_ROLLBACK, ["abort"])


async def test_the_connection_counts_what_waits_after_the_end_of_its_link() -> None:
    """Once, and until Kafka's client has it, or it is released."""
    for released in (False, True):
        world = BranchWorld()
        link: Any = world
        world.post(1, 2)
        single = Post(world.transaction, link, 3, settled=True)
        world.branch.produce("topic", -1, b"key", b"value", [("name", b"text")], single)
        world.branch.link_ended()
        assert world.unfinished == 0
        world.open = False
        for _ in range(2):
            world.branch.link_ended()
            assert world.unfinished == len(b"1" + b"2" + b"key" + b"value" + b"text")
        if released:
            world.branch.roll_back(world.answers.append)
            await asyncio.sleep(0)
        else:
            await world.begun()
        assert world.unfinished == 0
