"""The protocol header, the first eight bytes of an accepted connection (AMQP 1.0 part 2, 2.2).

Sans-IO. An unsupported header is answered with a supported one, then the connection is closed (2.2). Browsers and
health checks that send HTTP to the AMQP port get a sentence instead, because they do not know the header.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from gateway.amqp.sasl.frames import AMQP_HEADER, SASL_HEADER

_HTTP: Final = tuple(
    word.encode() + b" "
    for word in ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "CONNECT", "PRI")
)
_HTTP_TEXT: Final = b"This is an AMQP 1.0 port; it does not speak HTTP.\n"
_HTTP_ANSWER: Final = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n"
    b"Content-Length: %d\r\n\r\n%s" % (len(_HTTP_TEXT), _HTTP_TEXT)
)
_TLS_RECORD: Final = b"\x16\x03"
_SIZE: Final = 8


class Protocol(Enum):
    """The protocol after the header."""

    SASL = "sasl"
    AMQP = "amqp"


class ProtocolHeader:
    """Reads the protocol header, in pieces of any size; then `speaks` or `failed`.

    `rest` goes to `SaslServer` after a SASL header (without it) or to the engine after a plain one (with it).
    """

    def __init__(self, *, plain_amqp: bool) -> None:
        self._plain_amqp = plain_amqp
        self._buffer = b""
        self._out = b""
        self.speaks: Protocol | None = None
        self.failed = False
        self.reason = ""
        """Why it failed: one of a few words, for a metric's label."""

    def receive(self, data: bytes) -> None:
        """Take bytes of the peer, in pieces of any size."""
        if self.failed:
            return
        self._buffer += data
        if self.speaks is None:
            self._look(self._buffer)

    def take(self) -> bytes:
        """Bytes to send now; after a failure, the last ones before closing."""
        out, self._out = self._out, b""
        return out

    @property
    def rest(self) -> bytes:
        """The bytes after the header; returned once."""
        rest, self._buffer = self._buffer, b""
        return rest

    def _look(self, data: bytes) -> None:
        if data.startswith(SASL_HEADER):
            self._buffer = data[_SIZE:]
            self.speaks = Protocol.SASL
        elif data.startswith(AMQP_HEADER):
            if self._plain_amqp:
                self.speaks = Protocol.AMQP
            else:
                self._refuse("sasl-required", SASL_HEADER)
        elif data.startswith(_HTTP):
            self._refuse("http", _HTTP_ANSWER)
        elif (reason := _mismatch(data)) is not None:
            self._refuse(reason, SASL_HEADER)

    def _refuse(self, reason: str, answer: bytes) -> None:
        self.failed = True
        self.reason = reason
        self._out = answer
        self._buffer = b""


def _mismatch(data: bytes) -> str | None:
    """Why `data` cannot be the beginning of a supported header; None if it can."""
    if data.startswith(_TLS_RECORD):
        return "tls"
    if any(whole.startswith(data) for whole in (SASL_HEADER, AMQP_HEADER, _TLS_RECORD, *_HTTP)):
        return None
    if data.startswith(b"AMQP"):
        return "protocol-version" if len(data) >= _SIZE else None
    return "garbage"
