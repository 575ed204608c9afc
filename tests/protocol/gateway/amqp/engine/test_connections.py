"""Connections and sessions on the wire: heartbeats, idle time-outs, channel-max, ends, and core rules at a topic."""

from __future__ import annotations

import time

import pytest

from tests.protocol.conftest import Served, Watch
from tests.support.amqp.frames import AMQP_HEADER
from tests.support.amqp.messages import message
from tests.support.amqp.peer import Peer


def test_a_peer_with_a_short_idle_time_out_gets_heartbeats(served: Served) -> None:
    """2.4.5: half of what the peer allows passes at most without a frame; the empty ones say nothing else."""
    with served.peer(idle_time_out=8000) as peer:
        last = time.monotonic()
        assert peer.read(8) == b"\x00\x00\x00\x08\x02\x00\x00\x00"
        assert time.monotonic() - last < 8
        assert peer.read(8) == b"\x00\x00\x00\x08\x02\x00\x00\x00"
        peer.attach_sender("chat/a")


@pytest.mark.parametrize("bears", [1, 99])
def test_a_peer_that_bears_hardly_any_silence_is_told_so(served: Served, watch: Watch, bears: int) -> None:
    """2.4.5: who cannot support an idle time-out closes with an error; 10,000 such peers would take all there is."""
    with Peer(served.edge) as peer:
        peer.sasl_anonymous().send_raw(AMQP_HEADER).expect_header().open(idle_time_out=bears)
        error = peer.until("close", error="amqp:not-allowed").error
        assert error["description"] == f"idle-time-out is {bears} ms; the gateway keeps 100 ms or more, or none"
    watch.bad_input("amqp:not-allowed")


def test_a_silent_peer_is_closed_after_our_idle_time_out(served: Served, watch: Watch) -> None:
    with Peer(served.quiet) as peer:
        assert peer.start().idle_time_out == 2000  # half of the policy's four seconds, as 2.4.5 advises
        peer.until("close", error="amqp:resource-limit-exceeded")
        peer.expect_eof()
    watch.counted('scopegate_idle_timeouts_total{scope="edge"}')
    text = "amqp:resource-limit-exceeded: nothing was received within the idle time-out of our open"
    silent = watch.logged("connection closed", error=text)
    about = [line["event"] for line in watch.gateway.log() if line.get("connection") == silent["connection"]]
    assert "bad input" not in about, "its network may be gone"


def test_a_peer_that_sends_empty_frames_stays(served: Served) -> None:
    with Peer(served.quiet) as peer:
        peer.start()
        end = time.monotonic() + 5
        while time.monotonic() < end:
            peer.send_raw(b"\x00\x00\x00\x08\x02\x00\x00\x00")
            with pytest.raises(AssertionError, match="nothing within"):
                peer.receive(0.5)
        peer.attach_sender("chat/a")


def test_open_says_what_the_policy_says(served: Served) -> None:
    with served.peer() as peer:
        peer.close()
        peer.expect("close")
    with Peer(served.edge) as peer:
        opened = peer.start(channel_max=10)
        assert opened.container_id == "gw-protocol"
        assert (opened.max_frame_size, opened.channel_max) == (16 * 1024, 3)


def test_every_channel_that_is_allowed_can_be_used(served: Served) -> None:
    with served.peer() as peer:
        for channel in (1, 2, 3):
            peer.begin(channel).until("begin", remote_channel=channel)
            peer.attach("x", False, channel=channel)
            peer.until("attach", name="x", channel=channel)


def test_a_session_ends_alone(served: Served, watch: Watch) -> None:
    with served.peer() as peer:
        peer.begin(1).expect("begin")
        peer.attach_sender("chat/a", name="stays")
        peer.attach_sender("chat/a", name="goes", channel=1)
        peer.end(1)
        peer.until("end", error=None)
        peer.begin(1).expect("begin", remote_channel=1)
        peer.attach_sender("chat/a", handle=1)
    watch.logged("link ended", link="goes")


def test_the_plain_amqp_header_will_do_where_anonymous_is_allowed(served: Served) -> None:
    with Peer(served.edge) as peer:
        peer.negotiate()
        peer.attach_sender("chat/a")


def test_everything_at_once_before_any_answer(served: Served) -> None:
    """2.4.1 allows pipelining: header, open, begin, attach in one segment."""
    with Peer(served.edge) as peer:
        peer.send_raw(AMQP_HEADER)
        peer.open().begin().attach("x", False)
        peer.expect_header()
        peer.expect("open")
        peer.expect("begin")
        peer.expect("attach", name="x")


@pytest.mark.row("ES-3.2-1")
def test_a_topic_keeps_every_core_rule(served: Served) -> None:
    """Frames of 512 bytes, messages of many, settled and unsettled ones, exact credit, drain."""
    with served.peer() as sender, served.peer(max_frame_size=512) as receiver:
        receiver.attach_receiver("events/orders")
        receiver.flow(0, link_credit=2)
        sender.attach_sender("events/orders")
        sender.until("flow")
        body = bytes(range(256)) * 200
        whole = message(body)
        sender.transfer(whole[:10_000], more=True)
        for start in range(10_000, len(whole), 10_000):
            sender.send("transfer", handle=0, more=start + 10_000 < len(whole), payload=whole[start : start + 10_000])
        sender.until("disposition", first=0, settled=True, state="accepted")
        sender.transfer(message(b"settled"), settled=True)
        sender.transfer(message(b"beyond credit"))
        sender.until("disposition", first=2, state="accepted")
        assert received(receiver).endswith(body)
        receiver.disposition(0, "accepted")
        assert received(receiver).endswith(b"settled")
        receiver.attach("later", False, 1).expect("attach", name="later")  # and no transfer came before
        receiver.flow(0, delivery_count=2, link_credit=1)
        assert received(receiver).endswith(b"beyond credit")
        receiver.flow(0, delivery_count=3, link_credit=7, drain=True)
        assert receiver.until("flow", handle=0, link_credit=0).delivery_count == 10


def received(receiver: Peer) -> bytes:
    """One message, however many frames; none of them larger than the peer said."""
    parts = []
    while True:
        transfer = receiver.until("transfer")
        assert len(transfer.raw) <= 512
        parts.append(transfer.payload)
        if not transfer.more:
            return b"".join(parts)
