"""The states of a receive link on an event log and the transitions between them (AMQP 2.6.7). Pure.

Flow control is not part of them: credit and unsettled bytes are checked before each batch.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

from bridges.kafka.common.states import Table


class ReceiverState(Enum):
    """What a receive link does now."""

    ATTACHING = auto()
    """The attach is not answered yet; nothing is read."""
    DELIVERING = auto()
    """Events are sent as credit allows."""
    FINDING_ENDS = auto()
    """The peer drains: events are sent while Kafka is asked where the partitions end."""
    DRAINING = auto()
    """Events are sent up to these ends; then the remaining credit is given back."""
    ENDED = auto()
    """The link is detached."""


class ReceiverEvent(Enum):
    """What happens to a receive link."""

    ATTACHED = auto()
    """The attach is answered."""
    DRAIN = auto()
    """The peer asks for its credit back."""
    ENDS_FOUND = auto()
    """Kafka has returned the ends of the partitions, or is unreachable."""
    DRAIN_OVER = auto()
    """Everything up to the ends was sent, the credit is used up, or the peer has stopped draining."""
    DETACHED = auto()
    """The link is over."""


_S, _E = ReceiverState, ReceiverEvent
TRANSITIONS: Final[Table[ReceiverState, ReceiverEvent]] = {
    _S.ATTACHING: {_E.ATTACHED: _S.DELIVERING, _E.DETACHED: _S.ENDED},
    _S.DELIVERING: {_E.DRAIN: _S.FINDING_ENDS, _E.DETACHED: _S.ENDED},
    _S.FINDING_ENDS: {
        _E.DRAIN: _S.FINDING_ENDS,
        _E.ENDS_FOUND: _S.DRAINING,
        _E.DRAIN_OVER: _S.DELIVERING,
        _E.DETACHED: _S.ENDED,
    },
    _S.DRAINING: {_E.DRAIN: _S.DRAINING, _E.DRAIN_OVER: _S.DELIVERING, _E.DETACHED: _S.ENDED},
    _S.ENDED: {_E.DRAIN_OVER: _S.ENDED, _E.DETACHED: _S.ENDED},
}
