"""A WebSocket's input may be very many small frames: it is processed in turns, and pings pile nothing up."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Callable

import pytest
from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.uri import parse_uri

from gateway.amqp.transport.websocket import WebSocketProtocol
from tests.unit.gateway.amqp.transport.test_turns import Clock

MANY = 20_000
UPGRADE = (
    b"GET /amqp HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: " + base64.b64encode(b"k" * 16) + b"\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: amqp\r\n\r\n"
)


class Socket:
    def __init__(self) -> None:
        self.written, self.reading, self.aborted = bytearray(), True, False

    def write(self, data: bytes) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return self.aborted

    def is_reading(self) -> bool:
        return self.reading

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def abort(self) -> None:
        self.aborted = True


class Inner(asyncio.Protocol):
    """Takes a tenth of a millisecond for each piece."""

    def __init__(self, clock: Clock) -> None:
        self.got, self.lost, self.outside, self._clock = bytearray(), False, 0, clock

    def data_received(self, data: bytes) -> None:
        assert not self.lost
        self.got += data
        self._clock.now += 0.0001

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True


def frames(opcode: Opcode, payloads: list[bytes]) -> bytes:
    """What a client sends."""
    client = ClientProtocol(parse_uri("ws://localhost/amqp"))
    return b"".join(Frame(opcode, data).serialize(mask=True, extensions=client.extensions) for data in payloads)


class Opened:
    """A WebSocket after its upgrade."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        clock = Clock()
        monkeypatch.setattr(time, "monotonic", clock)
        monkeypatch.setattr(time, "thread_time", clock)
        self.socket, self.inner = Socket(), Inner(clock)
        self.protocol = WebSocketProtocol(self.inner, "/amqp", lambda reason: pytest.fail(reason))
        self.protocol.connection_made(self.socket)  # type: ignore[arg-type]  # what it uses of a transport
        self.protocol.data_received(UPGRADE)
        self.socket.written.clear()


async def turns(done: Callable[[], bool]) -> int:
    """How many turns of the loop it takes."""
    for turn in range(MANY):
        if done():
            return turn
        await asyncio.sleep(0)
    raise AssertionError("never done")


async def test_very_many_messages_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """A read of 256 kB with messages of one byte held the loop for most of a second."""
    opened = Opened(monkeypatch)
    sent = bytes(number % 251 for number in range(MANY))
    opened.protocol.data_received(frames(Opcode.BINARY, [sent[at : at + 1] for at in range(MANY)]))
    assert 0 < len(opened.inner.got) < MANY // 20
    assert not opened.socket.reading
    assert opened.inner.outside > MANY
    opened.protocol.connection_lost(None)
    assert not opened.inner.lost
    assert await turns(lambda: opened.inner.lost) > 20
    assert opened.inner.got == sent
    assert opened.inner.outside == 0


async def test_reading_goes_on_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = Opened(monkeypatch)
    opened.protocol.data_received(frames(Opcode.BINARY, [b"x"] * MANY))
    await turns(lambda: len(opened.inner.got) == MANY)
    assert opened.socket.reading


@pytest.mark.parametrize("full", [False, True], ids=["read", "unread"])
async def test_pings_that_come_together_get_one_pong(monkeypatch: pytest.MonkeyPatch, full: bool) -> None:
    """A client that pings and does not read made the process grow by 30 MB a second."""
    opened = Opened(monkeypatch)
    monkeypatch.setattr(opened.inner, "pause_writing", lambda: None)
    if full:
        opened.protocol.pause_writing()
    pings = [b"%d" % number for number in range(MANY)]
    opened.protocol.data_received(frames(Opcode.PING, pings))
    await turns(lambda: opened.socket.reading)
    assert len(opened.socket.written) == 0 if full else 0 < len(opened.socket.written) < MANY
    assert full or opened.socket.written.endswith(pings[-1])
