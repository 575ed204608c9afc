"""What a receiver says at length of a message does no harm to the message's sender (2.6.12, 2.7.1, 3.4)."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.amqp.codec.codec import Described, Symbol
from tests.protocol.conftest import Served
from tests.support.amqp.frames import Frame, composite, error
from tests.support.amqp.messages import message
from tests.support.amqp.peer import Peer

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
