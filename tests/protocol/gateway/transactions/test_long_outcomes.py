"""What a receiver says at length in a transaction is charged to it, and takes no more memory (4.4.2, 4.5.6)."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.amqp.codec.codec import Symbol
from tests.protocol.conftest import Served
from tests.support.amqp.frames import composite, error
from tests.support.amqp.messages import message
from tests.support.amqp.peer import Peer
from tests.support.gateway.process import resident
from tests.support.transactions.controller import Controller, in_transaction

MESSAGES = 100
NULLS = [None] * 12_000
"""proton decodes each to some sixty bytes."""
SAID = {
    "annotations": composite("modified", message_annotations={Symbol("x-opt-why"): NULLS}),
    "info": composite("rejected", error=error("vendor:no", "short", {Symbol("why"): NULLS})),
}
KEPT = 'scopegate_held_bytes{kind="kept"}'


def said(served: Served, address: str, outcome: Any, *, settled: bool) -> tuple[Peer, Peer, Controller, bytes]:
    """A receiver that has said this of many messages, one by one, in a transaction; also who sent them."""
    receiver, sender = served.peer(), served.peer()
    controller = Controller(receiver)
    txn_id = controller.declare()
    receiver.attach_receiver(address, 1)
    receiver.flow(1, link_credit=MESSAGES)
    sender.attach_sender(address)
    sender.until("flow")
    for _ in range(MESSAGES):
        sender.transfer(message())
    for _ in range(MESSAGES):
        last = receiver.until("transfer").delivery_id
    for number in range(last - MESSAGES + 1, last + 1):
        receiver.disposition(number, in_transaction(txn_id, outcome), settled=settled)
    return receiver, sender, controller, txn_id


@pytest.mark.parametrize("rolls_back", [False, True], ids=["commit", "rollback"])
@pytest.mark.parametrize("settled", [False, True], ids=["unsettled", "settled"])
@pytest.mark.parametrize("what", SAID)
def test_it_is_charged_until_the_transaction_ends(served: Served, what: str, settled: bool, rolls_back: bool) -> None:
    """A rollback of 200 such outcomes made the process grow by 800 MB, which no account had."""
    before, size = resident(served.gateway.process.pid), 12_000 * MESSAGES
    address = f"chat/{what}-{settled}-{rolls_back}"
    receiver, sender, controller, txn_id = said(served, address, SAID[what], settled=settled)
    with receiver, sender:
        served.gateway.wait_metric(KEPT, lambda held: held >= size)
        assert controller.discharge(txn_id, fail=rolls_back).name == "accepted"
        outcome = sender.until("disposition").state
        assert outcome.name == ("modified" if rolls_back or what == "annotations" else "rejected")
        served.gateway.wait_metric(KEPT, lambda held: held == 0)
        assert resident(served.gateway.process.pid) - before < 40 * size


def test_it_is_charged_no_more_when_its_connection_is_lost(served: Served) -> None:
    receiver, sender, _, _ = said(served, "chat/lost", SAID["annotations"], settled=False)
    served.gateway.wait_metric(KEPT, bool)
    receiver.disconnect()
    with sender:
        assert sender.until("disposition").state.name == "modified"
        served.gateway.wait_metric(KEPT, lambda held: held == 0)
