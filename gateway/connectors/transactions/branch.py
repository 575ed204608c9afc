"""The part of a container in one transaction (`gateway.amqp.link.transactions.Branch`; KM-14, decision 83).

The container's transaction is declared with the first work, and discharged when all work has its outcome. This module
uses neither the wire nor a clock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from gateway.amqp.link.outcomes import ACCEPTED, RELEASED, Declared, Rejected
from gateway.amqp.link.transactions import Answer, Enlisting
from gateway.connectors.transactions.coordinator import CoordinatorReply, LostBranch, ReplyListener
from gateway.connectors.transactions.states import TRANSITIONS, BranchAction, BranchEvent, BranchState
from gateway.connectors.transactions.work import WorkOwner
from gateway.errors import DETACH_FORCED, INTERNAL_ERROR, TRANSACTION_ROLLBACK, AmqpError, Fault
from gateway.routing.fair_share import Timer
from gateway.transactions.wire import declare, discharge

PATIENCE: Final = 30.0
"""Timeout of each step of a discharge, in seconds: the outcomes of all work, then the container's answer."""
_TRANSACTION: Final = "amqp:transaction:"


class ControllerLink(Protocol):
    """The part of the link to the container's coordinator (`coordinator.RemoteCoordinator`) that a branch uses."""

    @property
    def branches(self) -> dict[LostBranch, None]: ...
    def request(self, data: bytes, then: ReplyListener) -> None: ...


class RemoteWork(Protocol):
    """A post or a retirement (`work`)."""

    owner: WorkOwner | None

    def send(self, txn_id: bytes) -> bool:
        """Send it. Returns False without credit; `pump` is called later. Raises AmqpError if it cannot be sent."""

    def refuse(self, error: AmqpError) -> None: ...
    def give_up(self) -> None: ...


class RemoteBranch:
    """The work of one transaction at one container, in order."""

    def __init__(
        self,
        coordinator: ControllerLink,
        transaction: Enlisting,
        later: Callable[[float, Callable[[], None]], Timer],
    ) -> None:
        self.transaction: Final = transaction
        self._coordinator: Final = coordinator
        self._later: Final = later
        self._state = BranchState.DECLARING
        self._txn_id = b""
        self._waiting: deque[RemoteWork] = deque()
        self._unfinished = 0
        """Work without an outcome."""
        self._refusal: AmqpError | None = None
        """Why the container has no transaction; None while it may have one."""
        self._error: AmqpError | None = None
        """The answer to the local discharge after a rollback there."""
        self._committing = False
        self._then: Answer | None = None
        self._timer: Timer | None = None
        coordinator.branches[self] = None
        coordinator.request(declare(), self._declared)

    # -- work

    def check(self) -> None:
        """Raise the error of new work if the container has no transaction for it."""
        if self._refusal is not None:
            raise self._refusal.with_traceback(None)  # or the shared error would collect the frames of each raise

    def add(self, work: RemoteWork) -> None:
        """Send work after all earlier work. Raises as `check` does."""
        self.check()
        work.owner = self
        self._unfinished += 1
        self._waiting.append(work)
        self.pump()

    def pump(self) -> None:
        """Send the waiting work in order, up to a post without credit."""
        while self._state is BranchState.OPEN and self._waiting:
            work = self._waiting.popleft()
            try:
                if not work.send(self._txn_id):
                    self._waiting.appendleft(work)
                    return
            except AmqpError as error:
                work.refuse(error)

    def over(self) -> None:
        """Count work that has its outcome."""
        self._unfinished -= 1
        self._perhaps_commit()

    # -- the container's transaction

    def _after(self, event: BranchEvent) -> BranchAction:
        """Apply the transition for an event, and run its action."""
        self._state, action = TRANSITIONS[self._state, event]
        if action is BranchAction.WORK:
            self.pump()
            self._perhaps_commit()
        elif action is BranchAction.REFUSE_WORK:
            self._refuse_work()
        elif action is BranchAction.DISCHARGE:
            self._coordinator.request(discharge(self._txn_id, fail=False), self._committed)
        elif action in (BranchAction.UNDO, BranchAction.UNDO_UNHEARD):
            heard = action is BranchAction.UNDO
            self._coordinator.request(discharge(self._txn_id, fail=True), self._undone if heard else _ignore)
        elif action is BranchAction.CONCLUDE:
            self._finish(self._error or (self.transaction.failure if self._committing else None))
        return action

    def _declared(self, reply: CoordinatorReply) -> None:
        if isinstance(reply.outcome, Declared):
            self._txn_id = reply.outcome.txn_id
            self._after(BranchEvent.DECLARED)
            return
        known = reply.outcome.error if isinstance(reply.outcome, Rejected) else reply.error
        text = "the container behind this address did not declare a transaction"
        self._refusal = self._refusal or known or AmqpError(DETACH_FORCED, text, fault=Fault.BACKEND)
        self._after(BranchEvent.REFUSED)

    def lost(self, error: AmqpError) -> None:
        """See `LostBranch`."""
        if self._state is BranchState.OPEN:
            text = f"the container rolled the transaction back, because its coordinator's link ended: {error.condition}"
            self._refusal = AmqpError(TRANSACTION_ROLLBACK, text, fault=Fault.BACKEND)
            self.transaction.fail(self._refusal)
        self._after(BranchEvent.REFUSED)

    def _refuse_work(self) -> None:
        assert self._refusal is not None
        waiting, self._waiting = self._waiting, deque()
        for work in waiting:
            work.refuse(self._refusal)
        self._perhaps_commit()

    # -- the end

    def commit(self, then: Answer) -> None:
        """See `Branch`: commit when all work has its outcome, if none of it has failed without one."""
        self._then, self._committing = then, True
        self._timer = self._later(PATIENCE, self._impatient)
        self._perhaps_commit()

    def _perhaps_commit(self) -> None:
        if not self._committing or self._unfinished or self._state is BranchState.OVER:
            return
        failure = self.transaction.failure
        if failure is not None and self._state is BranchState.OPEN:
            self._error = failure
            self._after(BranchEvent.ROLLBACK)
        else:
            self._after(BranchEvent.COMMIT)

    def roll_back(self, then: Answer) -> None:
        """See `Branch`: answered after the container's answer, which can no longer be a commit, or after a timeout."""
        self._then = then
        self._timer = self._later(PATIENCE, self._impatient)
        self._give_up()

    def _give_up(self) -> None:
        waiting, self._waiting = self._waiting, deque()
        for work in waiting:
            work.give_up()
        self._after(BranchEvent.ROLLBACK)

    def _committed(self, reply: CoordinatorReply) -> None:
        """Handle the result of a commit."""
        if reply.outcome is RELEASED:  # it has not processed the discharge, so its transaction may be open
            self._coordinator.request(discharge(self._txn_id, fail=True), _ignore)
        if self._after(BranchEvent.ANSWERED) is BranchAction.ANSWER:
            self._finish(verdict(reply))

    def _undone(self, reply: CoordinatorReply) -> None:
        if self._after(BranchEvent.ANSWERED) is BranchAction.ANSWER:
            self._finish(self._error)

    def _impatient(self) -> None:
        """The container has not answered in time: its answer is ignored from now on."""
        if self._state is BranchState.DISCHARGING:
            self._committed(CoordinatorReply(error=AmqpError(INTERNAL_ERROR, "no answer", fault=Fault.BACKEND)))
        elif self._state is BranchState.UNDOING:
            self._undone(CoordinatorReply())
        else:
            text = "the container did not settle all messages of the transaction in time"
            self._error = AmqpError(TRANSACTION_ROLLBACK, text, fault=Fault.BACKEND)
            self._timer = self._later(PATIENCE, self._impatient)
            self._committing = False
            self._give_up()

    def _finish(self, error: AmqpError | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._coordinator.branches.pop(self, None)
        then, self._then = self._then, None
        if then is not None:
            then(error)


def _ignore(reply: CoordinatorReply) -> None:
    """Ignore the answer to a rollback that nothing waits for."""


def verdict(reply: CoordinatorReply) -> AmqpError | None:
    """The error of a container's answer to a commit: None if it committed, a rollback, or an unknown result (4.3)."""
    if reply.outcome is ACCEPTED:
        return None
    error = reply.outcome.error if isinstance(reply.outcome, Rejected) else reply.error
    why = "" if error is None else f": {error.condition}: {error.description}"
    told = error is not None and error.condition.startswith(_TRANSACTION) and reply.alone
    if isinstance(reply.outcome, Rejected) or reply.outcome is RELEASED or told or not reply.sent:
        text = f"the container rolled the transaction back{why}"
        return AmqpError(TRANSACTION_ROLLBACK, text, fault=Fault.BACKEND, scope=None if error is None else error.scope)
    return AmqpError(INTERNAL_ERROR, "the container did not say whether it has committed", fault=Fault.BACKEND)
