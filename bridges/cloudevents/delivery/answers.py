"""The meaning of a sink's answer to an attempt, the same for every protocol (docs/subscriptions.md)."""

from __future__ import annotations

from enum import Enum, auto
from typing import NamedTuple


class DeliveryOutcome(Enum):
    """The meaning of an answer for the events of the attempt, and for the sink."""

    DONE = auto()
    """The sink accepted the events."""
    REFUSED = auto()
    """The sink refuses these events: they become dead letters and are not sent again."""
    TOO_LARGE = auto()
    """As REFUSED, but a batch is halved and sent again."""
    FAILED = auto()
    """The sink or the event is at fault: counts against the event only if the sink has accepted another one since."""
    SINK_FAILED = auto()
    """The sink is at fault: the events are sent again, and the attempt does not count against them."""
    CREDENTIAL = auto()
    """The sink refused our login: three such answers in a row suspend the subscription."""
    WAIT = auto()
    """The sink asks for a pause: nothing is sent during it, and the attempt does not count."""
    GONE = auto()
    """The sink no longer exists: the subscription is suspended and keeps its position."""

    @property
    def label(self) -> str:
        """Its name in metrics and in the journal."""
        return self.name.lower().replace("_", "")


class Answer(NamedTuple):
    """An answer of the sink, or the failure to get one."""

    outcome: DeliveryOutcome
    reason: str = ""
    """For the log, `status` and dead letters; never contains text from the sink."""
    status: int | None = None
    """The protocol's own code, if it has one."""
    retry_after: float | None = None
    """Seconds that the sink asked us to wait."""
    reached: bool = True
    """False: nothing came back, so that the failure counts for the place (host and port) and all its users."""


DONE = Answer(DeliveryOutcome.DONE)
