"""A subscription as the manager last put it, and the mark at which its delivery continues."""

from __future__ import annotations

from contextlib import suppress
from typing import Final, NamedTuple

from bridges.cloudevents.delivery.mark import Mark, StreamPosition, load_mark
from bridges.cloudevents.delivery.positions import Position
from bridges.cloudevents.delivery.state import Reason
from bridges.cloudevents.reading.starts import Starts
from bridges.cloudevents.reading.subscription import PushedSubscription

_OURS: Final = (Reason.POLICY, Reason.CONSENT)
"""Reasons that the manager passes to each `put`."""


class Known(NamedTuple):
    """A subscription as it was put."""

    subscription: PushedSubscription
    revision: int
    starts: Starts
    hold: Reason | None
    edition: int
    """Grows when the owner changes it, and not with every revision."""


def mark_of(known: Known, stored: str | None) -> Mark:
    """Where delivery continues: at its mark, or at its start if no mark of this incarnation exists."""
    fresh = {
        address: StreamPosition(log.identity, {number: Position(at) for number, at in log.offsets.items()})
        for address, log in known.starts.streams.items()
    }
    mark = Mark(known.starts.incarnation, fresh, known.edition)
    if stored is None:
        return mark
    with suppress(ValueError):
        found = load_mark(stored)
        if found.incarnation == mark.incarnation:
            streams = {address: found.streams.get(address, at) for address, at in fresh.items()}
            again = known.edition > found.edition or found.reason in _OURS
            reason = None if again else found.reason
            return found._replace(streams=streams, edition=known.edition, reason=reason)
    return mark
