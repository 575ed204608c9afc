"""The first eight bytes: which headers are accepted, and the answer to all others."""

from __future__ import annotations

import pytest

from gateway.amqp.sasl.frames import AMQP_HEADER, SASL_HEADER
from gateway.amqp.transport.protocol_header import Protocol, ProtocolHeader

PIECES = pytest.mark.parametrize("piece", [1, 5, 1 << 20])


def greet(data: bytes, piece: int, *, plain_amqp: bool = True) -> ProtocolHeader:
    machine = ProtocolHeader(plain_amqp=plain_amqp)
    for start in range(0, len(data), piece):
        machine.receive(data[start : start + piece])
    return machine


@PIECES
def test_sasl(piece: int) -> None:
    machine = greet(SASL_HEADER + b"frames", piece)
    assert (machine.speaks, machine.rest, machine.take()) == (Protocol.SASL, b"frames", b"")
    assert machine.rest == b""


@PIECES
def test_plain_amqp_keeps_its_header(piece: int) -> None:
    machine = greet(AMQP_HEADER + b"open", piece)
    assert (machine.speaks, machine.rest, machine.take()) == (Protocol.AMQP, AMQP_HEADER + b"open", b"")


REFUSED = {
    "tls header": (b"AMQP\x02\x01\x00\x00", "protocol-version"),
    "other protocol id": (b"AMQP\x01\x01\x00\x00", "protocol-version"),
    "AMQP 0-9-1": (b"AMQP\x00\x00\x09\x01", "protocol-version"),
    "other sasl version": (b"AMQP\x03\x01\x00\x01", "protocol-version"),
    "tls hello": (b"\x16\x03\x01\x02\x00\x01\x00\x01", "tls"),
    "garbage": (b"\x00\x01\x02", "garbage"),
    "nearly": (b"AMQX", "garbage"),
    "SSH": (b"SSH-2.0-OpenSSH_9.2", "garbage"),
}


@PIECES
@pytest.mark.parametrize(("data", "reason"), REFUSED.values(), ids=REFUSED)
def test_other_headers_are_answered_with_ours(data: bytes, reason: str, piece: int) -> None:
    machine = greet(data, piece)
    assert (machine.failed, machine.reason, machine.take()) == (True, reason, SASL_HEADER)
    assert (machine.speaks, machine.rest) == (None, b"")


@PIECES
def test_plain_amqp_where_sasl_is_required(piece: int) -> None:
    machine = greet(AMQP_HEADER, piece, plain_amqp=False)
    assert (machine.failed, machine.reason, machine.take()) == (True, "sasl-required", SASL_HEADER)


@PIECES
@pytest.mark.parametrize(
    "line", [b"GET / HTTP/1.1\r\n", b"POST /x HTTP/1.0\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"]
)
def test_http_is_told_where_it_is(line: bytes, piece: int) -> None:
    machine = greet(line, piece)
    head, _, body = machine.take().partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert f"Content-Length: {len(body)}".encode() in head
    assert b"AMQP" in body
    assert machine.reason == "http"


@pytest.mark.parametrize("header", [SASL_HEADER, AMQP_HEADER])
@pytest.mark.parametrize("size", range(8))
def test_half_a_header_waits(header: bytes, size: int) -> None:
    machine = greet(header[:size], 1)
    assert (machine.speaks, machine.failed, machine.take()) == (None, False, b"")
