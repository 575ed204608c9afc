"""What the delivery of a subscription and its sink know of each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from bridges.cloudevents.delivery.answers import Answer
from bridges.cloudevents.events.event import CloudEvent


class SendAttempt(NamedTuple):
    """One sending of one event, or of a batch; `number` identifies it within its subscription."""

    number: int
    events: Sequence[CloudEvent]
    repetition: int
    """How often these events were sent before: 0 the first time."""


class SinkGrant(NamedTuple):
    """What a new sink allows: deliveries a second, None for any; `awaited`: its consent comes later, by callback."""

    rate: float | None = None
    awaited: bool = False


class SinkListener(Protocol):
    """Hears the sink, on the loop. A sink never calls it from within `send`."""

    def answered(self, attempt: SendAttempt, answer: Answer) -> None:
        """The outcome of an attempt, exactly once for each, unless the sink was closed before."""

    def ready(self) -> None:
        """`room` has grown."""


class Sink(Protocol):
    """The sink of one subscription in one protocol; made when the subscription is, connected when first used."""

    @property
    def room(self) -> int:
        """How many more attempts may be sent now."""

    def send(self, attempt: SendAttempt) -> None:
        """Send; every failure is an answer."""

    async def close(self, patience: float) -> None:
        """Wait up to `patience` seconds for answers, then end; what has no answer then gets none."""
