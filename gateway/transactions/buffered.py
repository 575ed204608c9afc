"""Messages to direct nodes in a transaction: they wait until it is committed, because nothing is stored there (KM-14).

The nodes get all messages when the transaction is committed, and none before. The discharge is answered when each
message has its outcome, so that it does not succeed for a message that no receiver has taken.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from gateway.amqp.link.outcomes import ACCEPTED, RELEASED, Outcome, Rejected
from gateway.amqp.link.transactions import Answer, Enlisting, PostedMessage
from gateway.errors import RESOURCE_LIMIT_EXCEEDED, TRANSACTION_ROLLBACK, AmqpError
from gateway.links.link import Delivery, MessageOrigin
from gateway.links.link_context import LinkContext
from gateway.principal import Requester

MAX_MESSAGES: Final = 10_000
MAX_BYTES: Final = 16 * 2**20
"""Messages to direct nodes in one transaction, and their bytes."""
_BESIDE: Final = 512
"""Bytes that a waiting message needs beside its data, roughly."""


class BufferingNode(Protocol):
    """What waiting messages use of their node (`gateway.nodes.direct.node.DirectNode`)."""

    @property
    def attended(self) -> bool: ...
    def transfer(self, link: MessageOrigin, delivery: Delivery, data: bytes, settled: bool) -> None: ...


class DirectNodes:
    """The direct nodes of this gateway (`gateway.amqp.link.transactions.Resource`)."""

    title: Final = "addresses that store nothing"

    def begin(self, transaction: Enlisting) -> BufferedBranch:
        """See `Resource`."""
        return BufferedBranch()


DIRECT_NODES: Final = DirectNodes()


class BufferedBranch:
    """The messages of one transaction to direct nodes, in order (`gateway.amqp.link.transactions.Branch`)."""

    def __init__(self) -> None:
        self._messages: list[BufferedMessage] = []
        self._bytes = self._left = self._lost = 0
        """The size of the messages; how many have no outcome yet, and how many were not accepted."""
        self._then: Answer | None = None

    def hold(self, message: BufferedMessage) -> None:
        """Let a message wait, and accept it; raises AmqpError if there are too many."""
        if len(self._messages) >= MAX_MESSAGES or self._bytes + message.size > MAX_BYTES:
            limits = f"{MAX_MESSAGES} messages and {MAX_BYTES // 2**20} MiB"
            text = f"a transaction may have at most {limits} for addresses that store nothing: discharge it earlier"
            raise AmqpError(RESOURCE_LIMIT_EXCEEDED, text)
        self._bytes += message.size
        self._messages.append(message)
        message.post.hold(message.size)
        message.post.accept()

    def commit(self, then: Answer) -> None:
        """See `Branch`: pass the messages on, unless one of them has no receiver."""
        messages, self._messages = self._messages, []
        if not all(each.attended for each in messages):
            self._let_go(messages)
            text = "there is no receiver for a message of the transaction; none was passed on"
            then(AmqpError(TRANSACTION_ROLLBACK, text))
            return
        self._then, self._left = then, len(messages) + 1
        for each in messages:
            each.transfer(self._settled)
        self._settled(ACCEPTED)

    def _settled(self, outcome: Outcome) -> None:
        """A message has its outcome."""
        self._left -= 1
        self._lost += outcome is not ACCEPTED
        if self._left or self._then is None:
            return
        then, self._then = self._then, None
        text = f"{self._lost} messages of the transaction were not accepted by their receivers; all others were"
        then(AmqpError(TRANSACTION_ROLLBACK, text) if self._lost else None)

    def roll_back(self, then: Answer) -> None:
        """See `Branch`: nobody has seen the messages."""
        messages, self._messages = self._messages, []
        self._let_go(messages)
        then(None)

    @staticmethod
    def _let_go(messages: list[BufferedMessage]) -> None:
        for each in messages:
            each.post.hold(-each.size)


class BufferedMessage:
    """A message that waits for the end of its transaction; its node then sees it as the origin of the message."""

    open = rejects = True

    def __init__(self, node: BufferingNode, origin: MessageOrigin, post: PostedMessage, data: bytes) -> None:
        self.post: Final = post
        self.size: Final = len(data) + _BESIDE
        self.context: Final[LinkContext] = origin.context
        self.requester: Final[Requester] = origin.requester
        self.scope: Final = origin.scope
        self.behind: Final = origin.behind
        self._node: Final = node
        self._origin: Final = origin
        self._data: Final = data
        self._settled: Callable[[Outcome], None] | None = None

    @property
    def attended(self) -> bool:
        """Whether somebody receives at its node."""
        return self._node.attended

    def transfer(self, settled: Callable[[Outcome], None]) -> None:
        """Pass the message on; `settled` gets its outcome."""
        self._settled = settled
        self._node.transfer(self, self, self._data, False)

    # -- from the node (`MessageOrigin`)

    def settle(self, delivery: Delivery, outcome: Outcome) -> None:
        """The message has its outcome."""
        settled, self._settled = self._settled, None
        if settled is not None:
            self.post.hold(-self.size)
            settled(outcome)

    def drop(self, delivery: Delivery) -> None:
        """Nobody takes the message."""
        self.settle(delivery, RELEASED)

    def fail(self, error: AmqpError) -> None:
        """The message is refused."""
        self.settle(self, Rejected(error))

    def tag(self, delivery: Delivery) -> bytes:
        """The delivery-tag of the post."""
        return self.post.tag

    def message_refused(self, error: AmqpError) -> None:
        """For log and counters."""
        self._origin.message_refused(error)
