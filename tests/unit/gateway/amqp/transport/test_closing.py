"""A socket is closed once: asyncio's TLS transport that is closed again can neither be asked nor aborted any more."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest
from websockets.protocol import State
from websockets.server import ServerProtocol

from gateway.amqp.transport.connection import Connection
from gateway.amqp.transport.websocket import WebSocketTransport


class TlsTransport:
    """Closed like asyncio's: the half that we write cannot be ended on its own."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def close(self) -> None:
        self.calls.append("close")

    def abort(self) -> None:
        self.calls.append("abort")

    def is_closing(self) -> bool:
        return bool(self.calls)

    def can_write_eof(self) -> bool:
        return False

    def write(self, data: bytes) -> None: ...


def connection(transport: TlsTransport) -> Connection:
    made = Connection(cast(Any, SimpleNamespace(loop=None)), cast(Any, None), server=False, handshake=1, name="c")
    made.transport = cast(asyncio.Transport, transport)
    return made


@pytest.mark.parametrize(
    ("steps", "calls"),
    [
        ([True, True], ["close"]),
        ([True, False], ["close", "abort"]),  # a peer that does not answer the close does not hold the socket
        ([False, True], ["abort"]),
    ],
)
def test_a_socket_that_is_closed_already_is_not_closed_again(steps: list[bool], calls: list[str]) -> None:
    transport = TlsTransport()
    closed = connection(transport)
    for gently in steps:
        closed.abort(gently=gently)
    assert transport.calls == calls


def test_the_end_of_the_engine_does_not_close_again() -> None:
    transport = TlsTransport()
    closed = connection(transport)
    closed.abort(gently=True)
    closed._end(cast(asyncio.Transport, transport))
    assert transport.calls == ["close"]


def test_the_end_of_a_websocket_does_not_close_again() -> None:
    transport, frames = TlsTransport(), ServerProtocol()
    frames.state = State.OPEN
    socket = WebSocketTransport(cast(asyncio.Transport, transport), frames)
    frames.receive_eof()
    socket.flush()
    socket.close()
    assert transport.calls == ["close"]
