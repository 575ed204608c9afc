"""The states of a transactional acquisition, and what each outcome of its messages leads to (4.4.3 and 4.4.4). Pure.

An acquisition is what one link has sent in one transaction. Both tables have an entry for every event in every state.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple

MAX_ACQUIRED: Final = 100_000
"""Messages that one link may acquire in one transaction: then it waits for the discharge."""


class AcquisitionState(Enum):
    """What an acquisition does with the credit of its link."""

    ACQUIRING = "what the link sends is acquired in the transaction"
    HALTED = "nothing is sent, since the transaction can only be rolled back"
    ENDING = "nothing is sent before the discharge is answered"
    ENDED = "the link sends outside of the transaction"


class AcquisitionEvent(Enum):
    """What happens to the transaction."""

    FAILED = "it can only be rolled back"
    DISCHARGE = "its discharge has come"
    COMMITTED = "it is committed"
    ROLLED_BACK = "it is rolled back"
    FORGOTTEN = "its id is unknown from now on, and its controller knows that"


class AcquisitionAction(Enum):
    """What an event leads to."""

    PROCEED = "nothing"
    HALT = "send nothing more"
    KEEP = "its messages are deliveries like any other"
    GIVE_BACK = "its messages are available again"
    RESUME = "use the credit that is left"


class AcquisitionStep(NamedTuple):
    """The next state, and what is to be done."""

    state: AcquisitionState
    action: AcquisitionAction


class Told(Enum):
    """What a receiver says about a message that it has acquired."""

    HERE = "an outcome in the same transaction"
    ELSEWHERE = "an outcome in another transaction"
    OUTSIDE = "an outcome in none"
    FORGOTTEN = "it has settled the message without an outcome"


class OutcomeAction(Enum):
    """What that leads to."""

    RETIRE = "the outcome is a part of the transaction"
    RETIRE_DEFAULT = "the default outcome is a part of the transaction"
    HOLD = "the outcome is applied if the transaction is committed"
    HOLD_DEFAULT = "the default outcome is applied if the transaction is committed"
    VIOLATE = "the link to the coordinator ends"


_S, _E, _A, _T, _O = AcquisitionState, AcquisitionEvent, AcquisitionAction, Told, OutcomeAction
_ENDINGS: Final = {
    _E.COMMITTED: AcquisitionStep(_S.ENDING, _A.KEEP),
    _E.FORGOTTEN: AcquisitionStep(_S.ENDED, _A.RESUME),
}
TRANSITIONS: Final[Mapping[AcquisitionState, Mapping[AcquisitionEvent, AcquisitionStep]]] = {
    _S.ACQUIRING: {
        **_ENDINGS,
        _E.FAILED: AcquisitionStep(_S.HALTED, _A.HALT),
        _E.DISCHARGE: AcquisitionStep(_S.ENDING, _A.HALT),
        _E.ROLLED_BACK: AcquisitionStep(_S.HALTED, _A.GIVE_BACK),
    },
    _S.HALTED: {
        **_ENDINGS,
        _E.FAILED: AcquisitionStep(_S.HALTED, _A.PROCEED),
        _E.DISCHARGE: AcquisitionStep(_S.ENDING, _A.PROCEED),
        _E.ROLLED_BACK: AcquisitionStep(_S.HALTED, _A.GIVE_BACK),
    },
    _S.ENDING: {
        **_ENDINGS,
        _E.FAILED: AcquisitionStep(_S.ENDING, _A.PROCEED),
        _E.DISCHARGE: AcquisitionStep(_S.ENDING, _A.PROCEED),
        _E.ROLLED_BACK: AcquisitionStep(_S.ENDING, _A.GIVE_BACK),
    },
    _S.ENDED: {event: AcquisitionStep(_S.ENDED, _A.PROCEED) for event in _E},
}
"""By state and event."""

_EARLY: Final = {
    _T.HERE: _O.RETIRE,
    _T.ELSEWHERE: _O.VIOLATE,
    _T.OUTSIDE: _O.VIOLATE,
    _T.FORGOTTEN: _O.RETIRE_DEFAULT,
}
_LATE: Final = {_T.HERE: _O.RETIRE, _T.ELSEWHERE: _O.VIOLATE, _T.OUTSIDE: _O.HOLD, _T.FORGOTTEN: _O.HOLD_DEFAULT}
OUTCOMES: Final[Mapping[AcquisitionState, Mapping[Told, OutcomeAction]]] = {
    _S.ACQUIRING: _EARLY,
    _S.HALTED: _EARLY,
    _S.ENDING: _LATE,
    _S.ENDED: _LATE,
}
"""By state and what the receiver says. `RETIRE` is refused if it comes too late, as for any message."""
