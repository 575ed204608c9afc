"""The link to the coordinator: declare and discharge (AMQP 1.0 part 4, 4.1 to 4.3)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from gateway.amqp.link.handlers import Delivery, Incoming
from gateway.amqp.link.outcomes import ACCEPTED, Declared, Rejected
from gateway.errors import ILLEGAL_STATE, INTERNAL_ERROR, TRANSACTION_ROLLBACK, TRANSACTION_UNKNOWN, AmqpError
from gateway.transactions.table import TransactionTable
from gateway.transactions.wire import Declare, Discharge, read_request

if TYPE_CHECKING:
    from gateway.amqp.link.link import Link
    from gateway.transactions.table import TransactionLimits
    from gateway.transactions.transaction import Transaction

CAPABILITIES: Final = ("amqp:local-transactions", "amqp:multi-txns-per-ssn", "amqp:multi-ssns-per-txn")
_WINDOW: Final = 100
"""Requests that a controller may have without an answer."""
_MAX_SIZE: Final = 4096
"""Bytes of a request."""


def attach_coordinator(link: Link, limits: TransactionLimits) -> None:
    """Accept a link to the coordinator; its connection has transactions from now on."""
    table = link.engine.peer.transactions
    if not isinstance(table, TransactionTable):
        table = link.engine.peer.transactions = TransactionTable()
    link.accept(CoordinatorLink(link, table, limits), capabilities=CAPABILITIES, max_message_size=_MAX_SIZE)
    link.grant(_WINDOW)


class CoordinatorLink(Incoming):
    """The handler of a controller's link; its transactions end with it."""

    def __init__(self, link: Link, table: TransactionTable, limits: TransactionLimits) -> None:
        self._link: Final = link
        self._table: Final = table
        self._limits: Final = limits
        self._own: Final[dict[bytes, Transaction]] = {}

    def on_transfer(self, delivery: Delivery, data: bytes, settled: bool) -> None:
        """A declare or a discharge."""
        if settled:  # its answer is an outcome (4.2, 4.3)
            self._link.detach(AmqpError(ILLEGAL_STATE, "a declare or discharge must not be sent settled"))
            return
        try:
            request = read_request(data)
            if isinstance(request, Declare):
                self._declare(delivery)
            else:
                self._discharge(delivery, request)
        except AmqpError as error:
            self._answer(delivery, error)

    def _declare(self, delivery: Delivery) -> None:
        transaction = self._table.declare(self._limits, self._own.pop, self._link.detach)
        self._own[transaction.txn_id] = transaction
        self._link.settle(delivery, Declared(transaction.txn_id))
        self._link.grant(1)

    def _discharge(self, delivery: Delivery, request: Discharge) -> None:
        transaction = self._find(request.txn_id)
        if self._table.in_parts(request.txn_id):  # an error, whatever it asks for: the link ends (4.4.1)
            text = "a transaction was discharged before a message in it had come whole"
            self._link.detach(AmqpError(TRANSACTION_ROLLBACK, text))
            return
        transaction.discharge(fail=request.fail, then=partial(self._answer, delivery))

    def _find(self, txn_id: bytes) -> Transaction:
        if (transaction := self._own.get(txn_id)) is None:
            text = f"no transaction of this coordinator has the id {txn_id[:32].hex()}"
            raise AmqpError(TRANSACTION_UNKNOWN, text)
        return transaction

    def _answer(self, delivery: Delivery, error: AmqpError | None) -> None:
        """The result of a request; the link ends if its controller does not support `rejected` (AT-2.2.2-8)."""
        link = self._link
        if error is None:
            link.settle(delivery, ACCEPTED)
        elif link.rejects and error.condition != INTERNAL_ERROR:  # then nobody knows whether it was committed
            link.message_refused(error)
            link.settle(delivery, Rejected(error))
        else:
            link.detach(error)
        link.grant(1)

    def on_detach(self, error: AmqpError | None) -> None:
        """Roll back what is not discharged (4.1)."""
        for transaction in list(self._own.values()):
            transaction.lost()
