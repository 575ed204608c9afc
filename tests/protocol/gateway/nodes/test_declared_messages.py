"""Only a coordinator can declare a transaction: of any other message that state says nothing (part 4, 4.5.5)."""

from __future__ import annotations

from tests.protocol.conftest import Served
from tests.support.amqp.frames import composite
from tests.support.amqp.messages import message


def test_a_receiver_that_declares_a_transaction_has_not_said_what_became_of_the_message(served: Served) -> None:
    sender, receiver = served.pair("chat/declared")
    with sender, receiver:
        sender.transfer(message())
        receiver.disposition(receiver.until("transfer").delivery_id, composite("declared", txn_id=b"1"))
        assert sender.until("disposition").state.matches({"delivery_failed": True})
