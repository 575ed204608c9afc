"""Frames that begin and end something in one write (part 2, 2.5.1, 2.6.3): each is answered, in order, complete."""

from __future__ import annotations

import pytest

from tests.protocol.conftest import Served
from tests.support.amqp.frames import framed, performative, target
from tests.support.amqp.peer import SENDER, Peer

BEGIN = performative("begin", next_outgoing_id=0, incoming_window=100, outgoing_window=100)
DETACH = performative("detach", handle=0, closed=True)
END = performative("end")
KNOWN = "chat/one-write"


def attach(address: str = KNOWN, name: str = "one") -> bytes:
    return performative(
        "attach", name=name, handle=0, role=SENDER, target=target(address), initial_delivery_count=0
    )


def joined(*bodies: bytes, channel: int) -> bytes:
    return b"".join(framed(body, channel) for body in bodies)


def test_begin_and_end(served: Served) -> None:
    with served.peer() as peer:
        peer.send_raw(joined(BEGIN, END, channel=3))
        begun = peer.expect("begin", channel=1, remote_channel=3)
        peer.expect("end", channel=begun.channel, error=None)
        peer.attach_sender(KNOWN)


@pytest.mark.parametrize("size", range(1, 12))
def test_begin_and_end_wherever_the_write_is_cut(served: Served, size: int) -> None:
    everything = joined(BEGIN, END, channel=3) * 3
    with served.peer() as peer:
        for start in range(0, len(everything), len(framed(BEGIN)) + size):
            peer.send_raw(everything[start : start + len(framed(BEGIN)) + size])
        for _ in range(3):
            begun = peer.expect("begin", remote_channel=3)
            peer.expect("end", channel=begun.channel)


def test_many_begins_and_ends(served: Served) -> None:
    with served.peer() as peer:
        peer.send_raw(joined(BEGIN, END, channel=3) * 300)
        for _ in range(300):
            begun = peer.expect("begin", remote_channel=3)
            peer.expect("end", channel=begun.channel)
        peer.attach_sender(KNOWN)


@pytest.mark.parametrize("address", [KNOWN, "no/such", "events/orders"])
def test_attach_and_detach(served: Served, address: str) -> None:
    with served.peer() as peer:
        peer.send_raw(joined(attach(address), DETACH, channel=0))
        peer.expect("attach", name="one")
        peer.until("detach", closed=True)
        peer.send_raw(joined(attach(), channel=0))
        assert peer.expect("attach", name="one").target is not None


def test_attach_and_end(served: Served) -> None:
    with served.peer() as peer:
        peer.begin(channel=1).expect("begin")
        peer.send_raw(joined(attach(), END, channel=1))
        peer.until("end", channel=1)
        peer.attach_sender(KNOWN)


@pytest.mark.parametrize("address", [KNOWN, "no/such", "events/orders"])
def test_begin_attach_detach_and_end(served: Served, address: str) -> None:
    with served.peer() as peer:
        peer.send_raw(joined(BEGIN, attach(address), DETACH, END, channel=3) * 2)
        for _ in range(2):
            begun = peer.expect("begin", remote_channel=3)
            peer.expect("attach", name="one", channel=begun.channel)
            peer.until("detach", closed=True, channel=begun.channel)
            peer.expect("end", channel=begun.channel)
        peer.attach_sender(KNOWN)


def test_a_message_and_the_end_of_its_session(served: Served) -> None:
    with served.peer() as receiver, served.peer() as sender:
        receiver.attach_receiver(KNOWN)
        receiver.flow(0, link_credit=10)
        sender.attach_sender(KNOWN)
        sender.until("flow", link_credit=10)
        transfer = performative("transfer", handle=0, delivery_id=0, delivery_tag=b"0", settled=True)
        sender.send_raw(joined(transfer + b"\x00\x53\x75\xa0\x01x", END, channel=0))
        sender.until("end", channel=0)
        assert receiver.until("transfer").payload == b"\x00\x53\x75\xa0\x01x"


@pytest.mark.parametrize("with_session", [False, True])
def test_open_and_close(served: Served, with_session: bool) -> None:
    with Peer(served.edge) as peer:
        peer.sasl_anonymous().send_raw(b"AMQP\x00\x01\x00\x00").expect_header()
        session = joined(BEGIN, attach(), DETACH, END, channel=3) if with_session else b""
        opened, closed = performative("open", container_id="hasty"), performative("close")
        peer.send_raw(framed(opened) + session + framed(closed))
        peer.expect("open")
        if with_session:
            peer.expect("begin", remote_channel=3)
            peer.expect("attach", name="one")
            peer.until("detach", closed=True)
            peer.expect("end")
        peer.expect("close", error=None)
        peer.expect_eof()


def test_detach_and_attach_of_the_same_name(served: Served) -> None:
    with served.peer() as peer:
        first = peer.attach_sender(KNOWN, name="one")
        peer.send_raw(joined(DETACH, attach(), channel=0))
        peer.until("detach", handle=first.handle, closed=True)
        peer.expect("attach", name="one")
