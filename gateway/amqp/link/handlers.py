"""The protocols of handlers, which nodes pass to links. They are called on the event loop and must not block.

A handler that wraps another one has its own `takes_batches`, because batches pass through it (`wrappers`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from gateway.amqp.link.outcomes import Outcome
from gateway.amqp.link.transactions import Enlisting, PostedMessage, PostedMessages, Retirement
from gateway.errors import NOT_IMPLEMENTED, AmqpError

Delivery: TypeAlias = Any
"""A link's key of a received message: a number for a peer's link, the event for a bridge. Nodes only pass it back."""
SendContext: TypeAlias = Any
"""A node's object for a message that it sends; it comes back with the outcome, and the link does not use it."""
Transfer: TypeAlias = tuple[Delivery, bytes, bool]
"""A received message: its delivery, its bytes, and whether it came settled."""
OutgoingMessage: TypeAlias = Any
"""A sequence whose first item is the bytes of a message; the sequence itself is its context."""
LinkT = TypeVar("LinkT", contravariant=True)


class LinkHandler(Protocol):
    """The calls that handlers of both directions have."""

    __slots__ = ()

    def takes_batches(self) -> bool:
        """Whether it accepts several messages, or accepted deliveries, in one call; checked when the link begins."""
        return False

    def policy_changed(self, verdict: Callable[..., AmqpError | None]) -> None:
        """After a reload: decide again what was decided under the old policy; nothing by default.

        A handler that has other links calls `verdict` (`gateway.links.link.PolicyVerdict`) for each of them.
        """
        return

    def on_detach(self, error: AmqpError | None) -> None:
        """The link has ended, with an error of either side, or None. Called once."""


class Incoming(LinkHandler, Protocol):
    """The handler of a link on which the peer sends."""

    __slots__ = ()

    def on_transfer(self, delivery: Delivery, data: bytes, settled: bool) -> None:
        """A message has come."""

    def on_post(self, post: PostedMessage, data: bytes) -> None:
        """A message has come in a transaction (part 4, 4.4.1); raises AmqpError if it cannot be a part of it."""
        raise AmqpError(NOT_IMPLEMENTED, "the node at this address takes no messages in transactions")

    def on_posts(self, posts: PostedMessages) -> None:
        """`on_post` for several, in order."""
        posts.one_by_one(self.on_post)

    @property
    def attended(self) -> bool:
        """Whether messages can be taken, now or later: a node without a receiver releases them."""
        return True

    def give_back(self) -> None:
        """The link is about to end: release messages that were not passed on; nothing by default."""
        return

    def peer_left(self) -> None:
        """The peer has left, and this link goes on for messages that came settled; nothing by default.

        No connection's account has their bytes any more: what waits at a node is charged by the node.
        """
        return


class BatchIncoming(Incoming, Protocol):
    """A handler that accepts several messages at once."""

    __slots__ = ()

    def on_transfers(self, messages: Sequence[Transfer]) -> None:
        """`on_transfer` for several, in order."""


class Outgoing(LinkHandler, Protocol):
    """The handler of a link on which we send."""

    __slots__ = ()

    def on_credit(self) -> None:
        """The peer has granted credit, or asked for a drain."""

    def on_outcome(self, context: SendContext, outcome: Outcome) -> None:
        """The peer has settled the message that was sent with `context`."""

    def on_retire(self, transaction: Enlisting, retirement: Retirement) -> None:
        """The peer gave a message an outcome in a transaction (part 4, 4.4.2); raises AmqpError if that cannot be.

        `on_outcome` follows when the transaction is discharged.
        """
        raise AmqpError(NOT_IMPLEMENTED, "messages of the node at this address have no outcomes in transactions")

    def on_acquire(self, transaction: Enlisting) -> None:
        """What is sent from now on is acquired in a transaction (4.4.3); raises AmqpError if that cannot be.

        After a rollback `on_outcome` follows with RELEASED for each message: it must be available again.
        """
        raise AmqpError(NOT_IMPLEMENTED, "messages of the node at this address cannot be acquired in a transaction")

    def positions(self) -> Mapping[int, int]:
        """The next offset to read of an event log, per partition; empty if it reads none."""
        return {}


class BatchOutgoing(Outgoing, Protocol):
    """A handler that gets several accepted deliveries at once."""

    __slots__ = ()

    @property
    def owes_outcomes(self) -> bool:
        """Whether it gets deliveries that were accepted before its link ended, in one read, after `on_detach`, too."""
        return False

    def on_accepted(self, contexts: list[SendContext]) -> None:
        """`on_outcome` for several that were accepted, in the order of their outcomes."""


class EndedHandler:
    """The handler of a link on which nothing will come any more: its node has been told, and is not kept alive."""

    __slots__ = ()
    attended = owes_outcomes = False

    def takes_batches(self) -> bool:
        return True

    def policy_changed(self, verdict: Callable[..., AmqpError | None]) -> None: ...
    def on_detach(self, error: AmqpError | None) -> None: ...
    def give_back(self) -> None: ...
    def peer_left(self) -> None: ...
    def on_transfer(self, delivery: Delivery, data: bytes, settled: bool) -> None: ...
    def on_credit(self) -> None: ...
    def on_outcome(self, context: SendContext, outcome: Outcome) -> None: ...
    def on_accepted(self, contexts: list[SendContext]) -> None: ...
    def positions(self) -> Mapping[int, int]:
        return {}


ENDED: Final = EndedHandler()


class AttachListener(Protocol[LinkT]):
    """Gets the answer to an attach of ours (`Link.request`)."""

    __slots__ = ()

    def on_attached(self, link: LinkT) -> None:
        """The peer has attached, too: the link may be used."""

    def on_refused(self, error: AmqpError) -> None:
        """The peer has refused the attach, or ended the link after we had."""


def takes_batches(handler: LinkHandler) -> bool:
    """The answer of the handler's class: a wrapper that delegates by `__getattr__` must not pass on the inner answer.

    Otherwise batches would bypass what the wrapper does with each message.

    Raises:
        AttributeError: the class does not have `takes_batches`.
    """
    return type(handler).takes_batches(handler)
