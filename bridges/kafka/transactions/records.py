"""The records of one transaction: those that wait, and those that Kafka has not reported yet (KM-14).

Handed over one by one, records would go to Kafka in requests of a few, each of which costs as much as one of many, and
librdkafka's thread would poll without a pause for the answer to each (decision 100). So messages wait while others are
in flight, but for the first ones of a transaction, and until the client has begun it. They have no outcome meanwhile:
the account of their connection counts their bytes, as `HeldBytes.received` while their link lasts, and then as
`unfinished` (`keep`).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from confluent_kafka import KafkaException

from bridges.kafka.common import errors
from bridges.kafka.produce._produce import record_of
from bridges.kafka.produce.client import Header
from bridges.kafka.transactions.client import TransactionalClient
from gateway.amqp.link.outcomes import Rejected
from gateway.errors import RESOURCE_LIMIT_EXCEEDED, AmqpError

if TYPE_CHECKING:
    from gateway.amqp.link.transactions import PostedMessage, PostedMessages, UnansweredMessages

_WAIT: Final = 0.02
"""Seconds that messages wait, at most, for the reports of those before them."""
_FIRST: Final = 256
"""The messages of a transaction that wait for no others: they may be all, parts of one read and of one request."""
Refuse: TypeAlias = "Callable[[PostedMessage, AmqpError], None]"


class PostedRecord(NamedTuple):
    """A message and its record."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: list[Header] | None
    post: PostedMessage

    @property
    def origin(self) -> PostedMessage:
        """What knows the link of the message."""
        return self.post

    @property
    def size(self) -> int:
        """Bytes of the record, roughly."""
        return len(self.key or b"") + len(self.value or b"") + sum(len(each[1] or b"") for each in self.headers or ())


class PostedRun(NamedTuple):
    """Messages of which C makes the records."""

    topic: str
    partition: int
    posts: PostedMessages
    start: int
    end: int
    rules: int

    @property
    def origin(self) -> PostedMessages:
        """What knows the link of the messages."""
        return self.posts

    @property
    def size(self) -> int:
        """Bytes of the messages."""
        return sum(len(data) for _, data, _ in self.posts.messages[self.start : self.end])


class _UnansweredPost:
    """A message that gets its outcome alone (`UnansweredMessages`)."""

    __slots__ = ("_post", "left")

    def __init__(self, post: PostedMessage) -> None:
        self._post: Final = post
        self.left = 1

    def join(self, later: UnansweredMessages) -> bool:
        """See `UnansweredMessages`, as everything below."""
        return False

    def accept(self, count: int) -> None:
        self.left = 0
        self._post.accept()

    def release(self, count: int) -> None:
        self.left = 0
        self._post.release()


class TransactionRecords:
    """The records of one transaction, in the order of their messages; used from the event loop only."""

    def __init__(self, client: TransactionalClient, loop: asyncio.AbstractEventLoop, refuse: Refuse) -> None:
        """`refuse` gets each message that librdkafka does not take, and why."""
        self._client: Final = client
        self._loop: Final = loop
        self._refuse: Final = refuse
        self._begun = False
        self._waiting: list[PostedRecord | PostedRun] = []
        self._kept: Final[dict[int, tuple[PostedRecord | PostedRun, int]]] = {}
        """Those of them whose link has ended, by `id`, and the bytes that are counted for them."""
        self._timer: asyncio.TimerHandle | None = None
        self.in_flight: Final[deque[UnansweredMessages]] = deque()
        """Messages whose records Kafka has not reported yet, in order."""
        self._first = _FIRST
        """How many may still go without a wait."""

    @property
    def settled(self) -> bool:
        """Whether the client has begun, and nothing waits or is in flight."""
        return self._begun and not self.in_flight

    @property
    def _ready(self) -> bool:
        return self.settled or (self._begun and self._first > 0 and not self._waiting)

    def begin(self) -> None:
        """The client has begun its transaction: hand over what has waited."""
        self._begun = True
        self._put_waiting()

    def add(self, record: PostedRecord) -> None:
        """Write a record; its message gets its outcome when Kafka has it."""
        if self._ready:
            self._put(record)
        else:
            self._wait(record)

    def add_messages(self, topic: str, partition: int, posts: PostedMessages, at: int, rules: int) -> int:
        """Write messages from `at` on while C makes their records; returns the next one."""
        if self._ready:
            end = self._client.put_messages(topic, partition, posts.messages, at, rules)
            if end > at:
                self._await(posts.unanswered(at, end))
        elif (end := self._client.usual(posts.messages, at, rules)) > at:
            self._wait(PostedRun(topic, partition, posts, at, end, rules))
        return end

    def answer(self, count: int, *, written: bool) -> None:
        """Give the first `count` messages their outcomes, and hand over what has waited for the last of them.

        Reports come in the order of each partition only. It does not matter that the first messages get the first
        outcomes: they hold if the transaction is committed, and then all records are written.
        """
        in_flight = self.in_flight
        while count > 0 and in_flight:
            first = in_flight[0]
            taken = min(count, first.left)
            (first.accept if written else first.release)(taken)
            count -= taken
            if not first.left:
                in_flight.popleft()
        if not in_flight:
            self._put_waiting()

    def release_waiting(self) -> None:
        """Release the messages that wait: their transaction is rolled back."""
        for each in self._take_waiting():
            if isinstance(each, PostedRecord):
                each.post.release()
            else:
                each.posts.unanswered(each.start, each.end).release(each.end - each.start)

    def keep(self) -> None:
        """Account for messages that wait although their link has ended: nothing else counts them any more."""
        for each in self._waiting:
            if not each.origin.attached and id(each) not in self._kept:
                self._kept[id(each)] = each, each.size
                each.origin.hold(each.size)

    def _wait(self, messages: PostedRecord | PostedRun) -> None:
        if self._timer is None and self._begun:
            self._timer = self._loop.call_later(_WAIT, self._put_waiting)
        self._waiting.append(messages)

    def _take_waiting(self) -> list[PostedRecord | PostedRun]:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for each, size in self._kept.values():
            each.origin.hold(-size)
        self._kept.clear()
        waiting, self._waiting = self._waiting, []
        return waiting

    def _put_waiting(self) -> None:
        for each in self._take_waiting():
            if isinstance(each, PostedRecord):
                self._put(each)
            else:
                self._put_run(each)

    def _await(self, messages: UnansweredMessages) -> None:
        """librdkafka has taken the records of messages."""
        self._first -= messages.left
        if not (self.in_flight and self.in_flight[-1].join(messages)):
            self.in_flight.append(messages)

    def _put_run(self, run: PostedRun) -> None:
        """Write messages that have waited; one that librdkafka does not take is refused."""
        posts, at = run.posts, run.start
        messages = posts.messages if run.end == len(posts.messages) else posts.messages[: run.end]
        while at < run.end:
            end = self._client.put_messages(run.topic, run.partition, messages, at, run.rules)
            if end > at:
                self._await(posts.unanswered(at, end))
            if end < run.end and (made := record_of(messages[end][1], run.rules)) is not ...:
                self._put(PostedRecord(run.topic, run.partition, *made, posts.single(end)))
            at = end + 1

    def _put(self, record: PostedRecord) -> None:
        post = record.post
        try:
            self._client.produce(*record[:5])
        except BufferError:
            self._refuse(post, AmqpError(RESOURCE_LIMIT_EXCEEDED, "Kafka takes messages too slowly; send it again"))
        except KafkaException as error:
            outcome = errors.refused(errors.cause_of(error))
            known = outcome.error if isinstance(outcome, Rejected) else None
            self._refuse(post, known or errors.unreachable())
        else:
            self._await(_UnansweredPost(post))
