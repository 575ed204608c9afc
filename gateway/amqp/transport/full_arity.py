"""Performatives with all of their fields, for peers that read a field without asking whether it was sent.

AMQP lets a sender leave out the nulls at the end of a list (part 1, 1.4), and proton does. A listener whose clients
cannot read such frames uses `FullArityEngine`, which adds the nulls to what proton wrote. So that no frame becomes
larger than the peer accepts, proton is shown a max-frame-size that is `RESERVE` bytes smaller. The same clients detach
links whose session they have ended (`late_detaches`).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from gateway.amqp.codec.decoder import decode, skip
from gateway.amqp.codec.encoder import encode
from gateway.amqp.codec.types import Described, Value
from gateway.amqp.engine.engine import Engine
from gateway.amqp.engine.listener import EngineListener
from gateway.amqp.link.config import EngineConfig
from gateway.amqp.message.section_index import opened
from gateway.amqp.sasl.frames import AMQP_HEADER
from gateway.amqp.transport.late_detaches import LateDetaches
from gateway.errors import AmqpError

RESERVE: Final = 64
"""More bytes than the nulls and the longer head of the list can have."""
_LEAST: Final = 512
"""The smallest max-frame-size (2.7.1)."""
_LONGEST: Final = 1 << 16
"""Bytes of an open; the engine refuses a longer one."""
_HEAD: Final = struct.Struct(">IBBH")
_OPEN: Final = b"\x00\x53\x10"
_MAX_FRAME_SIZE: Final = 2
"""The index of the field in an open."""
_UINT: Final = 0x70
_LIST8, _LIST32 = 0xC0, 0xD0
_FIELDS: Final = {0x10: 10, 0x11: 8, 0x12: 14, 0x13: 11, 0x14: 11, 0x15: 6, 0x16: 3, 0x17: 1, 0x18: 1, 0x1D: 3}
"""The number of fields of each performative (2.7), and of an error (2.8.14), by descriptor."""
_WITH_ERRORS: Final = frozenset((0x15, 0x16, 0x17, 0x18))
_ERROR: Final = b"\x00\x53\x1d"


def complete(data: bytes) -> bytes:
    """Whole frames, perhaps behind a protocol header, with every field of their performatives."""
    start = len(AMQP_HEADER) if data.startswith(AMQP_HEADER) else 0
    return b"".join((data[:start], *_completed(data, start)))


def _completed(data: bytes, start: int) -> Iterator[bytes]:
    while start < len(data):
        size, offset, kind, channel = _HEAD.unpack_from(data, start)
        body = start + 4 * offset
        fields = _FIELDS.get(data[body + 2], 0) if 4 * offset < size and kind == 0 else 0
        performative, after = _performative(data, body, fields) if fields else (b"", body)
        payload = data[after : start + size]
        yield _HEAD.pack(4 * offset + len(performative) + len(payload), offset, kind, channel)
        yield data[start + _HEAD.size : body]
        yield performative
        yield payload
        start += size


def _performative(data: bytes, body: int, fields: int) -> tuple[bytes, int]:
    """The performative at `body` with `fields` fields, and where it ends in `data`."""
    position, end, count = opened(data, body)
    if data[body + 2] in _WITH_ERRORS and _ERROR in data[position:end]:
        value, _ = decode(data, body)
        return encode(_filled(value)), end
    items = data[position:end] + b"\x40" * (fields - count)
    if len(items) < 255:
        return b"%b%c%c%c%b" % (data[body : body + 3], _LIST8, len(items) + 1, max(fields, count), items), end
    head = struct.pack(">BII", _LIST32, len(items) + 4, max(fields, count))
    return data[body : body + 3] + head + items, end


def _filled(value: Value) -> Value:
    """A performative with an error somewhere inside, and all fields of both."""
    if isinstance(value, list):
        return [_filled(item) for item in value]
    if not isinstance(value, Described) or not isinstance(value.value, list):
        return value
    items = [_filled(item) for item in value.value]
    fields = _FIELDS.get(value.descriptor, 0) if isinstance(value.descriptor, int) else 0
    return Described(value.descriptor, items + [None] * (fields - len(items)))


class FrameReserve:
    """Lowers the max-frame-size in the peer's open, which is the first frame of a connection."""

    def __init__(self) -> None:
        self._header = len(AMQP_HEADER)
        """Bytes of the protocol header that have not come yet: it is passed on at once, because peers wait for ours."""
        self._frame: bytes | None = b""
        """The beginning of the open; None: it was passed on."""

    def pass_on(self, data: bytes) -> bytes:
        """The bytes to process now; the beginning of an open waits for its end."""
        if self._frame is None:
            return data
        header, rest = data[: self._header], data[self._header :]
        self._header -= len(header)
        frame = self._frame + rest
        size = int.from_bytes(frame[:4], "big")
        if len(frame) >= 4 and (len(frame) >= size or size > _LONGEST):
            self._frame = None
            return header + _lowered(frame)
        self._frame = frame
        return header


def _lowered(data: bytes) -> bytes:
    """The open at the start of `data` with a lower max-frame-size; any other frame is left to the engine."""
    try:
        body = 4 * data[4]
        if data[body : body + 3] != _OPEN:
            return data
        position, _, count = opened(data, body)
        if count <= _MAX_FRAME_SIZE:
            return data
        for _ in range(_MAX_FRAME_SIZE):
            position = skip(data, position)
        if data[position] != _UINT:
            return data
        size = int.from_bytes(data[position + 1 : position + 5], "big")
    except (AmqpError, IndexError):  # the engine says what is wrong
        return data
    lower = size if size < _LEAST else max(_LEAST, size - RESERVE)
    return data[: position + 1] + lower.to_bytes(4, "big") + data[position + 5 :]


class FullArityEngine(Engine):
    """An engine whose frames have all of their fields."""

    def __init__(self, config: EngineConfig, owner: EngineListener[Engine], *, server: bool) -> None:
        super().__init__(config, owner, server=server)
        self._reserve: Final = FrameReserve()
        self._late: Final = LateDetaches()

    def receive(self, data: bytes) -> bool:
        """See `Engine`."""
        data = self._reserve.pass_on(self._late.pass_on(data))
        return bool(data) and super().receive(data)

    def take_pieces(self) -> list[bytes]:
        """See `Engine`."""
        return [complete(b"".join(super().take_pieces()))]
