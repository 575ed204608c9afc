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
    repetition: int
    """How often these events were sent before."""


class SinkGrant(NamedTuple):
    """The grant of a new sink: deliveries per second (None: no limit); `awaited`: it consents later, by callback."""

    rate: float | None = None
    awaited: bool = False


class SinkListener(Protocol):
    """Receives calls of the sink on the event loop; never called from within `send`."""

    def answered(self, attempt: SendAttempt, answer: Answer) -> None:
        """The result of an attempt; called exactly once for each, unless the sink was closed before."""

    def ready(self) -> None:
        """`room` has increased."""


class Sink(Protocol):
    """The sink of one subscription in one protocol; it connects when it is first used."""

    @property
    def room(self) -> int:
        """The number of attempts that may be sent now."""

    def send(self, attempt: SendAttempt) -> None:
        """Send; every failure is reported as an answer."""

    async def close(self, patience: float) -> None:
        """Wait up to `patience` seconds for answers, then close; attempts without an answer get none."""
