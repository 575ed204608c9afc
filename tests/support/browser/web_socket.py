"""A WebSocket as the socket of a scripted peer (RFC 6455): its bytes go in binary messages, and come in them."""

from __future__ import annotations

import socket
import ssl
from typing import Any

from tests.support.amqp.peer import Peer
from tests.support.gateway.process import PATIENCE

_UPGRADE = (
    "GET {path} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Key: a2tra2tra2tra2tra2traw==\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Protocol: amqp\r\n\r\n"
)
_BINARY, _CLOSE = 0x82, 0x88
_WIDE = {126: 2, 127: 8}


class WebSocket:
    """What a `Peer` asks of a socket; everything else is the socket's below it."""

    def __init__(self, below: socket.socket, path: str) -> None:
        self._below = below
        self._read = b""
        below.sendall(_UPGRADE.format(path=path).encode())
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += self._exactly(1)
        assert head.startswith(b"HTTP/1.1 101 "), head

    def __getattr__(self, name: str) -> Any:
        return getattr(self._below, name)

    def sendall(self, data: bytes) -> None:
        """Send one message; its masking key is zero, which leaves the bytes as they are."""
        code, size = (126, 2) if len(data) < 1 << 16 else (127, 8)
        self._below.sendall(bytes((_BINARY, 0x80 | code)) + len(data).to_bytes(size) + bytes(4) + data)

    def recv(self, size: int) -> bytes:
        """Return what has come; nothing at the end of the WebSocket."""
        while not self._read:
            first, second = self._exactly(1), self._exactly(1)
            if first[:1] in (b"", bytes((_CLOSE,))):
                return b""
            wide = _WIDE.get(second[0])
            self._read = self._exactly(second[0] if wide is None else int.from_bytes(self._exactly(wide)))
        data, self._read = self._read[:size], self._read[size:]
        return data

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size and (piece := self._below.recv(size - len(data))):
            data += piece
        return data


def web_socket_peer(port: int, path: str, tls: ssl.SSLContext | None = None) -> Peer:
    """A scripted peer at a listener with `websocket`."""
    below = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
    if tls is not None:
        below = tls.wrap_socket(below, server_hostname="localhost")
    made: Any = WebSocket(below, path)  # has what a peer uses of a socket
    return Peer(connection=made)
