"""What a node gives a link to hear what happens on it; both are called on the loop and must not block."""

from __future__ import annotations

from typing import Any, Protocol

from gateway.amqp.outcomes import Outcome
from gateway.errors import AmqpError


class Incoming(Protocol):
    """What a node gives a link on which the peer sends.

    One that also has `on_transfers(messages)` gets several at once, as tuples of what `on_transfer` gets.
    """

    def on_transfer(self, delivery: Any, data: bytes, settled: bool) -> None: ...
    def on_detach(self, error: AmqpError | None) -> None: ...


class Outgoing(Protocol):
    """What a node gives a link on which we send.

    One that also has `on_accepted(contexts)` hears of several accepted deliveries at once, and ends no link there.
    """

    def on_credit(self) -> None: ...
    def on_outcome(self, context: Any, outcome: Outcome) -> None: ...
    def on_detach(self, error: AmqpError | None) -> None: ...
