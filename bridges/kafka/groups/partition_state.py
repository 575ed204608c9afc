"""The states of one partition of a link that shares the partitions of its group (KM-10, ES-4.5.1-8). Pure."""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

from bridges.kafka.states import Table


class PartitionState(Enum):
    """What a member of a group does with a partition that it has a lease on."""

    ACQUIRING = auto()
    """It takes over the group's stored position; nothing is read yet."""
    WITHDRAWN = auto()
    """The same, but the partition is given up as soon as that is done."""
    READING = auto()
    """Events of the partition are sent on the link."""
    SETTLING = auto()
    """Nothing more is sent; outcomes of what was sent are awaited."""
    RELEASED = auto()
    """Its position is written and its lease given back."""
    ENDED = auto()
    """The link is over: its positions are written together, and its share of the group ends."""


class PartitionEvent(Enum):
    """What happens to such a partition."""

    ACQUIRED = auto()
    """The position is there: the link may read."""
    REFUSED = auto()
    """The position cannot be had."""
    REVOKED = auto()
    """The group gives the partition to another link."""
    LOST = auto()
    """Another link may have it by now: the lease was not renewed, or the position was taken over."""
    SETTLED = auto()
    """All outcomes have come, or the time for them is over."""
    DETACHED = auto()
    """The link is over."""


_S, _E = PartitionState, PartitionEvent
TRANSITIONS: Final[Table[PartitionState, PartitionEvent]] = {
    _S.ACQUIRING: {
        _E.ACQUIRED: _S.READING,
        _E.REFUSED: _S.RELEASED,
        _E.REVOKED: _S.WITHDRAWN,
        _E.LOST: _S.WITHDRAWN,
        _E.DETACHED: _S.WITHDRAWN,
    },
    _S.WITHDRAWN: {
        _E.ACQUIRED: _S.RELEASED,
        _E.REFUSED: _S.RELEASED,
        _E.REVOKED: _S.WITHDRAWN,
        _E.LOST: _S.WITHDRAWN,
        _E.DETACHED: _S.WITHDRAWN,
    },
    _S.READING: {_E.REVOKED: _S.SETTLING, _E.LOST: _S.RELEASED, _E.DETACHED: _S.ENDED},
    _S.SETTLING: {
        _E.SETTLED: _S.RELEASED,
        _E.REVOKED: _S.SETTLING,
        _E.LOST: _S.SETTLING,
        _E.DETACHED: _S.RELEASED,
    },
    _S.RELEASED: {
        _E.REVOKED: _S.RELEASED,
        _E.LOST: _S.RELEASED,
        _E.SETTLED: _S.RELEASED,
        _E.DETACHED: _S.RELEASED,
    },
    _S.ENDED: {_E.REVOKED: _S.ENDED, _E.LOST: _S.ENDED, _E.DETACHED: _S.ENDED},
}
