"""A subscription as the manager last put it, and the checkpoint at which its delivery continues."""

from __future__ import annotations

from contextlib import suppress
from typing import Final, NamedTuple

from bridges.cloudevents.delivery.checkpoint import DeliveryCheckpoint, StreamPosition, load_checkpoint
from bridges.cloudevents.delivery.positions import Position
from bridges.cloudevents.delivery.state import DeliveryState, Reason
from bridges.cloudevents.dispatch.interface import DeliverableSubscription
from bridges.cloudevents.reading.start_offsets import StartOffsets

_MANAGER_REASONS: Final = (Reason.POLICY, Reason.CONSENT)
"""Reasons that the manager passes to each `put`."""


class RegisteredSubscription(NamedTuple):
    """A subscription as it was put."""

    subscription: DeliverableSubscription
    revision: int
    start_offsets: StartOffsets
    hold_reason: Reason | None
    edition: int
    """Grows when the owner changes it, and not with every revision."""

    @property
    def state(self) -> DeliveryState:
        """Its state where another gateway delivers it, as far as this process knows it."""
        return DeliveryState.ACTIVE if self.hold_reason is None else self.hold_reason.state


def starting_checkpoint(registered: RegisteredSubscription, stored: str | None) -> DeliveryCheckpoint:
    """Where delivery continues: at its checkpoint, or at its start if no checkpoint of this incarnation exists."""
    initial = {
        address: StreamPosition(log.identity, {number: Position(at) for number, at in log.offsets.items()})
        for address, log in registered.start_offsets.streams.items()
    }
    delivered, stopped = registered.start_offsets.progress
    checkpoint = DeliveryCheckpoint(
        registered.start_offsets.incarnation,
        initial,
        registered.edition,
        stopped if registered.edition == 1 else None,  # an update ends a suspension
        delivered=delivered,
    )
    if stored is None:
        return checkpoint
    with suppress(ValueError):
        found = load_checkpoint(stored)
        if found.incarnation == checkpoint.incarnation:
            streams = {address: found.streams.get(address, at) for address, at in initial.items()}
            resumed = registered.edition > found.edition or found.reason in _MANAGER_REASONS
            reason = None if resumed else found.reason
            failing = None if found.reason is not None and reason is None else found.failing_since
            return found._replace(streams=streams, edition=registered.edition, reason=reason, failing_since=failing)
    return checkpoint
