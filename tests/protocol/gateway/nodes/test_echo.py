"""A flow with `echo` is answered by one of ours, of the link or session that it asks for (part 2, 2.7.4)."""

from __future__ import annotations

import pytest

from gateway.amqp.proton.batch import ACQUISITION, BEFORE_ACQUISITION, ECHO_LINK, SCAN_STATE, scan
from tests.protocol.conftest import Served
from tests.support.amqp.frames import framed, performative, target
from tests.support.amqp.messages import message
from tests.support.amqp.peer import SENDER

WINDOWS = {"next_incoming_id": 0, "incoming_window": 10, "next_outgoing_id": 0, "outgoing_window": 10}


@pytest.mark.row("CORE-12")
def test_of_a_session(served: Served) -> None:
    with served.peer() as peer:
        peer.flow(echo=True)
        flow = peer.expect("flow", handle=None, next_incoming_id=0)
        assert flow.incoming_window > 0


@pytest.mark.row("CORE-12")
def test_of_one_session_among_others(served: Served) -> None:
    with served.peer() as peer:
        begun = peer.begin(channel=3).expect("begin")
        peer.begin(channel=2).expect("begin")
        peer.flow(channel=3, echo=True)
        peer.expect("flow", handle=None, channel=begun.channel)


@pytest.mark.row("CORE-12")
def test_of_a_link_on_which_the_peer_sends(served: Served) -> None:
    sender, receiver = served.pair("chat/echo-in", credit=10)
    with sender, receiver:
        handle = sender.attach_sender("news/echo", handle=1).handle
        sender.flow(1, echo=True)
        sender.expect("flow", handle=handle, link_credit=0, delivery_count=0)
        sender.transfer(message(b"one"))
        receiver.until("transfer")
        sender.flow(0, delivery_count=1, echo=True)
        answer = sender.until("flow", handle=0)
        assert (answer.delivery_count, answer.link_credit, answer.next_incoming_id) == (1, 9, 1)


@pytest.mark.row("CORE-12")
def test_how_many_messages_wait_is_not_told(served: Served) -> None:
    """2.7.4: what `available` would say changes until it is read, and may be left open; a wrong number may not."""
    sender, receiver = served.pair("chat/echo-available", credit=1)
    with sender, receiver:
        sender.transfer(message(b"one"))
        receiver.until("transfer")
        receiver.flow(0, delivery_count=1, link_credit=0, echo=True)
        assert receiver.expect("flow", handle=0, delivery_count=1, link_credit=0).available is None
        sender.flow(0, delivery_count=1, available=7, echo=True)
        assert sender.until("flow", handle=0, delivery_count=1).available is None


@pytest.mark.row("CORE-12")
def test_of_a_link_on_which_the_peer_receives(served: Served) -> None:
    sender, receiver = served.pair("chat/echo-out", credit=10)
    with sender, receiver:
        sender.transfer(message(b"one"))
        sender.transfer(message(b"two"))
        for _ in range(2):
            receiver.until("transfer")
        receiver.flow(0, delivery_count=2, link_credit=5, echo=True)
        flow = receiver.expect("flow", handle=0, delivery_count=2, link_credit=5, drain=False)
        assert flow.next_outgoing_id == 2
        receiver.flow(0, delivery_count=2, link_credit=5, drain=True)
        receiver.expect("flow", delivery_count=7, link_credit=0, drain=True)
        receiver.flow(0, delivery_count=7, link_credit=0, echo=True)
        receiver.expect("flow", delivery_count=7, link_credit=0, drain=False)


@pytest.mark.row("CORE-12")
@pytest.mark.parametrize("credit", [0, 5, 9])
def test_of_a_receiver_that_has_not_heard_of_its_last_messages(served: Served, credit: int) -> None:
    """Its flow was on the way when they came: of the credit that it says nothing is left."""
    sender, receiver = served.pair("chat/echo-stale", credit=10)
    with sender, receiver:
        for _ in range(10):
            sender.transfer(message(b"one"))
        for _ in range(10):
            receiver.until("transfer")
        receiver.flow(0, delivery_count=0, link_credit=credit, echo=True)
        receiver.until("flow", handle=0, delivery_count=10, link_credit=0)
        receiver.flow(0, delivery_count=10, link_credit=1)
        sender.transfer(message(b"two"))
        assert b"two" in receiver.until("transfer").payload


def test_the_handle_is_ours(served: Served) -> None:
    with served.peer() as peer:
        peer.attach_receiver("news/a", handle=7)
        peer.attach_receiver("news/b", handle=3)
        peer.flow(3, link_credit=4, echo=True)
        peer.expect("flow", handle=1, link_credit=4)
        peer.detach(7)
        peer.expect("detach", handle=0)
        peer.attach_receiver("news/c", handle=9)
        peer.flow(9, link_credit=2, echo=True)
        peer.expect("flow", handle=0, link_credit=2)


@pytest.mark.row("CORE-12")
def test_many_in_one_write_are_answered_once_for_a_link(served: Served) -> None:
    with served.peer() as peer:
        peer.attach_receiver("news/many")
        ask = framed(performative("flow", handle=0, delivery_count=0, link_credit=3, echo=True, **WINDOWS))
        peer.send_raw(ask * 40).flow(echo=True)
        answers = 0
        while (frame := peer.expect("flow")).handle is not None:
            answers += 1
        assert frame.next_incoming_id == 0
        assert 1 <= answers <= 3  # the write may be read in more than one piece


def test_what_cannot_be_answered_is_ignored(served: Served) -> None:
    with served.peer() as peer:
        refused = performative(
            "attach", name="r", handle=4, role=SENDER, target=target("no/such"), initial_delivery_count=0
        )
        ask = performative("flow", handle=4, delivery_count=0, link_credit=3, echo=True, **WINDOWS)
        session = performative("flow", echo=True, **WINDOWS)
        end = performative("end")
        begin = performative("begin", next_outgoing_id=0, incoming_window=9, outgoing_window=9)
        peer.send_raw(framed(refused) + framed(ask) + framed(session) + framed(end) + framed(begin))
        peer.until("end")
        peer.until("begin", remote_channel=0)
        peer.flow(echo=True)
        peer.until("flow", handle=None)


@pytest.mark.parametrize("size", range(1, 60, 7))
def test_the_scan_finds_the_end_of_the_flow_however_it_is_cut(size: int) -> None:
    fields = {"handle": 300, "delivery_count": 1, "link_credit": 2, "available": 0, "drain": False, **WINDOWS}
    asks = framed(performative("flow", echo=True, properties={"x": "y" * 90}, **fields), 5)
    stream = framed(performative("flow", echo=False, **fields)) + asks + asks + framed(performative("flow", **fields))
    state, found = bytearray(SCAN_STATE), []
    for start in range(0, len(stream), size):
        piece = stream[start : start + size]
        found += [(start + position, *rest) for position, *rest in scan(state, piece, 0, len(piece)) or ()]
    # A flow with long properties may name a transaction, so the input is cut before and behind it, too.
    assert {what for _, what, _ in found} <= {ECHO_LINK, BEFORE_ACQUISITION, ACQUISITION}
    found = [each for each in found if each[1] == ECHO_LINK]
    first = stream.index(asks) + len(asks)
    assert found == [(first, ECHO_LINK, 5), (first + len(asks), ECHO_LINK, 5)]
