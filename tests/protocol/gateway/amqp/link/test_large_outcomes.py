"""What a receiver says at length of a message does no harm to the message's sender (2.6.12, 2.7.1, 3.4)."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.amqp.codec.codec import Described, Symbol
from tests.protocol.conftest import Served
from tests.support.amqp.frames import Frame, composite, error
from tests.support.amqp.messages import message
from tests.support.amqp.peer import SENDER, Peer
from tests.support.gateway.process import resident

SMALL = 512
"""The smallest max-frame-size (2.7.1)."""
ANNOTATIONS = {Symbol(f"x-opt-{number}"): "a" * number for number in range(60)}
SAID = {
    "annotations": composite("modified", delivery_failed=True, message_annotations=ANNOTATIONS),
    "text": composite("rejected", error=error("vendor:no", "why " * 500)),
    "info": composite("rejected", error=error("vendor:no", "short", {Symbol("more"): "i" * 2000})),
    "condition": composite("rejected", error=error("vendor:" + "no" * 1000, "short")),
}


def outcome_of(served: Served, address: str, state: Described, **opened: Any) -> Frame:
    """The outcome that the sender gets of its message, on a connection that stays."""
    with served.peer() as receiver, Peer(served.edge) as sender:
        sender.start(**opened)
        receiver.attach_receiver(address)
        receiver.flow(0, link_credit=1)
        sender.attach_sender(address)
        sender.until("flow")
        sender.transfer(message())
        receiver.expect("transfer")
        receiver.disposition(0, state)
        outcome = sender.expect("disposition", role=True, first=0, settled=True)
        sender.detach().until("detach", closed=True)
        return outcome


@pytest.mark.parametrize("said", SAID)
def test_an_outcome_that_is_too_large_for_the_sender_is_cut(served: Served, said: str) -> None:
    """A receiver's long text ended the connection of a sender with small frames: `amqp:frame-size-too-small`."""
    state = outcome_of(served, f"chat/small-{said}", SAID[said], max_frame_size=SMALL).state
    if said == "annotations":
        assert state.matches({"delivery_failed": True, "message_annotations": None})
    else:
        told = state["error"]
        assert told["info"] is None
        assert told["condition"].startswith("vendor:no")
        assert told["description"].startswith("why why" if said == "text" else "short")


def test_long_annotations_of_an_outcome_pass_unchanged(served: Served) -> None:
    """proton decoded them for each message, and kept 350 KB of memory for each of a thousand."""
    state = outcome_of(served, "chat/annotated", SAID["annotations"]).state
    assert state.matches({"delivery_failed": True, "message_annotations": ANNOTATIONS})
    assert not state["undeliverable_here"]


def test_a_long_error_for_many_messages_takes_little_memory(served: Served) -> None:
    """proton decoded it for each message: one disposition of 60 KB for 500 messages made the process grow by 2.2 GB."""
    before, many = resident(served.gateway.process.pid), 200
    state = composite("rejected", error=error("vendor:no", "short", {Symbol("why"): [None] * 12_000}))
    sender, receiver = served.pair("chat/long-errors", many)
    with receiver, sender:
        for _ in range(many):
            sender.transfer(message())
        for _ in range(many):
            receiver.expect("transfer")
        receiver.disposition(0, state, last=many - 1)
        told = 0
        while told < many:
            outcome = sender.until("disposition", role=True)
            assert outcome.state["error"]["info"] == {"why": [None] * 12_000}
            told += 1 if outcome.last is None else outcome.last - outcome.first + 1
        assert resident(served.gateway.process.pid) - before < 60 * 2**20


def test_a_sender_cannot_say_much_of_what_it_does_not_settle(served: Served) -> None:
    """proton kept 60 KB for each message without outcome, of which nothing was charged."""
    many, state = 100, composite("modified", message_annotations={Symbol("x"): [None] * 12_000})
    sender, receiver = served.pair("chat/sender-states", many)
    with sender, receiver:
        for _ in range(many):
            sender.transfer(message())
        for number in range(many):
            sender.disposition(number, state, role=SENDER, settled=False)
        text = sender.until("close", error="amqp:resource-limit-exceeded").error["description"]
        assert "1 MiB for unsettled messages" in text
