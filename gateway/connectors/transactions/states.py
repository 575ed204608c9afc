"""The states of a container's part of a transaction, and their transitions. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final


class BranchState(Enum):
    """The state of the transaction at the container."""

    DECLARING = "the declare was sent"
    OPEN = "the transaction is declared"
    NONE = "the container has no transaction, and will not declare one"
    DISCHARGING = "the commit was sent"
    UNDOING = "the rollback was sent"
    OVER = "the container's part is decided"


class BranchEvent(Enum):
    """Events that change the state."""

    DECLARED = "the container has declared the transaction"
    REFUSED = "the container has not declared the transaction, or the link to its coordinator has ended"
    COMMIT = "commit: all work has its outcome"
    ROLLBACK = "roll back"
    ANSWERED = "the discharge was answered, or never will be"


class BranchAction(Enum):
    """The action that a transition takes."""

    IGNORE = "nothing"
    WORK = "send the waiting work"
    REFUSE_WORK = "refuse the waiting work"
    DISCHARGE = "discharge it"
    UNDO = "discharge it with fail"
    UNDO_UNHEARD = "discharge it with fail and ignore the answer"
    CONCLUDE = "answer the local discharge: there is nothing to discharge at the container"
    ANSWER = "answer the local discharge with the container's answer"


_S, _E, _A = BranchState, BranchEvent, BranchAction

TRANSITIONS: Final[Mapping[tuple[BranchState, BranchEvent], tuple[BranchState, BranchAction]]] = {
    (_S.DECLARING, _E.DECLARED): (_S.OPEN, _A.WORK),
    (_S.DECLARING, _E.REFUSED): (_S.NONE, _A.REFUSE_WORK),
    (_S.DECLARING, _E.COMMIT): (_S.DECLARING, _A.IGNORE),  # repeated once it is declared
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
    (_S.DISCHARGING, _E.REFUSED): (_S.DISCHARGING, _A.IGNORE),  # the discharge gets its own answer
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
