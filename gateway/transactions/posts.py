"""Messages that were posted in a transaction (AMQP 1.0 part 4, 4.4.1): each gets one outcome, alone or with others."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from gateway.amqp.link.outcomes import ACCEPTED, RELEASED, SETTLED, Outcome, Provisional, Rejected
from gateway.amqp.link.transactions import PostedMessage, TransactedLink, UnansweredMessages, WaitingPost
from gateway.errors import (
    CONNECTION_FORCED,
    NOT_IMPLEMENTED,
    RESOURCE_LIMIT_EXCEEDED,
    TRANSACTION_UNKNOWN,
    AmqpError,
    Fault,
)

if TYPE_CHECKING:
    from gateway.transactions.transaction import Transaction

OnPost: TypeAlias = Callable[[PostedMessage, bytes], None]

_TOO_MUCH: Final = (
    "this connection has too many messages in transactions or without an outcome (limits.memory, limits.user_memory, "
    "gateway.memory): discharge its transactions"
)
_ENDING: Final = "the gateway is shutting down and takes no more messages: repeat the transaction on a new connection"


class Post:
    """A message that was posted in a transaction (4.4.1); it gets one outcome, which holds if that is committed."""

    __slots__ = ("_delivery", "_link", "behind", "settled", "tag", "transaction")

    def __init__(self, transaction: Transaction, link: TransactedLink, delivery: int, *, settled: bool) -> None:
        self.transaction: Final = transaction
        self.settled: Final = settled
        self.behind = link.behind
        self._link: Final = link
        self._delivery: Final = delivery
        self.tag: Final = link.tag(delivery)

    def pass_to(self, on_post: OnPost, data: bytes) -> None:
        """Pass the message on when its turn has come, and refuse it if that raises AmqpError."""
        try:
            self.transaction.check(self._link.scope)
            if self._link.engine.refusing:
                raise self._refusal()
            if (order := self.transaction.order).waits:
                order.add(QueuedPost(self, on_post, data), self._link.scope)
            else:
                on_post(self, data)
        except AmqpError as error:
            self.refuse(error)

    def _refusal(self) -> AmqpError:
        """Why the connection takes no messages now."""
        if self._link.engine.ending:
            return AmqpError(CONNECTION_FORCED, _ENDING, fault=Fault.GATEWAY, scope=self._link.scope)
        return AmqpError(RESOURCE_LIMIT_EXCEEDED, _TOO_MUCH, scope=self._link.scope)

    def begin(self, on_post: OnPost, data: bytes) -> None:
        """`pass_to` for a message whose turn has come; there was room for it when it came."""
        try:
            self.transaction.check(self._link.scope)
            on_post(self, data)
        except AmqpError as error:
            self.refuse(error)

    @property
    def attached(self) -> bool:
        """See `PostedMessage`."""
        return self._link.open

    def hold(self, size: int) -> None:
        """Account for so many bytes more (or fewer): they are those of a message that is not finished."""
        _hold(self._link, size)

    def accept(self) -> None:
        """The resource has the message, until the end of the transaction."""
        self._settle(ACCEPTED)
        self._link.grant(1)

    def release(self) -> None:
        """The resource has not taken the message; its transaction can only be rolled back."""
        self._settle(RELEASED)
        self._link.grant(1)

    def refuse(self, error: AmqpError) -> None:
        """The message is refused: by an outcome if its sender can get one, else the transaction fails (AT 2.2.2)."""
        link = self._link
        link.message_refused(error)
        shown = error.of(self.behind).told_to(link.scope).tagged(self.tag, link.scope)
        if not self.settled and link.rejects and link.open:
            if _temporary(error):
                self.transaction.fail(shown)
            self._settle(Rejected(shown))
            link.grant(1)
            return
        if shown.condition != TRANSACTION_UNKNOWN:
            self.transaction.fail(shown)
        if self.settled:
            self._settle(SETTLED)
            link.grant(1)
        else:
            link.detach(shown)

    def _settle(self, outcome: Outcome) -> None:
        if self.settled:
            self._link.settle(self._delivery, SETTLED)
        else:
            kept = self.transaction.accepted
            provisional = kept if outcome is ACCEPTED else Provisional(self.transaction.txn_id, outcome)
            self._link.settle(self._delivery, provisional)


class QueuedPost(WaitingPost):
    """A message that waits for its turn (`order.QueuedWork`)."""

    def __init__(self, post: Post, on_post: OnPost, data: bytes) -> None:
        super().__init__(post, data)
        self._own: Final = post
        self._on_post: Final = on_post

    def begin(self) -> None:
        """See `QueuedWork`."""
        self.taken()
        self._own.begin(self._on_post, self.data)


class Posts:
    """Messages of one link that were posted in one transaction, unsettled, in order."""

    __slots__ = ("_link", "messages", "transaction")

    def __init__(self, transaction: Transaction, link: TransactedLink, messages: list[tuple[int, bytes, bool]]) -> None:
        self.transaction: Final = transaction
        self.messages: Final = messages
        self._link: Final = link

    def one_by_one(self, on_post: OnPost) -> None:
        """See `PostedMessages`, as everything below."""
        at = 0
        while at < len(self.messages) and self.post(at, on_post):
            at += 1

    @property
    def attached(self) -> bool:
        return self._link.open

    def hold(self, size: int) -> None:
        _hold(self._link, size)

    def single(self, index: int) -> Post:
        return Post(self.transaction, self._link, self.messages[index][0], settled=False)

    def post(self, index: int, on_post: OnPost) -> bool:
        self.single(index).pass_to(on_post, self.messages[index][1])
        return self._link.open

    def unanswered(self, start: int, end: int) -> UnansweredPosts:
        return UnansweredPosts(self.transaction, self._link, [each for each, _, _ in self.messages[start:end]])


class UnansweredPosts:
    """Messages of one link and one transaction that have no outcome yet (`UnansweredMessages`)."""

    __slots__ = ("_deliveries", "_link", "_transaction")

    def __init__(self, transaction: Transaction, link: TransactedLink, deliveries: list[int]) -> None:
        self._transaction: Final = transaction
        self._link: Final = link
        self._deliveries: Final = deliveries

    @property
    def left(self) -> int:
        """See `UnansweredMessages`, as everything below."""
        return len(self._deliveries)

    def join(self, later: UnansweredMessages) -> bool:
        if not isinstance(later, UnansweredPosts) or later._link is not self._link:
            return False
        if later._transaction is not self._transaction:
            return False
        self._deliveries.extend(later._deliveries)
        return True

    def accept(self, count: int) -> None:
        self._settle(count, self._transaction.accepted)

    def release(self, count: int) -> None:
        self._settle(count, Provisional(self._transaction.txn_id, RELEASED))

    def _settle(self, count: int, outcome: Provisional) -> None:
        settled = self._deliveries[:count]
        del self._deliveries[:count]
        self._link.settle_all(settled, outcome)
        self._link.grant(len(settled))


def _temporary(error: AmqpError) -> bool:
    """Whether the message is in order: what it is for does not answer, or a limit is reached.

    A client that sends without waiting for outcomes, as JMS does in transactions, would commit the others without it.
    """
    away = error.fault is Fault.BACKEND and error.condition != NOT_IMPLEMENTED
    return away or error.condition in (RESOURCE_LIMIT_EXCEEDED, CONNECTION_FORCED)


def _hold(link: TransactedLink, size: int) -> None:
    engine = link.engine
    engine.unfinished += size
    engine.touch()
