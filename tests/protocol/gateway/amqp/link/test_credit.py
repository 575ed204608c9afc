"""The link-credit of a flow is any uint (2.7.4): also 2^31 or more, which proton takes for less than none."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.amqp.engine.control_frames import ControlFrameInspector
from tests.protocol.conftest import Served
from tests.support.amqp.frames import framed, performative
from tests.support.amqp.messages import message
from tests.support.amqp.peer import Peer

LARGEST, MOST = 2**31 - 1, 2**32 - 1
LARGE = [LARGEST, 2**31, 2**31 + 5, MOST]
WINDOWS = {"next_incoming_id": 0, "incoming_window": MOST, "next_outgoing_id": 0, "outgoing_window": MOST}


def sent(sender: Peer, receiver: Peer, count: int) -> None:
    """So many messages arrive."""
    for _ in range(count):
        sender.transfer(message(b"credited"))
        receiver.until("transfer")


@pytest.mark.parametrize("credit", LARGE)
def test_of_a_direct_node(served: Served, credit: int) -> None:
    """Its senders get credit, and the receiver is sent messages, also when it says the same again later."""
    with served.peer() as receiver, served.peer() as sender:
        receiver.attach_receiver("chat/large-credit")
        receiver.flow(0, link_credit=credit)
        sender.attach_sender("chat/large-credit")
        assert sender.until("flow", handle=0).link_credit > 0
        sent(sender, receiver, 3)
        receiver.flow(0, delivery_count=3, link_credit=credit)
        sent(sender, receiver, 3)
        receiver.flow(0, delivery_count=5, link_credit=credit, echo=True)
        told = receiver.until("flow", handle=0, delivery_count=6).link_credit
        assert 2**31 - 2**24 - 1 <= told <= LARGEST
        receiver.flow(0, delivery_count=6, link_credit=0)
        receiver.flow(0, delivery_count=6, link_credit=0, echo=True)
        receiver.until("flow", handle=0, delivery_count=6, link_credit=0)


@pytest.mark.parametrize("credit", LARGE)
def test_of_a_log(served: Served, credit: int) -> None:
    with served.peer() as receiver, served.peer() as sender:
        receiver.attach_receiver("events/orders")
        receiver.flow(0, link_credit=credit)
        sender.attach_sender("events/orders")
        sender.until("flow", handle=0)
        sent(sender, receiver, 2)
        receiver.flow(0, delivery_count=2, link_credit=credit, drain=True)
        receiver.expect("flow", handle=0, link_credit=0, drain=True)


def test_in_a_frame_that_comes_in_pieces(served: Served) -> None:
    flow = framed(performative("flow", handle=0, delivery_count=0, link_credit=MOST, **WINDOWS))
    with served.peer() as receiver, served.peer() as sender:
        receiver.attach_receiver("chat/pieces")
        for piece in (flow[:8], flow[8:-3], flow[-3:]):
            receiver.send_raw(piece)
        sender.attach_sender("chat/pieces")
        sender.until("flow", handle=0)
        sent(sender, receiver, 1)


def flow(credit: int | None, **fields: Any) -> bytes:
    """A flow frame of a link whose other fields are the largest."""
    return performative("flow", handle=MOST, delivery_count=MOST, link_credit=credit, **WINDOWS, **fields)


def wide(body: bytes) -> bytes:
    """The same with the long forms of the descriptor and of the list."""
    assert body[:4] == b"\x00\x53\x13\xc0"
    size, count, fields = body[4], body[5], body[6:]
    return b"\x00\x80" + bytes(7) + b"\x13\xd0" + (size + 3).to_bytes(4, "big") + count.to_bytes(4, "big") + fields


CHANGED = {
    "a flow": (flow(MOST), flow(LARGEST)),
    "a flow with all fields": (flow(MOST, available=MOST, echo=True), flow(LARGEST, available=MOST, echo=True)),
    "a flow that is long": (flow(MOST, properties={"x": "y" * 90}), flow(LARGEST, properties={"x": "y" * 90})),
    "a flow in long forms": (wide(flow(MOST)), wide(flow(LARGEST))),
    "the least such credit": (flow(2**31), flow(0x7F00_0000)),
}
"""What is sent, and what is read for it."""
UNCHANGED = {
    "credit that proton reads": flow(LARGEST),
    "no credit": flow(0),
    "a flow without a credit": flow(None, available=MOST),
    "a flow of a session": performative("flow", **WINDOWS),
    "another frame": b"\x00\x53\x16" + flow(MOST)[3:],
    "a message": performative("transfer", handle=0) + flow(MOST),
}
CASES = CHANGED | {name: (body, body) for name, body in UNCHANGED.items()}


@pytest.mark.parametrize(("body", "read"), CASES.values(), ids=CASES)
def test_only_such_a_credit_is_changed_however_the_input_is_cut(body: bytes, read: bytes) -> None:
    stream, wanted = framed(body, 3) * 3, framed(read, 3) * 3
    for size in range(1, len(stream) + 1):
        inspector = ControlFrameInspector(16 * 1024)
        pieces = [stream[start : start + size] for start in range(0, len(stream), size)]
        assert b"".join(inspector.scanned(piece)[0] for piece in pieces) == wanted, size
