"""AMQP over WebSockets (RFC 6455): a protocol between a socket and its `Connection`.

The HTTP upgrade has to name the path of the listener and the subprotocol `amqp` (or `AMQPWSB10`, the name of a draft,
which clients for JavaScript still use). Binary messages carry the bytes of the
connection, split in any way: a message need not be a frame (AMQP WebSocket Binding, 2.3).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Final, Protocol, cast

from websockets.frames import CloseCode, Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import State
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

from gateway.amqp.transport.fragments import Fragments
from gateway.amqp.transport.waiting_input import WaitingInput

_SUBPROTOCOLS: Final = (Subprotocol("amqp"), Subprotocol("AMQPWSB10"))
_LARGEST: Final = 1024 * 1024
"""Bytes of a message; clients write frame by frame, or a few frames at once."""
_WITHOUT: Final = {b"A": "AMQP without a WebSocket", b"\x16": "TLS, at a listener without it"}
"""What clients with another address in mind begin with; none of it has a line that could be answered."""


_TURN: Final = 0.002
"""Seconds in a turn of the loop for the input of one socket: a short one may have very many frames."""


class _Frames(ServerProtocol):
    """Answers the last ping of those that come together (RFC 6455, 5.5.3), and none while its peer does not read."""

    full = False
    _pong: Frame | None = None

    def send_frame(self, frame: Frame) -> None:
        if frame.opcode is Opcode.PONG:
            self._pong = frame
        else:
            super().send_frame(frame)

    def answer(self) -> None:
        """Send the pong that is due."""
        pong, self._pong = self._pong, None
        if pong is not None and self.state is State.OPEN and not self.full:
            super().send_frame(pong)

    def release(self) -> None:
        """The socket is gone: break the circles of references, which the parser is a part of, and so are its errors."""
        self.parser.close()
        self.parser_exc = self.handshake_exc = None


class WebSocketUser(Protocol):
    """What the messages are for: a `Connection`."""

    outside: int
    """Bytes of the socket that it will get in later turns of the loop."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None: ...
    def data_received(self, data: bytes) -> None: ...
    def eof_received(self) -> bool | None: ...
    def pause_writing(self) -> None: ...
    def resume_writing(self) -> None: ...
    def connection_lost(self, exc: Exception | None) -> None: ...


class WebSocketTransport(asyncio.Transport):
    """The transport that a `Connection` sees: what it writes becomes binary messages."""

    def __init__(self, socket: asyncio.Transport, frames: ServerProtocol) -> None:
        super().__init__()
        self._socket: Final = socket
        self._frames: Final = frames
        self._deaf = self._busy = False

    def flush(self) -> None:
        """Write what the WebSocket has to say, and end our half of the socket if it says so."""
        for chunk in self._frames.data_to_send():
            if self._socket.is_closing():
                return
            if chunk:
                self._socket.write(chunk)
            elif self._socket.can_write_eof():
                self._socket.write_eof()
            else:
                self._socket.close()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._frames.state is State.OPEN:
            self._frames.send_binary(data)
            self.flush()

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        """Begin the closing handshake; its answer ends the socket."""
        if self._frames.state is State.OPEN:
            self._frames.send_close(CloseCode.NORMAL_CLOSURE)
            self.flush()

    def close(self) -> None:
        self.write_eof()
        if not self._socket.is_closing():  # TLS has no half to end: there, the end of the WebSocket has closed it
            self._socket.close()

    def abort(self) -> None:
        self._socket.abort()

    def is_closing(self) -> bool:
        return self._socket.is_closing()

    def is_reading(self) -> bool:
        return not self._deaf

    def pause_reading(self) -> None:
        self._deaf = True
        self._listen()

    def resume_reading(self) -> None:
        self._deaf = False
        self._listen()

    def busy(self, on: bool) -> None:
        """Read nothing while what was read waits for its turn."""
        self._busy = on
        self._listen()

    def _listen(self) -> None:
        socket, silent = self._socket, self._deaf or self._busy
        if not socket.is_closing() and socket.is_reading() is silent:
            (socket.pause_reading if silent else socket.resume_reading)()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._socket.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        return self._socket.get_write_buffer_size()

    def get_extra_info(self, name: str, default: object = None) -> object:
        return self._socket.get_extra_info(name, default)


class WebSocketProtocol(asyncio.Protocol):
    """One socket; `inner` gets the bytes that the binary messages carry."""

    def __init__(self, inner: WebSocketUser, path: str, refused: Callable[[str], None]) -> None:
        """`path`: where clients find it; `refused` gets the reason if the upgrade or a message is refused."""
        self._inner: Final = inner
        self._path: Final = path
        self._refused: Final = refused
        self._frames: Final = _Frames(subprotocols=_SUBPROTOCOLS, max_size=_LARGEST)
        self._begun = self._reported = self._working = self._ended = False
        self._waiting: Final = WaitingInput()
        self._fragments: Final = Fragments(_LARGEST)
        self._lost: Callable[[], None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = WebSocketTransport(cast(asyncio.Transport, transport), self._frames)
        self._inner.connection_made(self._transport)

    def data_received(self, data: bytes) -> None:
        if not self._begun:
            self._begun = True
            if (reason := _WITHOUT.get(data[:1])) is not None:
                self._report(reason)
                self._transport.close()
                return
        self._waiting.add(data)
        if not self._working:
            self._work()

    def _work(self) -> None:
        """Process input for a short time, and the rest in later turns of the loop."""
        until = time.monotonic() + _TURN
        try:
            while len(self._waiting.data) and time.monotonic() < until:
                data, before = self._waiting.take(), time.thread_time()
                self._receive(data)
                self._waiting.took(time.thread_time() - before)
        except Exception:
            self._waiting.clear()
            self._transport.abort()
            raise
        finally:
            self._working = len(self._waiting.data) > 0
            self._transport.busy(self._working)
            self._inner.outside = len(self._waiting.data)
            if not self._working:
                self._worked()
            else:
                asyncio.get_running_loop().call_soon(self._work)

    def _worked(self) -> None:
        """All input is processed: what came behind it follows."""
        if self._ended:
            self._frames.receive_eof()
        if self._lost is not None:
            lost, self._lost = self._lost, None  # it refers to this object
            lost()

    def _receive(self, data: bytes) -> None:
        self._frames.receive_data(self._fragments.cut(data))
        for event in self._frames.events_received():
            if isinstance(event, Request):
                self._answer(event)
            else:
                self._take(cast(Frame, event))
        self._frames.answer()
        self._transport.flush()
        if (error := self._frames.handshake_exc or self._frames.parser_exc) is not None:
            self._report(str(error))

    def _answer(self, request: Request) -> None:
        if path_of(request.path).rstrip("/") != self._path.rstrip("/"):
            response = self._frames.reject(HTTPStatus.NOT_FOUND, "AMQP is at another path of this listener\n")
        elif not same_origin(request):
            response = self._frames.reject(HTTPStatus.FORBIDDEN, "pages of other origins may not connect\n")
        else:
            response = self._frames.accept(request)
        self._frames.send_response(response)
        if response.status_code != HTTPStatus.SWITCHING_PROTOCOLS:
            self._report(f"the WebSocket upgrade was answered with {response.status_code}")

    def _take(self, frame: Frame) -> None:
        if frame.opcode in (Opcode.BINARY, Opcode.CONT):
            self._inner.data_received(bytes(frame.data))
        elif frame.opcode is Opcode.TEXT:
            self._frames.fail(CloseCode.UNSUPPORTED_DATA, "AMQP is binary")
            self._report("a WebSocket message of text")

    def _report(self, reason: str) -> None:
        if not self._reported:
            self._reported = True
            self._refused(reason)

    def eof_received(self) -> bool | None:
        self._ended = True
        if not self._working:
            self._frames.receive_eof()
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        self._frames.full = True
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._frames.full = False
        self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._working:
            self._lost = lambda: self._end(exc)
        else:
            self._end(exc)

    def _end(self, exc: Exception | None) -> None:
        self._frames.release()
        self._inner.connection_lost(exc)


def path_of(target: str) -> str:
    """The path of a request-target, which may be a whole URL (RFC 9112, 3.2.2), as of Event Hubs' client for Java."""
    path = target.partition("?")[0]
    return path if path.startswith("/") else "/" + path.partition("://")[2].partition("/")[2]


def same_origin(request: Request) -> bool:
    """Whether a browser may connect: from pages of this host alone, for it would lend them the user's network."""
    origin = request.headers.get("Origin")
    return origin is None or origin.partition("//")[2] == request.headers.get("Host")
