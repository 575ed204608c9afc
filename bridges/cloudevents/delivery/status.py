"""What `status` tells of a subscription (docs/subscriptions.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bridges.cloudevents.delivery.state import DeliveryState, Reason


@dataclass(frozen=True, slots=True)
class SubscriptionStatus:
    """A subscription's state as this process knows it; times are milliseconds since 1970.

    `detail` says more of the state where there is more: never a text of the sink's own.
    """

    state: DeliveryState
    since: int | None = None
    reason: Reason | None = None
    detail: str = ""
    next_attempt: int | None = None
    """When a failing sink is tried again."""
    applied: int | None = None
    """The revision that is delivered; None: no gateway delivers it now."""
    here: bool = False
    """Whether this process delivers it."""
    events: Mapping[str, int] = field(default_factory=dict)
    behind: int | None = None
    """Offsets that are not done with; None: not known."""
    oldest: int | None = None
    """The time of the oldest event in hand."""
    positions: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    """By address and partition: all events before this offset are done with."""
