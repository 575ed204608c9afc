"""Resumed transfers (part 2, 2.7.5): no attach of ours has an unsettled map, so all of them are ignored."""

from __future__ import annotations

import pytest

from tests.protocol.conftest import Served
from tests.support.amqp.frames import composite
from tests.support.amqp.messages import message

RECEIVED = composite("received", section_number=0, section_offset=0)


@pytest.mark.parametrize("settled", [True, False])
@pytest.mark.parametrize("state", [None, composite("accepted"), RECEIVED])
@pytest.mark.parametrize("payload", [message(b"again"), b""])
def test_a_resumed_delivery_is_no_message(served: Served, payload: bytes, state: object, settled: bool) -> None:
    with served.peer() as sender, served.peer() as receiver:
        receiver.attach_receiver("chat/resumed")
        receiver.flow(0, link_credit=1)
        sender.attach_sender("chat/resumed")
        sender.until("flow", link_credit=1)
        for _ in range(3):  # none uses up the receiver's one credit
            sender.transfer(payload, resume=True, state=state, settled=settled)
            sender.until("flow", delivery_count=sender.last_delivery + 1, link_credit=1)
        sender.transfer(message(b"new"))
        transfer = receiver.until("transfer")
        assert transfer.payload == message(b"new")
        receiver.disposition(transfer.delivery_id, "accepted")
        assert sender.expect("disposition", first=3, settled=True, state="accepted")


def test_a_transfer_with_a_state_that_is_not_resumed_is_a_message(served: Served) -> None:
    with served.peer() as sender, served.peer() as receiver:
        receiver.attach_receiver("chat/stated")
        receiver.flow(0, link_credit=1)
        sender.attach_sender("chat/stated")
        sender.until("flow", link_credit=1)
        sender.transfer(message(b"new"), resume=False, state=RECEIVED)
        assert receiver.until("transfer").payload == message(b"new")
