"""The states of a container's part of a transaction, and their transitions. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final


class BranchState(Enum):
    """What the container knows of the transaction."""

    DECLARING = "the container was asked for a transaction"
    OPEN = "it has one"
    NONE = "it has none, and will not get one"
    DISCHARGING = "it was told to commit"
    UNDOING = "it was told to roll back"
    OVER = "its part is decided"


class BranchEvent(Enum):
    """Events of it."""

    DECLARED = "the container has declared it"
    REFUSED = "the container has not declared it, or the link to its coordinator has ended"
    COMMIT = "commit it, now that all work has its outcome"
    ROLLBACK = "roll it back"
    ANSWERED = "the discharge has its answer, or will have none"


class BranchAction(Enum):
    """What an event leads to."""

    IGNORE = "nothing"
    WORK = "send the work that waits"
    REFUSE_WORK = "refuse the work that waits"
    DISCHARGE = "discharge it"
    UNDO = "discharge it with fail"
    UNDO_UNHEARD = "discharge it with fail; nobody waits for the answer"
    CONCLUDE = "answer the local discharge: there is nothing to discharge there"
    ANSWER = "answer the local discharge by the container's answer"


_S, _E, _A = BranchState, BranchEvent, BranchAction

TRANSITIONS: Final[Mapping[tuple[BranchState, BranchEvent], tuple[BranchState, BranchAction]]] = {
    (_S.DECLARING, _E.DECLARED): (_S.OPEN, _A.WORK),
    (_S.DECLARING, _E.REFUSED): (_S.NONE, _A.REFUSE_WORK),
    (_S.DECLARING, _E.COMMIT): (_S.DECLARING, _A.IGNORE),  # again when it is declared
    (_S.DECLARING, _E.ROLLBACK): (_S.OVER, _A.CONCLUDE),
    (_S.DECLARING, _E.ANSWERED): (_S.DECLARING, _A.IGNORE),
    (_S.OPEN, _E.DECLARED): (_S.OPEN, _A.IGNORE),
    (_S.OPEN, _E.REFUSED): (_S.NONE, _A.REFUSE_WORK),
    (_S.OPEN, _E.COMMIT): (_S.DISCHARGING, _A.DISCHARGE),
    (_S.OPEN, _E.ROLLBACK): (_S.UNDOING, _A.UNDO),
    (_S.OPEN, _E.ANSWERED): (_S.OPEN, _A.IGNORE),
    (_S.NONE, _E.DECLARED): (_S.NONE, _A.IGNORE),
    (_S.NONE, _E.REFUSED): (_S.NONE, _A.IGNORE),
    (_S.NONE, _E.COMMIT): (_S.OVER, _A.CONCLUDE),
    (_S.NONE, _E.ROLLBACK): (_S.OVER, _A.CONCLUDE),
    (_S.NONE, _E.ANSWERED): (_S.NONE, _A.IGNORE),
    (_S.DISCHARGING, _E.DECLARED): (_S.DISCHARGING, _A.IGNORE),
    (_S.DISCHARGING, _E.REFUSED): (_S.DISCHARGING, _A.IGNORE),  # the request itself is answered
    (_S.DISCHARGING, _E.COMMIT): (_S.DISCHARGING, _A.IGNORE),
    (_S.DISCHARGING, _E.ROLLBACK): (_S.DISCHARGING, _A.IGNORE),
    (_S.DISCHARGING, _E.ANSWERED): (_S.OVER, _A.ANSWER),
    (_S.UNDOING, _E.DECLARED): (_S.UNDOING, _A.IGNORE),
    (_S.UNDOING, _E.REFUSED): (_S.UNDOING, _A.IGNORE),
    (_S.UNDOING, _E.COMMIT): (_S.UNDOING, _A.IGNORE),
    (_S.UNDOING, _E.ROLLBACK): (_S.UNDOING, _A.IGNORE),
    (_S.UNDOING, _E.ANSWERED): (_S.OVER, _A.ANSWER),
    (_S.OVER, _E.DECLARED): (_S.OVER, _A.UNDO_UNHEARD),  # it was rolled back before
    (_S.OVER, _E.REFUSED): (_S.OVER, _A.IGNORE),
    (_S.OVER, _E.COMMIT): (_S.OVER, _A.IGNORE),
    (_S.OVER, _E.ROLLBACK): (_S.OVER, _A.IGNORE),
    (_S.OVER, _E.ANSWERED): (_S.OVER, _A.IGNORE),
}
"""For each event in each state: the next state and the action."""
