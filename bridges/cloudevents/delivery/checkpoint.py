"""The stored delivery state of a subscription: positions, and the reason why nothing is sent. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple

from bridges.cloudevents.delivery.positions import Position, dump_positions, load_positions, merged
from bridges.cloudevents.delivery.state import Reason

Positions = Mapping[int, Position]
"""By partition."""


class StreamPosition(NamedTuple):
    """Positions in one log; `identity` changes when its topic is recreated."""

    identity: str
    positions: Positions


class DeliveryCheckpoint(NamedTuple):
    """`incarnation` distinguishes a subscription from earlier ones; times are milliseconds since 1970."""

    incarnation: str
    streams: Mapping[str, StreamPosition]
    """By address."""
    edition: int = 0
    """The subscription's edition when this was written."""
    reason: Reason | None = None
    """Why nothing is sent."""
    since: int | None = None
    """When the reason began to apply."""
    failing_since: int | None = None
    delivered: int = 0


def with_progress(checkpoint: DeliveryCheckpoint, known: DeliveryCheckpoint | None) -> DeliveryCheckpoint:
    """A stored checkpoint, and what this process has done beyond it while it could store nothing.

    Nothing is added from another edition, whose filter may have passed over what this one wants.
    """
    if known is None or (known.incarnation, known.edition) != (checkpoint.incarnation, checkpoint.edition):
        return checkpoint
    streams = {address: _advanced(at, known.streams.get(address)) for address, at in checkpoint.streams.items()}
    return checkpoint._replace(streams=streams, delivered=max(checkpoint.delivered, known.delivered))


def _advanced(stored: StreamPosition, known: StreamPosition | None) -> StreamPosition:
    if known is None or known.identity != stored.identity:
        return stored
    both = stored.positions.keys() & known.positions.keys()
    positions = {number: merged(stored.positions[number], known.positions[number]) for number in both}
    return stored._replace(positions={**known.positions, **stored.positions, **positions})


def dump_checkpoint(checkpoint: DeliveryCheckpoint) -> str:
    """Encode as text."""
    stored: dict[str, object] = {"i": checkpoint.incarnation, "r": checkpoint.edition}
    stored["at"] = {address: [at.identity, dump_positions(at.positions)] for address, at in checkpoint.streams.items()}
    if checkpoint.reason is not None:
        stored["why"], stored["since"] = checkpoint.reason.value, checkpoint.since
    if checkpoint.failing_since is not None:
        stored["failing"] = checkpoint.failing_since
    if checkpoint.delivered:
        stored["n"] = checkpoint.delivered
    return json.dumps(stored, separators=(",", ":"))


def load_checkpoint(text: str) -> DeliveryCheckpoint:
    """Decode the result of `dump_mark`; raises ValueError for anything else."""
    try:
        stored = json.loads(text)
        at = {name: StreamPosition(str(log), load_positions(where)) for name, (log, where) in stored["at"].items()}
        why = Reason(stored["why"]) if "why" in stored else None
        return DeliveryCheckpoint(
            str(stored["i"]), at, int(stored["r"]), why, stored.get("since"), stored.get("failing"), stored.get("n", 0)
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError("not the checkpoint of a subscription") from error
