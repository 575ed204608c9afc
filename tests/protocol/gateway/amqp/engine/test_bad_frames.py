"""Frames that AMQP forbids: the connection ends with the error, one counter, one line, nobody else (2.3, 2.7, 2.8)."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest

from gateway.amqp.codec.codec import Described, Symbol, Uint, Ulong, encode
from tests.protocol.conftest import Served, Watch
from tests.support.amqp.frames import AMQP_HEADER, composite, framed, performative, source, target
from tests.support.amqp.messages import message
from tests.support.amqp.peer import RECEIVER, SENDER, Peer

DECODE, INVALID = "amqp:decode-error", "amqp:invalid-field"
UNATTACHED = "amqp:session:unattached-handle"
FRAMING, ILLEGAL = "amqp:connection:framing-error", "amqp:illegal-state"
CHAT = target("chat/a")
WINDOWS = {"next_outgoing_id": 0, "incoming_window": 9, "outgoing_window": 9}

Say = Callable[[Peer], Any]


def ended(served: Served, watch: Watch, condition: str, say: Say) -> str:
    """Say it on an open connection: a close with this condition and the end of the stream; return its description."""
    with served.peer() as peer:
        say(peer)
        close = peer.until("close", error=condition)
        peer.expect_eof()
    watch.bad_input(condition)
    return str(close.error["description"])


def raw(data: bytes) -> Say:
    return lambda peer: peer.send_raw(data)


def body(data: bytes, *, kind: int = 0, channel: int = 0) -> Say:
    return raw(framed(data, channel, kind=kind))


def attach(**fields: Any) -> Say:
    return lambda peer: peer.attach(**{"name": "x", "role": SENDER, "target": CHAT, **fields})


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(struct.pack(">IBBH", 20_000, 2, 0, 0) + bytes(19_992), id="larger than our max-frame-size"),
        pytest.param(struct.pack(">IBBH", 1 << 31, 2, 0, 0), id="two GiB announced"),
        pytest.param(struct.pack(">IBBH", 4, 2, 0, 0), id="smaller than its header"),
        pytest.param(struct.pack(">IBBH", 8, 1, 0, 0), id="data offset inside the header"),
        pytest.param(struct.pack(">IBBH", 8, 200, 0, 0), id="data offset behind the frame"),
    ],
)
def test_no_valid_sizes_of_a_frame(served: Served, watch: Watch, data: bytes) -> None:
    said = "a frame has less than 8 bytes, more than the max-frame-size of our open allows, or a wrong data offset"
    assert ended(served, watch, FRAMING, raw(data)) == said


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(AMQP_HEADER, id="a second header"),
        pytest.param(framed(performative("sasl_init", mechanism="ANONYMOUS"), kind=1), id="a SASL frame"),
        pytest.param(framed(performative("end"), kind=7), id="a frame of no known type"),
    ],
)
def test_no_valid_frame_header(served: Served, watch: Watch, data: bytes) -> None:
    ended(served, watch, FRAMING, raw(data))


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\x00\x53\x12\xff\xff", id="no such constructor"),
        pytest.param(b"\x45", id="a list without descriptor"),
        pytest.param(b"\x00\x53", id="half a descriptor"),
        pytest.param(b"\x00\x53\x99\x45", id="no such performative"),
        pytest.param(encode(Described(Symbol("foo:bar"), [])), id="no such symbolic descriptor"),
        pytest.param(encode(Described(Ulong(0x12), {})), id="a map"),
        pytest.param(encode(Described(Ulong(0x12), "attach")), id="a string"),
        pytest.param(b"\x00\x53\x12\xc0\x20\x03\xa1\x01x", id="list shorter than it says"),
        pytest.param(b"\x00\x53\x12\xd0\x00\x00\x00\x08\xff\xff\xff\xff\x40\x40\x40\x40", id="four billion fields"),
        pytest.param(b"\x00\x53\x12\xc0\x07\x03\xa1\x02\xff\xfe\x43\x42", id="a name that is not UTF-8"),
        pytest.param(performative("end") + b"\x40", id="an end with payload"),
    ],
)
def test_no_performative(served: Served, watch: Watch, data: bytes) -> None:
    ended(served, watch, DECODE, body(data))


@pytest.mark.parametrize(
    ("field", "say"),
    [
        ("name", attach(name=None)),
        ("name", attach(name=Uint(7))),
        ("name", body(b"\x00\x53\x12\x45")),
        ("handle", attach(handle=None)),
        ("handle", attach(handle="first")),
        ("role", attach(role=None)),
        ("role", attach(role="sender")),
        ("snd-settle-mode", attach(snd_settle_mode=9)),
        ("rcv-settle-mode", attach(rcv_settle_mode=Uint(1))),
        ("target", attach(target="chat/a")),
        ("target", attach(target=Described(Ulong(0x77), ["chat/a"]))),
        ("source", attach(source=target("chat/a"))),
        ("address", attach(target=Described(Ulong(0x29), [Uint(5)]))),
        ("address", attach(target=Described(Ulong(0x29), [b"chat/a"]))),
        ("durable", attach(target=target("chat/a", durable="yes"))),
        ("filter", attach(role=RECEIVER, source=source("chat/a", filter="all"))),
        ("outcomes", attach(role=RECEIVER, source=source("chat/a", outcomes=Uint(1)))),
        ("initial-delivery-count", attach(initial_delivery_count="none")),
        ("properties", attach(properties="none")),
        ("desired-capabilities", attach(desired_capabilities="plain string")),
        ("next-outgoing-id", lambda peer: peer.send("begin", channel=1)),
        ("incoming-window", lambda peer: peer.begin(1, incoming_window="wide")),
        ("handle", lambda peer: (attach()(peer), peer.detach("first"))),
        ("error", lambda peer: (attach()(peer), peer.detach(0, error="because"))),
        ("condition", lambda peer: peer.end(error=composite("error"))),
        ("error", lambda peer: peer.close(error="because")),
    ],
)
def test_a_missing_field_or_one_of_a_wrong_type_is_named(served: Served, watch: Watch, field: str, say: Say) -> None:
    assert ended(served, watch, INVALID, say).startswith(f"{field} ")


@pytest.mark.parametrize(
    ("field", "fields"),
    [
        ("container-id", {"container_id": None}),
        ("container-id", {"container_id": b"binary"}),
        ("max-frame-size", {"max_frame_size": "big"}),
        ("max-frame-size", {"max_frame_size": 511}),
        ("max-frame-size", {"max_frame_size": 0}),
        ("channel-max", {"channel_max": Uint(5)}),
        ("idle-time-out", {"idle_time_out": "never"}),
        ("properties", {"properties": [1]}),
    ],
)
def test_an_open_with_a_wrong_field_is_answered_with_open_and_close(
    served: Served, watch: Watch, field: str, fields: dict[str, Any]
) -> None:
    with Peer(served.edge) as peer:
        peer.sasl_anonymous().send_raw(AMQP_HEADER).expect_header()
        peer.open(**fields)
        peer.expect("open")
        close = peer.expect("close", error=INVALID)
        assert close.error["description"].startswith(f"{field} ")
        peer.expect_eof()
    watch.bad_input(INVALID)


@pytest.mark.parametrize("first", [performative("end"), performative("begin", next_outgoing_id=0), b"\x40"])
def test_anything_before_open_is_answered_with_open_and_close(served: Served, first: bytes) -> None:
    with Peer(served.edge) as peer:
        peer.sasl_anonymous().send_raw(AMQP_HEADER).expect_header()
        peer.send_raw(framed(first))
        peer.expect("open")
        assert peer.expect("close").error["condition"] in {DECODE, INVALID, ILLEGAL, "amqp:not-allowed"}
        peer.expect_eof()


@pytest.mark.parametrize(
    ("condition", "say"),
    [
        pytest.param(ILLEGAL, lambda peer: peer.open(), id="open twice"),
        pytest.param(ILLEGAL, lambda peer: peer.begin(0), id="begin on a channel in use"),
        pytest.param(FRAMING, lambda peer: peer.begin(4), id="begin beyond channel-max"),
        pytest.param("amqp:not-allowed", lambda peer: peer.end(3), id="end on an unknown channel"),
        pytest.param("amqp:not-allowed", attach(channel=3), id="attach on an unknown channel"),
        pytest.param(FRAMING, attach(handle=2**32 - 1), id="a handle beyond handle-max"),
        pytest.param(UNATTACHED, lambda peer: peer.detach(5), id="detach of an unknown handle"),
        pytest.param(UNATTACHED, lambda peer: peer.flow(5, link_credit=1), id="flow on an unknown handle"),
        pytest.param(UNATTACHED, lambda peer: peer.transfer(message(), 5), id="transfer on an unknown handle"),
        pytest.param(
            "amqp:session:handle-in-use", lambda peer: (attach()(peer), attach(name="y")(peer)), id="a handle in use"
        ),
        pytest.param(INVALID, lambda peer: (attach()(peer), attach(handle=1)(peer)), id="a link name in use"),
    ],
)
def test_frames_out_of_place(served: Served, watch: Watch, condition: str, say: Say) -> None:
    ended(served, watch, condition, say)


def test_a_disposition_whose_last_delivery_is_before_its_first(served: Served, watch: Watch) -> None:
    text = ended(served, watch, "amqp:not-allowed", lambda peer: peer.disposition(5, "accepted", last=4))
    assert text == "a disposition has the empty range 5 to 4 (in hex)"


def test_a_control_frame_that_is_too_large_for_the_peer_is_not_sent(served: Served, watch: Watch) -> None:
    """The answer to an attach repeats the addresses; with a max-frame-size of 512 it may not have more (2.7.1)."""
    with served.peer(max_frame_size=512) as peer:
        peer.attach_sender("chat/small")
        long = "chat/" + "x" * 220
        peer.attach(name="y" * 220, role=RECEIVER, handle=1, source=source(long), target=target("y" * 30))
        close = peer.until("close", error="amqp:frame-size-too-small")
        assert close.error["description"].endswith("max-frame-size of 512")
        peer.expect_eof()
    watch.bad_input("amqp:frame-size-too-small")


@pytest.mark.parametrize("end", ["source", "target"])
def test_an_unknown_durability_is_refused(served: Served, watch: Watch, end: str) -> None:
    with served.peer() as peer:
        peer.attach(name="x", role=end == "source", source=source("chat/a", durable=3 if end == "source" else 0),
                    target=target("chat/a", durable=9 if end == "target" else 0))  # fmt: skip
        peer.expect("attach")
        assert peer.expect("detach", closed=True, error=INVALID).error["info"] == {"field": "durable"}
        peer.detach().attach_sender("chat/a", 1)
    watch.link_refused(INVALID)


def test_a_malformed_frame_behind_good_ones_in_one_segment_is_found(served: Served, watch: Watch) -> None:
    """The good ones count: the link is there, the message arrives, then the connection ends."""
    sender, receiver = served.pair("chat/cut")
    good = performative("transfer", handle=0, delivery_id=0, delivery_tag=b"0", message_format=0) + message(b"good")
    sender.send_raw(framed(good) + framed(b"\x00\x53\x12\x45"))
    assert receiver.until("transfer").payload == message(b"good")
    sender.until("close", error=INVALID)
    sender.expect_eof()
    watch.bad_input(INVALID)
    receiver.disconnect()


@pytest.mark.parametrize(
    "malformed", [b"\x00\x53\x12\x45", b"\x00\x53\x18\xc0\x07\x01\xa3\x04text"], ids=["attach", "close"]
)
def test_a_malformed_frame_in_one_segment_with_the_open_is_answered(
    malformed: bytes, served: Served, watch: Watch
) -> None:
    """Found by fuzzing: the connection ended without a word."""
    with Peer(served.edge) as peer:
        peer.sasl_anonymous()
        said = performative("open", container_id="c"), performative("begin", **WINDOWS), malformed
        peer.send_raw(AMQP_HEADER + b"".join(map(framed, said))).expect_header()
        peer.expect("open")
        peer.expect("close", error=INVALID)
        peer.expect_eof()
    watch.bad_input(INVALID)


@pytest.mark.parametrize("step", [1, 3, 100])
def test_frames_may_come_in_pieces_of_any_size(served: Served, step: int) -> None:
    """Control frames are found and understood however TCP cuts them, empty frames and extended headers included."""
    frames = [
        performative("attach", name="x", handle=0, role=SENDER, target=CHAT, initial_delivery_count=0),
        performative("detach", handle=0, closed=True),
        performative("attach", name="y", handle=0, role=SENDER, target=target("nowhere"), initial_delivery_count=0),
    ]
    extended = struct.pack(">IBBH", 12 + len(frames[1]), 3, 0, 0) + b"ext!" + frames[1]
    stream = framed(frames[0]) + framed(b"") + extended + framed(frames[2])
    with served.peer() as peer:
        for start in range(0, len(stream), step):
            peer.send_raw(stream[start : start + step])
        peer.expect("attach", name="x", target="chat/a")
        peer.until("attach", name="y", target=None)
        peer.until("detach", error="amqp:not-found")


def test_an_end_of_stream_without_close_takes_only_that_connection(served: Served, watch: Watch) -> None:
    with served.peer() as peer:
        peer.attach_sender("chat/a")
        peer.shutdown()
        while peer.receive() is not None:
            pass
    watch.logged("connection closed")
    watch.logged("link ended", address="chat/a")


def test_a_close_with_an_error_of_the_peer_is_answered_and_logged(served: Served, watch: Watch) -> None:
    with served.peer() as peer:
        peer.close(error=composite("error", condition="vendor:bored", description="enough"))
        peer.expect("close", error=None)
        peer.expect_eof()
    watch.logged("connection closed", error="vendor:bored: enough")


@pytest.mark.parametrize("data", [framed(b""), AMQP_HEADER, b"\xff" * 100])
def test_what_follows_a_close_is_not_read(served: Served, data: bytes) -> None:
    with served.peer() as peer:
        peer.send_raw(framed(performative("close")) + data)
        peer.until("close")
