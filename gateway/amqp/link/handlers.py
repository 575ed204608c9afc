"""What a node gives a link to hear what happens on it; both are called on the loop and must not block."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from gateway.amqp.link.outcomes import Outcome
from gateway.errors import AmqpError


class Incoming(Protocol):
    """What a node gives a link on which the peer sends."""

    def on_transfer(self, delivery: Any, data: bytes, settled: bool) -> None: ...
    def on_detach(self, error: AmqpError | None) -> None: ...


class BatchIncoming(Incoming, Protocol):
    """One that takes several messages at once, as tuples of what `on_transfer` gets."""

    def takes_batches(self) -> bool: ...
    def on_transfers(self, messages: Sequence[tuple[Any, bytes, bool]]) -> None: ...


class Outgoing(Protocol):
    """What a node gives a link on which we send."""

    def on_credit(self) -> None: ...
    def on_outcome(self, context: Any, outcome: Outcome) -> None: ...
    def on_detach(self, error: AmqpError | None) -> None: ...


class BatchOutgoing(Outgoing, Protocol):
    """One that hears of several accepted deliveries at once, and ends no link there."""

    def takes_batches(self) -> bool: ...
    def on_accepted(self, contexts: list[Any]) -> None: ...


def takes_batches(handler: Any) -> bool:
    """Whether a handler takes several messages (or accepted deliveries) at once, as its class says.

    A handler around another one has to say it itself, for the batches pass through it: `TypeError` where it does not.
    """
    kind = type(handler)
    declared = getattr(kind, "takes_batches", None)
    if declared is not None:
        return bool(declared(handler))
    if hasattr(kind, "__getattr__"):
        raise TypeError(f"{kind.__name__} is a handler around another one and does not say whether it takes batches")
    return False
