"""The counters of a manager, by protocol at most, never by subscription. Pure: time is an argument."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from bridges.cloudevents.delivery.answers import Answer, DeliveryOutcome
from bridges.cloudevents.delivery.sink import SendAttempt
from bridges.cloudevents.model.values import SinkProtocol
from gateway.observability.histogram import Histogram
from policies.egress import EgressDenial

_ATTEMPT: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_DELIVERY: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60, 600, 3600, 86400)


class ConsentResult(StrEnum):
    """How a request for consent ended."""

    CONSENTED = "consented"
    AWAITED = "awaited"
    """The sink may consent later, at the callback address of the request."""
    REFUSED = "refused"
    UNANSWERED = "unanswered"
    LIMITED = "limited"
    """Not asked: this user or host was asked too often."""
    CONFIRMED = "confirmed"
    """Consented later."""


class ProtocolMetrics:
    """The attempts with one protocol."""

    __slots__ = ("attempt_seconds", "attempts", "delivery_seconds")

    def __init__(self) -> None:
        self.attempts: Final = dict.fromkeys(DeliveryOutcome, 0)
        self.attempt_seconds: Final = Histogram(_ATTEMPT)
        """From sending to the answer."""
        self.delivery_seconds: Final = Histogram(_DELIVERY)
        """From an event's timestamp in its topic to its acceptance by the sink."""

    def on_answer(self, attempt: SendAttempt, answer: Answer, now: float, now_ms: int) -> None:
        """Count an answer; `now`: seconds of the clock of `attempt.sent`; `now_ms`: milliseconds since 1970."""
        self.attempts[answer.outcome] += 1
        self.attempt_seconds.observe(now - attempt.sent)
        if answer.outcome is DeliveryOutcome.DONE:
            for event in attempt.events:
                self.delivery_seconds.observe(max(0, now_ms - event.timestamp) / 1000)


class ManagerMetrics:
    """The counters of one manager since the process started."""

    def __init__(self) -> None:
        self.protocols: Final[dict[SinkProtocol, ProtocolMetrics]] = {}
        self.handshakes: Final = dict.fromkeys(ConsentResult, 0)
        self.denials: Final = dict.fromkeys(EgressDenial, 0)

    def of(self, protocol: SinkProtocol) -> ProtocolMetrics:
        """The counters of a protocol."""
        found = self.protocols.get(protocol)
        if found is None:
            found = self.protocols[protocol] = ProtocolMetrics()
        return found

    def consent_requested(self, result: ConsentResult) -> None:
        """Count a request for consent."""
        self.handshakes[result] += 1

    def egress_denied(self, reason: EgressDenial) -> None:
        """Count a sink to which the gateway does not connect."""
        self.denials[reason] += 1
