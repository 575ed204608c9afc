"""What speaks no AMQP, or only half of it: answered or closed, counted, logged, noticed by nobody else (2.2, 5.3)."""

from __future__ import annotations

import struct

import pytest

from tests.protocol.conftest import Served, Watch
from tests.support.amqp.frames import AMQP_HEADER, SASL_HEADER, framed, performative
from tests.support.amqp.peer import Peer

TLS_HELLO = bytes.fromhex("16030100c8010000c40303") + bytes(189)
AMQP_2 = b"AMQP\x00\x02\x00\x00"
AMQP_091 = b"AMQP\x00\x00\x09\x01"
TLS_HEADER = b"AMQP\x02\x01\x00\x00"


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (b"\x00" * 8, "garbage"),
        (b"EHLO example.org\r\n", "garbage"),
        (b"AMQ", None),
        (b"amqp\x00\x01\x00\x00", "garbage"),
        (AMQP_2, "protocol-version"),
        (AMQP_091, "protocol-version"),
        (TLS_HEADER, "protocol-version"),
        (TLS_HELLO, "tls"),
    ],
)
def test_what_is_no_header_of_ours_is_answered_with_one_that_is(
    served: Served, watch: Watch, said: bytes, reason: str | None
) -> None:
    with Peer(served.hasty) as peer:
        peer.send_raw(said)
        if reason is None:  # it may still become one: the handshake's time decides
            peer.expect_eof()
            watch.bad_input("no open frame within the time limit")
        else:
            peer.expect_header(SASL_HEADER).expect_eof()
            watch.bad_input(reason)


@pytest.mark.parametrize("request_line", [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"])
def test_http_is_told_in_http(served: Served, watch: Watch, request_line: bytes) -> None:
    with Peer(served.edge) as peer:
        peer.send_raw(request_line)
        assert peer.read(4096).startswith(b"HTTP/1.1 400 Bad Request\r\n")
    watch.bad_input("http")


SASL_DONE = SASL_HEADER + framed(performative("sasl_init", mechanism="ANONYMOUS"), kind=1)
OPEN = framed(performative("open", container_id="c"))


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(SASL_HEADER[:5], id="half a header"),
        pytest.param(SASL_HEADER, id="a header and no mechanism"),
        pytest.param(SASL_DONE[:-3], id="half a sasl frame"),
        pytest.param(SASL_DONE, id="sasl and no header"),
        pytest.param(SASL_DONE + AMQP_HEADER, id="no open"),
        pytest.param(SASL_DONE + AMQP_HEADER + OPEN[:-2], id="half an open"),
        pytest.param(SASL_DONE + AMQP_HEADER + framed(b""), id="only heartbeats"),
    ],
)
def test_silence_before_open_ends_with_the_time_allowed(served: Served, watch: Watch, said: bytes) -> None:
    with Peer(served.hasty) as peer:
        peer.send_raw(said)
        while peer.read(1):
            pass
    watch.bad_input("no open frame within the time limit")


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        pytest.param(struct.pack(">IBBH", 5, 2, 1, 0), "malformed", id="smaller than its header"),
        pytest.param(struct.pack(">IBBH", 1 << 31, 2, 1, 0), "malformed", id="two GiB"),
        pytest.param(framed(performative("sasl_init", mechanism="ANONYMOUS")), "malformed", id="an AMQP frame"),
        pytest.param(framed(b"\x00\x53", kind=1), "malformed", id="half a constructor"),
        pytest.param(framed(performative("sasl_response", response=b""), kind=1), "malformed", id="wrong order"),
        pytest.param(framed(performative("sasl_init", mechanism=b"x"), kind=1), "malformed", id="binary mechanism"),
    ],
)
def test_what_is_no_sasl_frame_ends_the_connection(served: Served, watch: Watch, frame: bytes, reason: str) -> None:
    with Peer(served.edge) as peer:
        peer.send_raw(SASL_HEADER).expect_header(SASL_HEADER)
        peer.expect("sasl_mechanisms")
        peer.send_raw(frame)
        while (got := peer.receive()) is not None:
            assert got.kind == "sasl_outcome"
            assert got.code != 0
    event = watch.logged("authentication failed")
    watch.counted(f'scopegate_sasl_failures_total{{reason="{event["reason"]}"}}')


def test_a_peer_that_leaves_in_the_middle_of_a_greeting_is_nothing_special(served: Served, watch: Watch) -> None:
    for cut in range(1, len(SASL_DONE), 5):
        with Peer(served.edge) as peer:
            peer.send_raw(SASL_DONE[:cut])
    watch.counted('scopegate_connections_closed_total{scope="edge"}')


WORD = b"hunter2-hunter2"
PLAIN_INIT = framed(performative("sasl_init", mechanism="PLAIN", initial_response=b"\0bob\0" + WORD), kind=1)


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(SASL_DONE + PLAIN_INIT, id="a second login"),
        pytest.param(SASL_DONE + b"PASS " + WORD, id="text instead of a header"),
        pytest.param(SASL_DONE + SASL_HEADER + PLAIN_INIT, id="a second SASL header"),
        pytest.param(AMQP_HEADER + PLAIN_INIT, id="a login after the header"),
        pytest.param(AMQP_HEADER + OPEN + PLAIN_INIT, id="a login after open"),
        pytest.param(AMQP_HEADER + OPEN + b"PASS " + WORD, id="text instead of a frame"),
        pytest.param(AMQP_HEADER + OPEN + AMQP_HEADER + WORD, id="a second header"),
        pytest.param(AMQP_HEADER + OPEN + framed(WORD), id="text in a frame"),
        pytest.param(AMQP_HEADER + OPEN + framed(WORD, kind=9), id="text in a frame of no known type"),
    ],
)
def test_nothing_that_a_peer_said_out_of_place_is_repeated(served: Served, watch: Watch, said: bytes) -> None:
    """It may be a password: neither the log nor the close says more than what kind of thing was wrong."""
    with Peer(served.edge) as peer:
        peer.send_raw(said)
        received = b""
        while piece := peer.read(1):
            received += piece
    assert watch.logged("bad input")["error"]
    watch.counted('scopegate_connections_closed_total{scope="edge"}')
    assert WORD not in received
    assert WORD.decode() not in str(served.gateway.log()[watch.lines :])
