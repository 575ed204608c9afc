"""A client's half of a WebSocket (RFC 6455), with messages cut where their bytes end for now. Sans-IO.

A parser of frames holds each one until it is whole: up to a MiB for each connection, which nobody counts, and in which
heartbeats wait. A message may be sent in fragments (5.4), so an incomplete frame is passed on as one.
"""

from __future__ import annotations

from typing import Final

_END_OF_REQUEST: Final = b"\r\n\r\n"
_FIN, _CONTROL, _MASKED, _LENGTH = 0x80, 0x08, 0x80, 0x7F
_KEY: Final = 4
"""Bytes of a masking key."""
_WIDE: Final = {126: 2, 127: 8}
"""Bytes of the extended length, by what the second byte says."""


class Fragments:
    """Input as a parser of WebSockets may have it: nothing in it has to wait but a header, or a control frame."""

    __slots__ = ("_first", "_head", "_key", "_largest", "_left", "_passing", "_upgraded", "_whole")

    def __init__(self, largest: int) -> None:
        """`largest`: bytes of a frame; the header of a larger one is passed on as it is, for the parser to refuse."""
        self._largest: Final = largest
        self._head = b""
        """What may be part of the end of the request, then of a header."""
        self._upgraded = self._passing = False
        """The request is complete; what follows is no frame of a client, and the parser's business."""
        self._left = 0
        """Bytes of the present frame that have not come yet."""
        self._first = 0
        """The first byte of the header of the next fragment of that frame."""
        self._key = b""
        """The masking key as of its next byte."""
        self._whole = True
        """The header of that frame has been passed on."""

    def cut(self, data: bytes) -> bytes:
        """The next bytes of the socket, to be parsed."""
        if self._passing:
            return data
        if not self._upgraded:
            return self._request(data)
        data, self._head = self._head + data, b""
        pieces, at = list[bytes](), 0
        if self._left:
            at = self._payload(data, 0, pieces)
        end = self._behind_whole(data, at)
        pieces.append(data[at:end])
        if end < len(data):
            self._begin(data[end:], pieces)
        return b"".join(pieces)

    def _behind_whole(self, data: bytes, at: int) -> int:
        """Where the whole frames end that begin at `at`."""
        size = len(data)
        while size - at >= 2 and (second := data[at + 1]) & _MASKED:
            length, end = second & _LENGTH, at + 2 + _KEY
            if wide := _WIDE.get(length):
                length, end = int.from_bytes(data[at + 2 : at + 2 + wide]), end + wide
            if end + length > size or length > self._largest:
                break
            at = end + length
        return at

    def _request(self, data: bytes) -> bytes:
        seen = self._head + data
        end = seen.find(_END_OF_REQUEST)
        if end < 0:
            self._head = seen[-len(_END_OF_REQUEST) + 1 :]
            return data
        self._upgraded = True
        rest = seen[end + len(_END_OF_REQUEST) :]
        self._head = b""
        return data[: len(data) - len(rest)] + (self.cut(rest) if rest else b"")

    def _begin(self, data: bytes, pieces: list[bytes]) -> None:
        """The first bytes of a frame that is incomplete, or is refused."""
        if len(data) < 2:
            self._head = data
            return
        first, second = data[0], data[1]
        size = 2 + _WIDE.get(second & _LENGTH, 0)
        end = size + _KEY
        length = second & _LENGTH if size == 2 else int.from_bytes(data[2:size])
        if not second & _MASKED or (len(data) >= size and length > self._largest):
            self._passing = True
            pieces.append(data)
        elif len(data) < end:
            self._head = data
        else:
            self._left, self._first, self._key = length, first, data[size:end]
            self._whole = bool(first & _CONTROL and size == 2)
            if self._whole:
                pieces.append(data[:end])
            if len(data) > end:
                self._payload(data, end, pieces)

    def _payload(self, data: bytes, at: int, pieces: list[bytes]) -> int:
        """Pass on what there is of a frame; returns where that ends."""
        piece = data[at : at + self._left]
        self._left -= len(piece)
        if not self._whole:
            fin = 0 if self._left else self._first & _FIN
            pieces.append(_fragment(self._first & ~_FIN | fin, self._key, len(piece)))
            turn = len(piece) % _KEY
            self._key = self._key[turn:] + self._key[:turn]
            self._first &= _FIN  # its further fragments are continuations
        pieces.append(piece)
        return at + len(piece)


def _fragment(first: int, key: bytes, length: int) -> bytes:
    if length < min(_WIDE):
        return bytes((first, _MASKED | length)) + key
    code = 126 if length < 1 << 16 else 127
    return bytes((first, _MASKED | code)) + length.to_bytes(_WIDE[code]) + key
