"""The states of a subscription as `status` tells them, and why it is not active (docs/subscriptions.md)."""

from __future__ import annotations

from enum import StrEnum


class DeliveryState(StrEnum):
    """Whether events are delivered."""

    PENDING = "pending"
    """The sink's consent is awaited."""
    ACTIVE = "active"
    FAILING = "failing"
    """The last attempts have failed; events wait in the log and are sent again."""
    SUSPENDED = "suspended"
    """Nothing is sent before a resume or an update; the position stays."""
    ENDED = "ended"


class Reason(StrEnum):
    """Why a subscription is suspended, pending or ended."""

    CONSENT = "consent"
    """Pending: the sink has not agreed yet."""
    GONE = "gone"
    CREDENTIAL = "credential"
    REFUSALS = "refusals"
    UNREACHABLE = "unreachable"
    POLICY = "policy"
    OPERATOR = "operator"
    EXPIRED = "expired"
    MAX_EVENTS = "maxevents"

    @property
    def state(self) -> DeliveryState:
        """The state of a subscription that is stopped for this reason."""
        if self is Reason.CONSENT:
            return DeliveryState.PENDING
        return DeliveryState.ENDED if self in (Reason.EXPIRED, Reason.MAX_EVENTS) else DeliveryState.SUSPENDED
