"""One transaction: its state, its resource, and what ends it (AMQP 1.0 part 4, 4.3 and 4.4).

Nothing here knows the wire, the loop or a clock. `discharge` and `end` tell the resource, whose answer may come later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, Protocol, cast

from gateway.agenda import Agenda, Soon
from gateway.amqp.link.outcomes import ACCEPTED, Provisional
from gateway.amqp.link.transactions import Answer, Branch, BranchT, Resource, Retirement, WaitingWork
from gateway.errors import (
    NOT_IMPLEMENTED,
    RESOURCE_LIMIT_EXCEEDED,
    TRANSACTION_ROLLBACK,
    TRANSACTION_TIMEOUT,
    TRANSACTION_UNKNOWN,
    AmqpError,
)
from gateway.transactions.acquisition_states import AcquisitionEvent
from gateway.transactions.order import WorkOrder
from gateway.transactions.states import TRANSITIONS, TransactionAction, TransactionEvent, TransactionState

_MIXED: Final = (
    "this transaction already works on {first}, and {other} cannot be committed together with it: "
    "use another transaction for it"
)
MAX_RETIREMENTS: Final = 100_000
"""Outcomes of messages that one transaction may have."""


class Acquirer(Protocol):
    """What one link has sent in one transaction (4.4.3)."""

    def notice(self, event: AcquisitionEvent) -> None:
        """Something has happened to the transaction."""


class Transaction:
    """A transaction from its declaration to its discharge."""

    def __init__(
        self,
        txn_id: bytes,
        started: Callable[[], None],
        ended: Callable[[], None],
        violated: Callable[[AmqpError], None] | None = None,
        soon: Soon | None = None,
    ) -> None:
        """`started`: its first work has come. `ended`: its id is unknown from now on.

        `violated` ends the link to its coordinator. `soon` schedules a call for a later turn of the loop.
        """
        self.txn_id: Final = txn_id
        self.accepted: Final = Provisional(txn_id, ACCEPTED)
        """The outcome of nearly all of its messages."""
        self.state = TransactionState.ACTIVE
        self._reason: AmqpError | None = None
        """Why it can only be rolled back, or was."""
        self.agenda: Final = Agenda(soon)
        self.order: Final = WorkOrder(self.agenda)
        self.retired: list[Retirement] = []
        self._proposed: Final[dict[tuple[object, int], Retirement]] = {}
        """The last outcomes of messages that are not settled, by link and number."""
        self._working = False
        self._started: Final = started
        self._ended: Final = ended
        self._resource: Resource[Branch] | None = None
        self._branch: Branch | None = None
        self._answer: Answer | None = None
        self._watching: list[Callable[[bool], None]] = []
        self._violated: Final = violated
        self._acquirers: dict[object, Acquirer] = {}
        """By link."""

    # -- work

    def enlist(self, resource: Resource[BranchT]) -> BranchT:
        """The branch of a resource for work in this transaction; raises AmqpError if it takes none of it."""
        self.check()
        if self._resource is None:
            self._branch, self._resource = resource.begin(self), resource
            self._start()
        elif self._resource is not resource:
            text = _MIXED.format(first=self._resource.title, other=resource.title)
            raise AmqpError(NOT_IMPLEMENTED, text)
        return cast(BranchT, self._branch)  # it is of the same resource

    def enlisted(self, resource: Resource[BranchT]) -> BranchT | None:
        """See `Enlisting`."""
        working = self.state is TransactionState.ACTIVE and self._resource is resource and not self.order.waits
        return cast(BranchT, self._branch) if working else None

    def check(self, scope: str | None = None) -> None:
        """Raise the error of work that comes now, if it is too late for it; it is of `scope`, the controller's."""
        if self._step(TransactionEvent.WORK) is TransactionAction.REFUSE:
            raise self._refusal().of(scope).with_traceback(None)  # else the same error keeps the frames of each time

    def retire(self, retired: Retirement) -> None:
        """Give a message its outcome when the transaction is discharged; raises AmqpError if there are too many."""
        if len(self.retired) >= MAX_RETIREMENTS:
            text = f"a transaction may retire at most {MAX_RETIREMENTS} messages: discharge it earlier"
            raise AmqpError(RESOURCE_LIMIT_EXCEEDED, text)
        self._start()
        if self._proposed or not retired.settled:
            self._propose(retired)
        self.retired.append(retired)

    def _propose(self, retired: Retirement) -> None:
        if (earlier := self._proposed.pop(retired.message, None)) is not None:
            earlier.replace()
        if not retired.settled:
            self._proposed[retired.message] = retired

    def wait_for(self, work: WaitingWork) -> None:
        """See `Enlisting`: its time limits the wait."""
        self._start()
        self.order.wait_for(work)

    def go_on(self, work: WaitingWork) -> None:
        """See `Enlisting`."""
        self.order.go_on(work)

    def acquire(self, link: object, acquirer: Acquirer) -> None:
        """What a link sends is acquired in this transaction (4.4.3)."""
        self._start()
        self._acquirers[link] = acquirer

    def acquirer(self, link: object) -> Acquirer | None:
        """What this link has acquired in it before."""
        return self._acquirers.get(link)

    def hold(self, retired: Retirement) -> None:
        """Give an acquired message its outcome when the discharge, which is under way, is done."""
        self.retired.append(retired)

    def violated(self, error: AmqpError) -> None:
        """Its controller has broken a rule."""
        if self._violated is not None:
            self._violated(error)

    def _start(self) -> None:
        """Its time begins with its first work."""
        if not self._working:
            self._working = True
            self._started()

    @property
    def failure(self) -> AmqpError | None:
        """See `Enlisting`."""
        return self._reason

    def fail(self, error: AmqpError) -> None:
        """Work has failed, and no outcome says so: from now on it can only be rolled back (4.4.4)."""
        self._step(TransactionEvent.FAILURE)
        if self._reason is None:
            text = f"the transaction can only be rolled back: {error.condition}: {error.description}"
            self._reason = AmqpError(TRANSACTION_ROLLBACK, text, info=error.info, fault=error.fault)
        self._notice(AcquisitionEvent.FAILED)

    def at_end(self, told: Callable[[bool], None]) -> None:
        """See `Enlisting`."""
        self._watching.append(told)

    def when_done(self, call: Callable[[], None]) -> None:
        """See `Enlisting`."""
        self.agenda.add([call])

    # -- the end

    def discharge(self, *, fail: bool, then: Answer) -> None:
        """Commit after all earlier work, or roll back at once if `fail`; `then` gets the result, now or later."""
        if fail and not self.order.discharged:
            self.order.give_up()
        if self.order.waits:
            self._notice(AcquisitionEvent.DISCHARGE)
            self.order.discharge(partial(self._discharge, fail, then))
        else:
            self._discharge(fail, then)

    def _discharge(self, fail: bool, then: Answer) -> None:
        action = self._step(TransactionEvent.ROLLBACK if fail else TransactionEvent.COMMIT)
        if action is TransactionAction.REFUSE:
            self.agenda.add([partial(self._refused, then)])
            return
        self._notice(AcquisitionEvent.DISCHARGE)
        self._answer = self._answer_to(fail, then)
        if action is TransactionAction.COMMIT:
            self._commit()
        elif action is TransactionAction.ROLL_BACK:
            self._roll_back()
        else:
            self.agenda.add([partial(self._finished, None)])

    def _refused(self, then: Answer) -> None:
        self._forget_if_ended()
        then(self._refusal())
        self._release_acquirers()

    def _answer_to(self, fail: bool, then: Answer) -> Answer:
        """What the resource's answer means: a rollback that is asked for succeeds in any case."""
        if fail:
            return lambda _: then(None)
        if self._reason is None:
            return then
        return lambda error: then(error or self._refusal())

    def lost(self) -> None:
        """The link to the coordinator has ended: roll back, unless the discharge is on its way (4.1)."""
        if self.order.discharged:
            return
        self.order.give_up()
        if self._step(TransactionEvent.LOST) is TransactionAction.ROLL_BACK:
            self._roll_back()
        self.agenda.add([self._forget_if_ended, self._release_acquirers])

    def time_out(self) -> None:
        """Its time is over: roll back; the controller learns it from its next work or its discharge."""
        self._reason = AmqpError(TRANSACTION_TIMEOUT, "the transaction took too long and was rolled back")
        if self._step(TransactionEvent.TIMEOUT) is TransactionAction.ROLL_BACK:
            self._roll_back()
        self.order.give_up()  # at last: a discharge that waits ends the transaction

    def _commit(self) -> None:
        if self._branch is None:
            self._committed(None)
        else:
            self._branch.commit(self._committed)

    def _committed(self, error: AmqpError | None) -> None:
        self._end(error is None, partial(self._finished, error))

    def _roll_back(self) -> None:
        self._end(False, self._roll_back_branch)

    def _roll_back_branch(self) -> None:
        if self._branch is None:
            self._finished(None)
        else:
            self._branch.roll_back(self._finished)

    def _end(self, committed: bool, then: Callable[[], None]) -> None:
        """Give all messages their outcomes, which may take several turns, and go on with `then`."""
        self._notice(AcquisitionEvent.COMMITTED if committed else AcquisitionEvent.ROLLED_BACK)
        self.agenda.add(self._outcomes(committed))
        self.agenda.add([then])

    def _outcomes(self, committed: bool) -> Iterator[Callable[[], None]]:
        yield partial(self._tell, committed)
        while self.retired:  # acquired messages may get outcomes meanwhile
            retired, self.retired = self.retired, []
            for each in retired:
                yield each.commit if committed else each.roll_back

    def _tell(self, committed: bool) -> None:
        told, self._watching = self._watching, []
        for each in told:
            each(committed)

    def _finished(self, error: AmqpError | None) -> None:
        self._step(TransactionEvent.FINISHED)
        answer, self._answer = self._answer, None
        self._forget_if_ended()
        if answer is not None:
            answer(error)
        self._release_acquirers()

    def _notice(self, event: AcquisitionEvent) -> None:
        for each in list(self._acquirers.values()):
            each.notice(event)

    def _release_acquirers(self) -> None:
        """The controller knows how the transaction has ended: its links use their credit outside of it."""
        if self.state is TransactionState.ENDED:
            self._notice(AcquisitionEvent.FORGOTTEN)
            self._acquirers.clear()

    def _forget_if_ended(self) -> None:
        if self.state is TransactionState.ENDED:
            self._ended()

    def _step(self, event: TransactionEvent) -> TransactionAction:
        self.state, action = TRANSITIONS[self.state][event]
        return action

    def _refusal(self) -> AmqpError:
        """Why work or a discharge is refused now."""
        return self._reason or AmqpError(TRANSACTION_UNKNOWN, "the transaction is already discharged")
