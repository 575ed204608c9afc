"""What a node gives a link to hear what happens on it. All of it is called on the loop, and none of it may block.

A handler that stands around another one says itself whether it takes batches, for they pass through it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

from gateway.amqp.link.outcomes import Outcome
from gateway.errors import AmqpError

Delivery: TypeAlias = Any
"""What a link calls a message that came on it: a peer's link a number, a bridge the event. Nodes only hand it back."""
SendContext: TypeAlias = Any
"""What a node gives with a message that it sends; it comes back with the outcome, and the link never looks at it."""
Transfer: TypeAlias = tuple[Delivery, bytes, bool]
"""A message that came: its delivery, its bytes, and whether it came settled."""
OutgoingMessage: TypeAlias = Any
"""A sequence whose first item is the bytes of a message; all of it is the context of that message."""
LinkT = TypeVar("LinkT", contravariant=True)


class LinkHandler(Protocol):
    """What the handlers of both directions share."""

    __slots__ = ()

    def takes_batches(self) -> bool:
        """Whether it takes several messages, or accepted deliveries, in one call; asked when the link begins."""
        return False

    def policy_changed(self, verdict: Callable[..., AmqpError | None]) -> None:
        """After a reload: decide anew what was decided under the old policy; nothing by default.

        A handler with links of its own asks `verdict` (`gateway.nodes.link.PolicyVerdict`) why each may not stay.
        """
        return

    def on_detach(self, error: AmqpError | None) -> None:
        """The link has ended, with the error of the peer or of ours; None: in order. Called once."""


class Incoming(LinkHandler, Protocol):
    """What a node gives a link on which the peer sends."""

    __slots__ = ()

    def on_transfer(self, delivery: Delivery, data: bytes, settled: bool) -> None:
        """A message has come."""

    @property
    def attended(self) -> bool:
        """Whether somebody takes what comes here, now or later: a node without a receiver gives it back."""
        return True

    def give_back(self) -> None:
        """The link is about to be withdrawn: release what has come and is not passed on; nothing by default."""
        return


class BatchIncoming(Incoming, Protocol):
    """One that takes several messages at once."""

    __slots__ = ()

    def on_transfers(self, messages: Sequence[Transfer]) -> None:
        """`on_transfer` for several, in order."""


class Outgoing(LinkHandler, Protocol):
    """What a node gives a link on which we send."""

    __slots__ = ()

    def on_credit(self) -> None:
        """The peer takes messages, or waits for what a drain asks for."""

    def on_outcome(self, context: SendContext, outcome: Outcome) -> None:
        """The peer has given the message that was sent with `context` its outcome."""

    def positions(self) -> Mapping[int, int]:
        """Where the link reads next in an event log, per partition; of no log: none."""
        return {}


class BatchOutgoing(Outgoing, Protocol):
    """One that hears of several accepted deliveries at once, and ends no link there."""

    __slots__ = ()

    def on_accepted(self, contexts: list[SendContext]) -> None:
        """`on_outcome` for several that were accepted, in the order of their outcomes."""


class AttachListener(Protocol[LinkT]):
    """Hears the answer to an attach of ours; a handler that is given to `Link.request`."""

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
