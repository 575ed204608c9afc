"""The states of a transaction, and their transitions. Pure.

`TRANSITIONS` has a step for every event in every state: the next state, and what is to be done.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple


class TransactionState(Enum):
    """What a transaction can do."""

    ACTIVE = "it takes work"
    FAILED = "it can only be rolled back"
    EXPIRED = "its time is over: it was rolled back, and its controller does not know yet"
    COMMITTING = "it is being committed"
    ROLLING_BACK = "it is being rolled back"
    ENDED = "its id is unknown"


class TransactionEvent(Enum):
    """Events of a transaction."""

    WORK = "a message is posted or retired"
    FAILURE = "work that was not answered has failed (4.4.4)"
    COMMIT = "a discharge without fail"
    ROLLBACK = "a discharge with fail"
    LOST = "the link to the coordinator has ended"
    TIMEOUT = "its time is over"
    FINISHED = "the resource has committed or rolled back"


class TransactionAction(Enum):
    """What an event leads to."""

    PROCEED = "nothing else"
    COMMIT = "commit"
    ROLL_BACK = "roll back"
    REFUSE = "refuse the work or the discharge"


class Step(NamedTuple):
    """The next state, and what is to be done."""

    state: TransactionState
    action: TransactionAction


_S, _E, _A = TransactionState, TransactionEvent, TransactionAction


def _being_discharged(state: TransactionState) -> dict[TransactionEvent, Step]:
    """The steps while the resource commits or rolls back: its answer ends the transaction."""
    return {
        _E.WORK: Step(state, _A.REFUSE),
        _E.FAILURE: Step(state, _A.PROCEED),
        _E.COMMIT: Step(state, _A.REFUSE),
        _E.ROLLBACK: Step(state, _A.REFUSE),
        _E.LOST: Step(state, _A.PROCEED),
        _E.TIMEOUT: Step(state, _A.PROCEED),
        _E.FINISHED: Step(_S.ENDED, _A.PROCEED),
    }


TRANSITIONS: Final[Mapping[TransactionState, Mapping[TransactionEvent, Step]]] = {
    _S.ACTIVE: {
        _E.WORK: Step(_S.ACTIVE, _A.PROCEED),
        _E.FAILURE: Step(_S.FAILED, _A.PROCEED),
        _E.COMMIT: Step(_S.COMMITTING, _A.COMMIT),
        _E.ROLLBACK: Step(_S.ROLLING_BACK, _A.ROLL_BACK),
        _E.LOST: Step(_S.ROLLING_BACK, _A.ROLL_BACK),
        _E.TIMEOUT: Step(_S.EXPIRED, _A.ROLL_BACK),
        _E.FINISHED: Step(_S.ACTIVE, _A.REFUSE),  # nothing was to be finished
    },
    _S.FAILED: {
        _E.WORK: Step(_S.FAILED, _A.REFUSE),
        _E.FAILURE: Step(_S.FAILED, _A.PROCEED),  # the first failure is the reason
        _E.COMMIT: Step(_S.ROLLING_BACK, _A.ROLL_BACK),
        _E.ROLLBACK: Step(_S.ROLLING_BACK, _A.ROLL_BACK),
        _E.LOST: Step(_S.ROLLING_BACK, _A.ROLL_BACK),
        _E.TIMEOUT: Step(_S.EXPIRED, _A.ROLL_BACK),
        _E.FINISHED: Step(_S.FAILED, _A.REFUSE),
    },
    _S.EXPIRED: {
        _E.WORK: Step(_S.EXPIRED, _A.REFUSE),
        _E.FAILURE: Step(_S.EXPIRED, _A.PROCEED),
        _E.COMMIT: Step(_S.ENDED, _A.REFUSE),
        _E.ROLLBACK: Step(_S.ENDED, _A.PROCEED),
        _E.LOST: Step(_S.ENDED, _A.PROCEED),
        _E.TIMEOUT: Step(_S.EXPIRED, _A.PROCEED),
        _E.FINISHED: Step(_S.EXPIRED, _A.PROCEED),
    },
    _S.COMMITTING: _being_discharged(_S.COMMITTING),
    _S.ROLLING_BACK: _being_discharged(_S.ROLLING_BACK),
    _S.ENDED: {
        _E.WORK: Step(_S.ENDED, _A.REFUSE),
        _E.FAILURE: Step(_S.ENDED, _A.PROCEED),
        _E.COMMIT: Step(_S.ENDED, _A.REFUSE),
        _E.ROLLBACK: Step(_S.ENDED, _A.REFUSE),
        _E.LOST: Step(_S.ENDED, _A.PROCEED),
        _E.TIMEOUT: Step(_S.ENDED, _A.PROCEED),
        _E.FINISHED: Step(_S.ENDED, _A.PROCEED),  # it had expired, and was discharged before its rollback was done
    },
}
"""By state and event."""
