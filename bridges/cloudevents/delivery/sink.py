"""The interface between the delivery of a subscription and its sink."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from bridges.cloudevents.delivery.answers import Answer
from bridges.cloudevents.events.event import CloudEvent


class SendAttempt(NamedTuple):
    """One attempt to send an event, or a batch; `number` identifies it within its subscription."""

    number: int
    events: Sequence[CloudEvent]
    earlier_attempts: int
    """How often these events were sent before."""
    sent: float = 0.0
    """When, in seconds of the loop's clock."""


class SinkGrant(NamedTuple):
    """The grant of a new sink: deliveries per second (None: no limit); `pending`: it consents later, by callback."""

    rate: float | None = None
    pending: bool = False


class SinkListener(Protocol):
    """Receives calls of the sink on the event loop; never called from within `send`."""

    def on_answer(self, attempt: SendAttempt, answer: Answer) -> None:
        """The result of an attempt; called exactly once for each, unless the sink was closed before."""

    def on_ready(self) -> None:
        """`free_slots` has increased."""


class Sink(Protocol):
    """The sink of one subscription in one protocol; it connects when it is first used."""

    @property
    def free_slots(self) -> int:
        """The number of attempts that may be sent now."""

    def send(self, attempt: SendAttempt) -> None:
        """Send; every failure is reported as an answer."""

    async def close(self, grace: float) -> None:
        """Wait up to `grace` seconds for answers, then close; attempts without an answer get none."""
