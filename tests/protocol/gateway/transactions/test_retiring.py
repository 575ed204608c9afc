"""Outcomes in transactions, of messages of direct nodes: their senders get them when the transaction is committed."""

from __future__ import annotations

import pytest

from tests.protocol.conftest import Served
from tests.support.amqp.messages import message, sections
from tests.support.gateway.crossing import Inbox, Outbox
from tests.support.transactions.controller import Controller, in_transaction


def receiving(served: Served, address: str) -> tuple[Controller, Inbox, Outbox]:
    """A controller with a receiver, and the sender of its messages."""
    peer = served.peer()
    controller, inbox = Controller(peer), Inbox(peer, address, 1)
    outbox = Outbox(served.peer(), address)
    outbox.credit()
    return controller, inbox, outbox


@pytest.mark.parametrize("settled", [True, False])
@pytest.mark.parametrize("outcome", ["accepted", "rejected", "released"])
def test_the_sender_gets_the_outcome_when_it_is_committed(served: Served, outcome: str, settled: bool) -> None:
    controller, inbox, outbox = receiving(served, "chat/retired")
    txn_id, delivery = controller.declare(), outbox.post(message(b"1"))
    transfer = inbox.transfer()
    inbox.peer.disposition(transfer.delivery_id, in_transaction(txn_id, outcome), settled=settled)
    untouched = outbox.post(message(b"2"))
    inbox.take()
    assert outbox.outcome(untouched).matches("accepted")
    assert delivery not in outbox.outcomes
    assert controller.discharge(txn_id).matches("accepted")
    assert outbox.outcome(delivery).matches(outcome)


def test_a_settled_message_has_failed_when_it_is_rolled_back(served: Served) -> None:
    controller, inbox, outbox = receiving(served, "chat/failed")
    txn_id, delivery = controller.declare(), outbox.post(message(b"1"))
    inbox.peer.disposition(inbox.transfer().delivery_id, in_transaction(txn_id, "accepted"))
    assert controller.discharge(txn_id, fail=True).matches("accepted")
    assert outbox.outcome(delivery).matches({"delivery_failed": True})


def test_an_unsettled_message_keeps_no_outcome_when_it_is_rolled_back(served: Served) -> None:
    controller, inbox, outbox = receiving(served, "chat/again")
    first, second, delivery = controller.declare(), controller.declare(), outbox.post(message(b"1"))
    number = inbox.transfer().delivery_id
    inbox.peer.disposition(number, in_transaction(first, "released"), settled=False)
    assert controller.discharge(first, fail=True).matches("accepted")
    inbox.peer.disposition(number, in_transaction(second, "accepted"), settled=False)
    assert controller.discharge(second).matches("accepted")
    assert outbox.outcome(delivery).matches("accepted")


def test_a_message_may_be_settled_without_an_outcome_after_the_rollback(served: Served) -> None:
    """Its state in the transaction holds no more, so its sender is told as much as its receiver has said."""
    controller, inbox, outbox = receiving(served, "chat/undone")
    txn_id, delivery = controller.declare(), outbox.post(message(b"1"))
    number = inbox.transfer().delivery_id
    inbox.peer.disposition(number, in_transaction(txn_id, "released"), settled=False)
    assert controller.discharge(txn_id, fail=True).matches("accepted")
    inbox.peer.disposition(number, None, settled=True)
    assert outbox.outcome(delivery) is None
    outbox.post(message(b"2"))
    assert sections(inbox.take())["data"] == b"2"


LATER = [("released", False, "released"), ("released", True, "released"), (None, True, "accepted")]
"""What the receiver says after `accepted`, whether it settles then, and what the sender is told."""


@pytest.mark.parametrize(("later", "settled", "told"), LATER)
def test_the_last_outcome_of_a_message_in_a_transaction_holds(
    served: Served, later: str | None, settled: bool, told: str
) -> None:
    """A receiver may settle after it has given an outcome (2.6.12), and may think better of it before."""
    controller, inbox, outbox = receiving(served, "chat/twice")
    txn_id, delivery = controller.declare(), outbox.post(message(b"1"))
    number = inbox.transfer().delivery_id
    inbox.peer.disposition(number, in_transaction(txn_id, "accepted"), settled=False)
    inbox.peer.disposition(number, None if later is None else in_transaction(txn_id, later), settled=settled)
    assert controller.discharge(txn_id).matches("accepted")
    assert outbox.outcome(delivery).matches(told)


def test_a_message_that_is_settled_without_an_outcome_has_failed(served: Served) -> None:
    """As for any state that is no outcome (3.5.3); one that is not settled still waits for its outcome."""
    controller, inbox, outbox = receiving(served, "chat/undecided")
    txn_id, delivery = controller.declare(), outbox.post(message(b"1"))
    number = inbox.transfer().delivery_id
    for settled in (False, True):
        inbox.peer.disposition(number, in_transaction(txn_id), settled=settled)
    assert controller.discharge(txn_id).matches("accepted")
    assert outbox.outcome(delivery).matches({"delivery_failed": True})


@pytest.mark.row("AT-2.2.2-12")
def test_an_outcome_in_an_unknown_transaction_ends_the_link(served: Served) -> None:
    _, inbox, outbox = receiving(served, "chat/unknown")
    delivery = outbox.post(message(b"1"))
    inbox.peer.disposition(inbox.transfer().delivery_id, in_transaction(b"unknown", "accepted"))
    inbox.peer.until("detach", error="amqp:transaction:unknown-id")
    assert outbox.outcome(delivery).matches({"delivery_failed": True})


def test_messages_are_retired_and_posted_in_one_transaction(served: Served) -> None:
    """What is consumed and what is made of it hold together, or not at all."""
    controller, inbox, outbox = receiving(served, "chat/from")
    results = Inbox(served.peer(), "chat/to")
    output = Outbox(controller.peer, "chat/to", 2)
    output.credit()
    for fail in (True, False):
        txn_id, delivery = controller.declare(), outbox.post(message(b"in"))
        inbox.peer.disposition(inbox.transfer().delivery_id, in_transaction(txn_id, "accepted"))
        output.send(message(b"out %d" % fail), state=in_transaction(txn_id))
        discharging = controller.discharging(txn_id, fail=fail)
        if not fail:
            assert sections(results.take())["data"] == b"out 0"
        assert controller.outcome(discharging).matches("accepted")
        assert outbox.outcome(delivery).matches({"delivery_failed": True} if fail else "accepted")
