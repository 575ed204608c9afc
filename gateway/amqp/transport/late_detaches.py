"""Drops the detaches of sessions that the peer has ended.

A frame behind the end of its session is an error (AMQP 1.0 part 2, 2.5.5). The client of Event Hubs for Python sends
one for each link, whenever it closes a connection.
"""

from __future__ import annotations

import struct
from typing import Final

from gateway.amqp.sasl.frames import AMQP_HEADER

_HEAD: Final = struct.Struct(">IBBH")
_DESCRIPTOR: Final = 3
"""Bytes of the performative by which it is known."""
_BEGIN, _DETACH, _END = b"\x00\x53\x11", b"\x00\x53\x16", b"\x00\x53\x17"


class LateDetaches:
    """The frames of one connection; malformed ones are passed on, for the engine to report."""

    def __init__(self) -> None:
        self._left = len(AMQP_HEADER)
        """Bytes that are left of the protocol header, or of a frame that is dropped or passed on."""
        self._dropping = False
        self._begun = b""
        """The beginning of a frame that is not known yet."""
        self._ended: Final[set[int]] = set()

    def pass_on(self, data: bytes) -> bytes:
        """The bytes to process now."""
        data, self._begun = self._begun + data, b""
        position = self._skip(0, data)
        kept = [] if self._dropping else [data[:position]]
        while position < len(data):
            if not self._read(data, position):
                self._begun = data[position:]
                break
            start, position = position, self._skip(position, data)
            if not self._dropping:
                kept.append(data[start:position])
        return b"".join(kept)

    def _skip(self, position: int, data: bytes) -> int:
        """The end of the present frame, or of the data."""
        end = min(position + self._left, len(data))
        self._left -= end - position
        return end

    def _read(self, data: bytes, position: int) -> bool:
        """Read the beginning of a frame; returns whether there was enough of it."""
        if len(data) - position < _HEAD.size:
            return False
        size, offset, _, channel = _HEAD.unpack_from(data, position)
        body = 4 * offset
        if len(data) - position < min(size, body + _DESCRIPTOR):
            return False
        code = data[position + body : position + body + _DESCRIPTOR] if size >= body + _DESCRIPTOR else b""
        if code == _END:
            self._ended.add(channel)
        elif code == _BEGIN:
            self._ended.discard(channel)
        self._left, self._dropping = max(size, _HEAD.size), code == _DETACH and channel in self._ended
        return True
