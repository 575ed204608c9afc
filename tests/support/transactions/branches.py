"""The branch of a Kafka cluster in one transaction, without Kafka: a client that does what the test says."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from confluent_kafka import KafkaException

from bridges.kafka.common.ahead import StoredPosition
from bridges.kafka.transactions.branch import KafkaBranch
from bridges.kafka.transactions.turns import CommitTurns
from gateway.errors import AmqpError
from gateway.transactions.posts import Posts
from gateway.transactions.transaction import Transaction


class BranchClient:
    """Keeps what it is given in calls of one or many; reports and commits when the test does."""

    def __init__(self, *, initialised: bool = False) -> None:
        self.initialised = initialised
        self.calls: list[list[bytes]] = []
        self.log: list[str] = []
        self.identifier, self.fatal = "client", False
        self.begin_error: KafkaException | None = None
        self.commit_error: KafkaException | None = None
        self.abort_error: KafkaException | None = None
        self.may_begin = asyncio.Event()

    async def initialise(self) -> None:
        await self.may_begin.wait()

    def begin(self, listener: object) -> None:
        if self.begin_error is not None:
            raise self.begin_error

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

    async def send_offsets(self, group: str, topic: str, positions: dict[int, StoredPosition]) -> None:
        self.log.append(f"{positions[0].offset} {[list(each) for each in positions[0].ahead]}")


class BranchWorld:
    """A branch, the link of its messages, and the client."""

    unfinished, open, behind = 0, True, None
    """As a connection, and as a link."""

    def __init__(self, turns: CommitTurns | None = None, client: BranchClient | None = None) -> None:
        self.engine = self
        self.client, self.settled, self.answers = client or BranchClient(), list[str](), list[AmqpError | None]()
        self.tasks: list[asyncio.Task[None]] = []
        loop = asyncio.get_running_loop()
        supervisor = SimpleNamespace(start=lambda step, _: self.tasks.append(loop.create_task(step)))
        cluster = SimpleNamespace(supervisor=supervisor, loop=loop, name="main")
        supervisor.attempt = lambda step, _: step()
        self.fenced = 0
        pool: Any = SimpleNamespace(cluster=cluster, counters=SimpleNamespace(accepted=0), give_back=lambda _: None)
        pool.fenced, pool.turns = self._fence, turns or CommitTurns()
        self.transaction = Transaction(b"t", lambda: None, lambda: None, soon=loop.call_soon)
        used: Any = self.client
        self.branch = KafkaBranch(pool, self.transaction, used)

    def _fence(self) -> None:
        self.fenced += 1

    def touch(self) -> None:
        """What it holds has changed."""

    def tag(self, delivery: int) -> bytes:
        return b"%d" % delivery

    def settle(self, delivery: int, outcome: object) -> None:
        """A settled message has gone."""

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
