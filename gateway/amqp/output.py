"""What the engine has to write: proton's output, taken when it is to be sent or before that, and a close of our own.

Part of the engine.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final

from cproton_ffi import lib

from gateway.amqp import turn
from gateway.amqp.performatives import close_frame
from gateway.amqp.sasl_frames import AMQP_HEADER
from gateway.errors import FRAME_SIZE_TOO_SMALL, INTERNAL_ERROR, RESOURCE_LIMIT_EXCEEDED, AmqpError

_HEAD: Final = struct.Struct(">IBBH")
_CLOSE: Final = b"\x00\x53\x18"
_MOST: Final = 8 * 1024 * 1024
"""Bytes that may be taken before their time while the peer does not read."""


class Output:
    """The output of one transport; `failure` says why no more can be written."""

    def __init__(self, transport: Any) -> None:
        self._transport: Final = transport
        self._at: Final = turn.address(transport)
        self._early = b""
        self._ended = False
        self._largest = 0
        self.failure: AmqpError | None = None
        turn.listen(self._at)

    def limit(self) -> None:
        """The peer's open has come, and with it the largest frame that it takes."""
        self._largest = lib.pn_transport_get_remote_max_frame(self._transport)

    def take(self) -> bytes:
        """All that is to be written now."""
        data = turn.take(self._at)
        if self._early:
            data, self._early = self._early + data, b""
        if (why := turn.complaint(self._at)) is not None and not self._ended:
            self.failure = AmqpError(INTERNAL_ERROR, "the gateway cannot go on with this connection; connect again")
            self.failure.__cause__ = RuntimeError(why)
        if len(data) > self._largest > 0 and turn.largest_frame(data) > self._largest:
            data = self._fitting(data)
        return data

    def _fitting(self, data: bytes) -> bytes:
        """What comes before a control frame that is too large for the peer: proton cuts only transfers (2.7.1)."""
        for start, size in _frames(data):
            if size > self._largest:
                text = f"a frame of {size} bytes has to be sent, and max-frame-size is {self._largest}"
                self.failure = AmqpError(FRAME_SIZE_TOO_SMALL, text)
                return data[:start]
        return data

    def take_early(self) -> None:
        """Have proton write what waits, for a later `take`: the channels and handles it gives up are free then."""
        self._early += turn.take(self._at)
        if len(self._early) > _MOST:
            raise AmqpError(RESOURCE_LIMIT_EXCEEDED, "this peer sends and does not read what it is answered")

    def end(self, error: AmqpError) -> None:
        """Close the connection without proton."""
        self._early += close_frame(error)
        self._ended = True

    def reword(self, error: AmqpError) -> None:
        """proton has ended the connection: put this error in place of the one in its close."""
        self._early += turn.take(self._at)
        start = max((start for start, _ in _frames(self._early)), default=0)
        if self._early[start + _HEAD.size :].startswith(_CLOSE):
            self._early = self._early[:start] + close_frame(error)

    @property
    def finished(self) -> bool:
        """Whether nothing will be written any more."""
        return not self._early and (self._ended or bool(lib.pn_transport_pending(self._transport) < 0))


def _frames(data: bytes) -> Iterator[tuple[int, int]]:
    """Start and size of each frame of ours, behind a header."""
    start = len(AMQP_HEADER) if data.startswith(AMQP_HEADER) else 0
    while start < len(data):
        size = _HEAD.unpack_from(data, start)[0]
        yield start, size
        start += size
