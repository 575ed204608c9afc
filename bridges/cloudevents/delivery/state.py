"""The states of a subscription as `status` shows them, and the reasons (docs/subscriptions.md)."""

from __future__ import annotations

from enum import StrEnum


class DeliveryState(StrEnum):
    """Whether events are delivered."""

    PENDING = "pending"
    """Waits for the sink's consent."""
    ACTIVE = "active"
    FAILING = "failing"
    """The last attempts failed; events stay in the log and are sent again."""
    SUSPENDED = "suspended"
    """Nothing is sent before a resume or an update; the position is kept."""
    ENDED = "ended"


class Reason(StrEnum):
    """The reason why a subscription is suspended, pending or ended."""

    CONSENT = "consent"
    """Pending: the sink has not consented yet."""
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
        """The state of a subscription that stopped for this reason."""
        if self is Reason.CONSENT:
            return DeliveryState.PENDING
        return DeliveryState.ENDED if self in (Reason.EXPIRED, Reason.MAX_EVENTS) else DeliveryState.SUSPENDED
