"""What a sink's answer to an attempt means, the same for every protocol (docs/subscriptions.md)."""

from __future__ import annotations

from enum import Enum, auto
from typing import NamedTuple


class Verdict(Enum):
    """What an answer says of the events of the attempt, and of the sink."""

    DONE = auto()
    """The sink has the events."""
    REFUSED = auto()
    """The sink does not want these events: dead letter, no repetition."""
    TOO_LARGE = auto()
    """As REFUSED; a batch is halved and sent again."""
    FAILED = auto()
    """The sink's fault or the event's: counted against the event only if the sink has taken another one since."""
    SINK_FAILED = auto()
    """The sink's fault: repeated, no attempt of the event is counted."""
    CREDENTIAL = auto()
    """The sink does not accept our login: three in a row suspend the subscription."""
    WAIT = auto()
    """The sink asks for a pause: nothing is sent to it before, no attempt is counted."""
    GONE = auto()
    """The sink has ended for good: the subscription is suspended, its position stays."""


class Answer(NamedTuple):
    """An answer of the sink, or what came instead of one."""

    verdict: Verdict
    reason: str = ""
    """For the log, `status` and dead letters: never a text of the sink's own."""
    status: int | None = None
    """The protocol's own code where there is one."""
    retry_after: float | None = None
    """Seconds that the sink asked us to wait."""
    reached: bool = True
    """False: nothing came back, so that the place (host and port) counts the failure, for all who use it."""


DONE = Answer(Verdict.DONE)
