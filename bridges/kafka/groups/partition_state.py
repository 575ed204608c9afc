"""The states of one partition of a link that shares the partitions of its group (KM-10, ES-4.5.1-8). Pure."""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

from bridges.kafka.common.states import Table


class PartitionState(Enum):
    """What a link does with a partition that it has a lease on."""

    ACQUIRING = auto()
    """It acquires the group's stored position; nothing is read yet."""
    WITHDRAWN = auto()
    """As ACQUIRING, but the partition is released as soon as that is done."""
    READING = auto()
    """Events of the partition are sent on the link."""
    SETTLING = auto()
    """Nothing more is sent; the outcomes of what was sent are still to come."""
    RELEASED = auto()
    """Its position is being written, then its lease is released."""
    ENDED = auto()
    """The link is over: all its positions are written together, and its share of the group ends."""


class PartitionEvent(Enum):
    """What happens to such a partition."""

    ACQUIRED = auto()
    """The position was acquired: the link may read."""
    REFUSED = auto()
    """The position could not be acquired."""
    REVOKED = auto()
    """The group gives the partition to another link."""
    LOST = auto()
    """Another link may own it by now: the lease was not renewed, or the position was acquired by another link."""
    SETTLED = auto()
    """All outcomes have arrived, or the time for them is over."""
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
