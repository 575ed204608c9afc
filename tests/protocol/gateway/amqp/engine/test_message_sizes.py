"""The largest message that a receiver takes (part 2, 2.7.3): larger ones are refused to their senders, not sent."""

from __future__ import annotations

import pytest

from tests.protocol.conftest import Served
from tests.support.amqp.messages import message
from tests.support.amqp.peer import Peer

TOO_LARGE = "amqp:link:message-size-exceeded"


def limited(served: Served, address: str, size: int) -> Peer:
    receiver = served.peer()
    receiver.attach_receiver(address, max_message_size=size)
    receiver.flow(0, link_credit=10)
    return receiver


@pytest.mark.parametrize("address", ["chat/sizes", "news/sizes"])
def test_what_is_larger_than_its_receiver_takes_is_rejected(served: Served, address: str) -> None:
    with limited(served, address, 100) as receiver, served.peer() as sender:
        sender.attach_sender(address)
        sender.until("flow", link_credit=10)
        sender.transfer(message(bytes(200)))
        state = sender.until("disposition", first=0, settled=True).state
        assert (state.name, state["error"]["condition"]) == ("rejected", TOO_LARGE)
        sender.transfer(message(bytes(200)), settled=True)
        sender.transfer(message(b"small"))
        transfer = receiver.until("transfer")
        assert transfer.payload == message(b"small")
        receiver.disposition(transfer.delivery_id, "accepted")
        sender.until("disposition", first=2, state="accepted")


def test_a_log_goes_on_behind_an_event_that_is_too_large(served: Served) -> None:
    with limited(served, "events/sizes", 1000) as receiver, served.peer() as sender:
        sender.attach_sender("events/sizes")
        sender.until("flow", handle=0)
        for number, body in enumerate((b"one", bytes(2000), b"two")):
            sender.transfer(message(body))
            sender.until("disposition", first=number, state="accepted")
        found = [receiver.until("transfer").payload for _ in range(2)]
        assert [body in data for body, data in zip((b"one", b"two"), found, strict=True)] == [True, True]
