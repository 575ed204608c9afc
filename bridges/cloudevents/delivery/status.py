"""The status of a subscription (docs/subscriptions.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bridges.cloudevents.delivery.state import DeliveryState, Reason


@dataclass(frozen=True, slots=True)
class SubscriptionStatus:
    """A subscription's state as this process knows it; times are milliseconds since 1970.

    `detail` explains the state, if there is more to say; it never contains text from the sink.
    """

    state: DeliveryState
    since: int | None = None
    reason: Reason | None = None
    detail: str = ""
    next_attempt: int | None = None
    """When a failing sink is tried again."""
    applied_revision: int | None = None
    """The delivered revision; None if no gateway delivers it now."""
    delivered_here: bool = False
    """Whether this process delivers it."""
    events: Mapping[str, int] = field(default_factory=dict)
    lag: int | None = None
    """Number of offsets that are not done; None if unknown."""
    oldest_timestamp: int | None = None
    """The timestamp of the oldest event in memory."""
    positions: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    """By address and partition: all events before this offset are done with."""
    delivered: int = 0
    """Events that count against `maxevents`; 0 without such a limit."""
    logs: Mapping[str, str] = field(default_factory=dict)
    """By address: what tells the log of these positions from that of a recreated topic."""
