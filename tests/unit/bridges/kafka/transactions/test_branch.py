"""Records of a transaction: those that come while others are in flight go to Kafka together."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from bridges.kafka.transactions import records
from bridges.kafka.transactions.branch import KafkaBranch
from gateway.errors import TRANSACTION_ROLLBACK, AmqpError
from gateway.tasks import until
from gateway.transactions.posts import Posts
from gateway.transactions.transaction import Transaction


class Client:
    """Keeps what it is given in calls of one or many; reports and commits when the test does."""

    def __init__(self) -> None:
        self.calls: list[list[bytes]] = []
        self.log: list[str] = []
        self.identifier, self.fatal = "client", False
        self.commit_error: KafkaException | None = None
        self.abort_error: KafkaException | None = None
        self.may_begin = asyncio.Event()

    async def begin(self, listener: object) -> None:
        await self.may_begin.wait()

    async def commit(self) -> None:
        self.log.append("commit")
        if self.commit_error is not None:
            raise self.commit_error

    async def abort(self) -> None:
        self.log.append("abort")
        if self.abort_error is not None:
            raise self.abort_error

    def usual(self, messages: list[Any], start: int, rules: int) -> int:
        return len(messages)

    def put_messages(self, topic: str, partition: int, messages: list[Any], start: int, rules: int) -> int:
        self.calls.append([data for _, data, _ in messages[start:]])
        return len(messages)

    def produce(self, topic: str, partition: int, key: object, value: bytes, headers: object) -> None:
        self.calls.append([value])


class World:
    """A branch, the link of its messages, and the client."""

    def __init__(self) -> None:
        self.client, self.settled, self.answers = Client(), list[str](), list[AmqpError | None]()
        self.tasks: list[asyncio.Task[None]] = []
        loop = asyncio.get_running_loop()
        supervisor = SimpleNamespace(start=lambda step, _: self.tasks.append(loop.create_task(step)))
        cluster = SimpleNamespace(supervisor=supervisor, loop=loop, name="main")
        pool: Any = SimpleNamespace(
            cluster=cluster, counters=SimpleNamespace(accepted=0), give_back=lambda _: None, fenced=lambda: None
        )
        self.transaction = Transaction(b"t", lambda: None, lambda: None)
        client: Any = self.client
        self.branch = KafkaBranch(pool, self.transaction, client)

    async def begun(self) -> None:
        self.client.may_begin.set()
        await self.tasks[0]

    def settle_all(self, deliveries: list[int], outcome: Any) -> None:
        self.settled += [f"{each} {outcome.outcome.name}" for each in deliveries]

    def grant(self, credit: int) -> None:
        """The sender may go on."""

    def post(self, *numbers: int) -> None:
        link: Any = self
        posts = Posts(self.transaction, link, [(each, b"%d" % each, False) for each in numbers])
        assert self.branch.produce_messages("topic", -1, posts, 0, 0) == len(numbers)

    def post_one(self, number: int) -> None:
        post: Any = SimpleNamespace(
            accept=lambda: self.settled.append(f"{number} accepted"),
            release=lambda: self.settled.append(f"{number} released"),
        )
        self.branch.produce("topic", -1, None, b"%d" % number, None, post)


async def test_messages_wait_for_the_reports_of_those_before_them() -> None:
    world = World()
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


async def test_one_message_at_a_time_does_not_wait() -> None:
    world = World()
    await world.begun()
    for number in range(3):
        world.post_one(number)
        assert len(world.client.calls) == number + 1
        world.branch.on_reports(1, 0)


async def test_messages_do_not_wait_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "_WAIT", 0.001)
    world = World()
    await world.begun()
    world.post(1)
    world.post(2)
    assert len(world.client.calls) == 1
    await until(lambda: len(world.client.calls) == 2, 10)
    assert len(world.client.calls) == 2
    world.branch.on_reports(2, 0)
    assert world.settled == ["1 accepted", "2 accepted"]


async def test_a_rollback_releases_those_that_wait() -> None:
    world = World()
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
    world = World()
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
    world = World()
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
        named = "another process uses the same transactional.id" in answer.description
        assert named is (code != KafkaError._TIMED_OUT)
