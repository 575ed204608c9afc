"""What one link sends in one transaction of its receiver (AMQP 1.0 part 4, 4.4.3 and 4.4.4; decision 99).

After a rollback the messages are available again: their node gets `released` for each, and so does the receiver, unless
they are settled. After a commit those without an outcome are deliveries like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from gateway.agenda import Agenda
from gateway.amqp.link.dispositions import SettledRetirement, UnsettledRetirement, bulky
from gateway.amqp.link.outcomes import ACCEPTED, FAILED, RELEASED, SETTLED, Outcome, Provisional
from gateway.amqp.link.transactions import Retirement, RetiringLink
from gateway.errors import TRANSACTION_ROLLBACK, AmqpError
from gateway.transactions.acquisition_states import (
    MAX_ACQUIRED,
    OUTCOMES,
    TRANSITIONS,
    AcquisitionAction,
    AcquisitionEvent,
    AcquisitionState,
    OutcomeAction,
    Told,
)

if TYPE_CHECKING:
    from gateway.amqp.link.handlers import SendContext
    from gateway.amqp.link.sender_link import SenderHalf
    from gateway.amqp.proton.handles import ProtonDelivery

_FOREIGN: Final = (
    "a message that was acquired in a transaction got an outcome outside of it before the discharge was answered"
)
_DEFAULT: Final = (OutcomeAction.RETIRE_DEFAULT, OutcomeAction.HOLD_DEFAULT)
_HELD: Final = (OutcomeAction.HOLD, OutcomeAction.HOLD_DEFAULT)


class AcquiringTransaction(Protocol):
    """What an acquisition uses of its transaction (`gateway.transactions.transaction.Transaction`)."""

    @property
    def txn_id(self) -> bytes: ...
    @property
    def agenda(self) -> Agenda: ...
    def hold(self, retired: Retirement) -> None: ...


class KnownTransactions(Protocol):
    """What it uses of all transactions of its connection (`gateway.transactions.table.TransactionTable`)."""

    def retire(self, link: RetiringLink, txn_id: bytes, retirement: Retirement) -> None: ...
    def violated(self, txn_id: bytes, error: AmqpError) -> None: ...


class Acquisition:
    """The messages that one link has sent in one transaction (`gateway.amqp.link.transactions.Acquiring`)."""

    def __init__(self, link: SenderHalf, transactions: KnownTransactions, transaction: AcquiringTransaction) -> None:
        self.txn_id: Final = transaction.txn_id
        self._link: Final = link
        self._handler: Final = link.handler  # which the link drops when it ends
        self._transactions: Final = transactions
        self._transaction: Final = transaction
        self._state = AcquisitionState.ACQUIRING
        self._stated: Final = Provisional(self.txn_id, SETTLED)
        self._unsettled: Final[dict[int, ProtonDelivery]] = {}
        self._left: Final[list[SendContext]] = []
        """The contexts of those that were unsettled when their link ended, and their bytes."""
        self._left_size = 0
        self._count = 0
        self._actions: Final[Mapping[AcquisitionAction, Callable[[], None]]] = {
            AcquisitionAction.HALT: self._recount,
            AcquisitionAction.KEEP: self._keep,
            AcquisitionAction.GIVE_BACK: self._give_back,
            AcquisitionAction.RESUME: self._resume,
        }

    # -- sending

    def send(self, data: bytes, context: SendContext, settled: bool) -> None:
        """Send a message in the transaction; one that goes settled is accepted in it."""
        link = self._link
        self._count += 1
        number, delivery = link.send_with_state(data, self._stated)
        if settled or link.presettled:
            link.settle_at_once(delivery)
            if context is not None:
                self._retire(SettledRetirement(link, context, ACCEPTED, RELEASED))
        else:
            link.unsettled.add(number, len(data), context)
            self._unsettled[number] = delivery
            link.acquired[number] = self
        if self._count >= MAX_ACQUIRED:
            link.window = 0

    def withholds(self) -> bool:
        """Whether the credit of the link is of no use now; a drain is then answered at once."""
        link = self._link
        room = MAX_ACQUIRED - self._count if self._state is AcquisitionState.ACQUIRING else 0
        link.window = min(link.window, room)
        if room <= 0 and link.draining:
            link.drained()
        return room <= 0

    # -- outcomes

    def told(
        self, number: int, delivery: ProtonDelivery, settled: bool, outcome: Outcome, txn_id: bytes | None
    ) -> None:
        """The receiver has given a message an outcome (SETTLED: none), in this transaction, another one or none."""
        told = Told.HERE if txn_id == self.txn_id else Told.OUTSIDE if txn_id is None else Told.ELSEWHERE
        if outcome is SETTLED and told is not Told.ELSEWHERE:
            if not settled:
                return
            told = Told.FORGOTTEN
        action = OUTCOMES[self._state][told]
        if action is OutcomeAction.VIOLATE:
            self._violated(self._take(number, delivery, settled=True), txn_id)
            return
        if action in _DEFAULT:
            default = self._link.default_outcome
            outcome = ACCEPTED if default is SETTLED else default  # KM-12
        if settled or bulky(outcome):
            before = self._link.unsettled.bytes
            context = self._take(number, delivery, settled=True)
            size = before - self._link.unsettled.bytes
            self._apply(action, SettledRetirement(self._link, context, outcome, RELEASED, number=number, size=size))
        else:
            self._apply(action, UnsettledRetirement(self._link, number, delivery, outcome))

    def accepted(self, number: int) -> None:
        """The receiver has accepted a message outside of any transaction; it is settled already."""
        context = self._take(number, self._unsettled[number], settled=False)
        if OUTCOMES[self._state][Told.OUTSIDE] is OutcomeAction.VIOLATE:
            self._violated(context, None)
        else:
            self._apply(OutcomeAction.HOLD, SettledRetirement(self._link, context, ACCEPTED, RELEASED))

    def _apply(self, action: OutcomeAction, retirement: Retirement) -> None:
        if action in _HELD:
            self._transaction.hold(retirement)
        else:
            self._retire(retirement)

    def _retire(self, retirement: Retirement) -> None:
        self._transactions.retire(self._link, self.txn_id, retirement)

    def _take(self, number: int, delivery: ProtonDelivery, *, settled: bool) -> SendContext:
        """A message is this acquisition's no more; `settled`: its receiver has settled it, or cannot have it."""
        del self._unsettled[number]
        del self._link.acquired[number]
        context = self._link.unsettled.take(number)
        if settled:
            self._link.settle_at_once(delivery)
        return context

    def _violated(self, context: SendContext, other: bytes | None) -> None:
        """4.4.2 and 4.4.4: the outcome must be in the same transaction. The controller of both is told so."""
        self._handler.on_outcome(context, RELEASED)
        error = AmqpError(TRANSACTION_ROLLBACK, _FOREIGN)
        for txn_id in (self.txn_id, other):
            if txn_id is not None:
                self._transactions.violated(txn_id, error)

    # -- the transaction

    def notice(self, event: AcquisitionEvent) -> None:
        """See `Acquirer`."""
        self._state, action = TRANSITIONS[self._state][event]
        if (act := self._actions.get(action)) is not None:
            act()

    def _keep(self) -> None:
        self._forget()
        self._transaction.agenda.add(self._ended(FAILED))  # as at the end of any link: their outcomes will never come

    def _give_back(self) -> None:
        self._recount()  # else they would come again at once
        self._transaction.agenda.add(self._given_back())

    def _given_back(self) -> Iterator[Callable[[], None]]:
        link = self._link
        for number in list(self._unsettled):
            if (delivery := self._unsettled.pop(number, None)) is not None:  # else it has an outcome, or its link ended
                del link.acquired[number]
                yield partial(link.settle_sent, number, delivery, RELEASED)
        yield from self._ended(RELEASED)

    def _forget(self) -> dict[int, ProtonDelivery]:
        """Those that are unsettled, which are this acquisition's no more."""
        messages = dict(self._unsettled)
        self._unsettled.clear()
        for number in messages:
            del self._link.acquired[number]
        return messages

    def _ended(self, outcome: Outcome) -> Iterator[Callable[[], None]]:
        """Give those an outcome whose link has ended."""
        left = list(self._left)
        self._left.clear()
        self._link.keep(-self._left_size)
        self._left_size = 0
        for context in left:
            yield partial(self._handler.on_outcome, context, outcome)

    def _resume(self) -> None:
        if self._link.acquisition is self:
            self._link.acquisition = None
            self._link.flow_later()

    def _recount(self) -> None:
        if self._link.acquisition is self:
            self._link.window = 0
            self._link.flow_later()

    def link_ended(self) -> None:
        """The link has ended: its messages wait for the end of the transaction all the same."""
        unsettled = self._link.unsettled
        before = unsettled.bytes
        self._left.extend([unsettled.take(number) for number in self._forget()])
        size = before - unsettled.bytes
        self._left_size += size
        self._link.keep(size)  # their nodes have them until then
