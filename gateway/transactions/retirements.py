"""Outcomes of messages in a transaction (AMQP 1.0 part 4, 4.4.2), each in its turn (`order`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.amqp.link.transactions import PostingHandler, Retirement, RetiringLink
from gateway.errors import TRANSACTION_ROLLBACK, AmqpError

if TYPE_CHECKING:
    from gateway.transactions.transaction import Transaction

_GONE: Final = "a message of the transaction has another outcome, or its link has ended, before this one had its turn"
_LATE: Final = "a link of the transaction had ended when a message or an outcome came on it: repeat the transaction"


def retire_in_turn(transaction: Transaction, link: RetiringLink, retirement: Retirement) -> None:
    """The peer gave a message on `link` an outcome; if that cannot be, the transaction fails."""
    if not transaction.order.waits:
        _retire(transaction, link, link.handler, retirement)
        return
    try:
        transaction.order.add(_QueuedRetirement(transaction, link, retirement), link.scope)
    except AmqpError as error:
        _fail(transaction, link, retirement, error)
    else:
        retirement.hold(True)


def _retire(transaction: Transaction, link: RetiringLink, handler: PostingHandler, retirement: Retirement) -> None:
    try:
        transaction.check(link.scope)
        handler.on_retire(transaction, retirement)
        transaction.retire(retirement)
    except AmqpError as error:
        _fail(transaction, link, retirement, error)


def _fail(transaction: Transaction, link: RetiringLink, retirement: Retirement, error: AmqpError) -> None:
    transaction.fail(error.of(link.behind).told_to(link.scope))
    retirement.roll_back()


def fail_late(transaction: Transaction, link: RetiringLink) -> None:
    """A message or an outcome of the peer came too late on a link: the rest of its work must not hold without that."""
    transaction.fail(AmqpError(TRANSACTION_ROLLBACK, _LATE, scope=link.scope))


class _QueuedRetirement:
    """An outcome whose turn is still to come (`order.QueuedWork`)."""

    def __init__(self, transaction: Transaction, link: RetiringLink, retirement: Retirement) -> None:
        self._transaction: Final = transaction
        self._link: Final = link
        self._handler: Final = link.handler  # which the link drops when it ends
        self._retirement: Final = retirement

    def begin(self) -> None:
        """See `QueuedWork`; a message that is unsettled may have lost its link, or got another outcome."""
        retirement = self._retirement
        retirement.hold(False)
        if retirement.settled or retirement.open:
            _retire(self._transaction, self._link, self._handler, retirement)
        else:
            gone = AmqpError(TRANSACTION_ROLLBACK, _GONE, scope=self._link.scope)
            _fail(self._transaction, self._link, retirement, gone)

    def give_up(self) -> None:
        """See `WaitingWork`."""
        self._retirement.hold(False)
        self._retirement.roll_back()

    def keep(self) -> None:
        """See `WaitingWork`: it is accounted for all the time."""
