"""Channels and handles that are used up and used again (part 2, 2.5.1, 2.6.2): answered or refused, never silent."""

from __future__ import annotations

import pytest

from tests.protocol.conftest import Served, Watch
from tests.support.amqp.frames import framed, performative, target
from tests.support.amqp.peer import SENDER, Peer

WINDOWS = {"next_outgoing_id": 0, "incoming_window": 100, "outgoing_window": 100}
BEGIN = performative("begin", **WINDOWS)


def attach(name: str, handle: int) -> bytes:
    return performative(
        "attach", name=name, handle=handle, role=SENDER, target=target("chat/n"), initial_delivery_count=0
    )


def test_a_session_ended_and_begun_in_one_write_at_the_peers_channel_max(served: Served) -> None:
    with served.peer(channel_max=0) as peer:
        peer.send_raw(framed(performative("end")) + framed(BEGIN))
        peer.until("end")
        peer.expect("begin", remote_channel=0)
        peer.attach_sender("chat/n")


def test_many_sessions_begun_and_ended_in_one_write(served: Served) -> None:
    with served.peer() as peer:
        peer.send_raw((framed(performative("end")) + framed(BEGIN)) * 300)
        for _ in range(300):
            peer.until("end")
        peer.attach_sender("chat/n")


@pytest.mark.parametrize("links", [1, 3])
def test_links_detached_and_attached_in_one_write_at_the_peers_handle_max(served: Served, links: int) -> None:
    with served.peer() as peer:
        peer.begin(channel=1, handle_max=links - 1).expect("begin")
        everything = b""
        for number in range(links):
            everything += framed(attach(f"a{number}", number), 1)
        for number in range(links):
            everything += framed(performative("detach", handle=number, closed=True), 1)
            everything += framed(attach(f"b{number}", number), 1)
        peer.send_raw(everything)
        for name in ("a", "b"):
            for number in range(links):
                assert peer.until("attach", name=f"{name}{number}").target is not None


def test_more_links_than_the_peers_handle_max_leaves_handles_for(served: Served, watch: Watch) -> None:
    with Peer(served.edge) as peer:
        peer.sasl_anonymous().send_raw(b"AMQP\x00\x01\x00\x00").expect_header()
        peer.open().expect("open")
        peer.begin(handle_max=0).expect("begin")
        peer.attach_sender("chat/n")
        peer.attach(name="second", role=SENDER, handle=1, target=target("chat/n"))
        close = peer.until("close", error="amqp:resource-limit-exceeded")
        assert "handle-max is 0" in close.error["description"]
        peer.expect_eof()
    watch.bad_input("amqp:resource-limit-exceeded")


def test_more_sessions_than_the_peers_channel_max_leaves_channels_for(served: Served, watch: Watch) -> None:
    with served.peer(channel_max=0) as peer:
        peer.begin(channel=1)
        peer.until("close", error="amqp:connection:framing-error")
        peer.expect_eof()
    watch.bad_input("amqp:connection:framing-error")
