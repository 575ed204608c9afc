"""The bytes the load generator sends and the few it has to read back (AMQP 1.0 part 3, 3.2).

A body ends in an eight-byte clock reading and a one-byte flag, so a receiver finds a sampled time from the
end of the message, whatever sections a gateway put in front.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

STAMP = struct.Struct(">Qb")
PLAIN_TAIL = STAMP.pack(0, 0)
_KEY_COOKIE = b"response-address-cookie"
_KEY_TARGET = b"response-link-target-address"


def data_section(size: int) -> bytes:
    """An encoded data section with `size` bytes of body, without its stamped tail."""
    filler = bytes(i % 251 for i in range(size - STAMP.size))
    head = b"\x00\x53\x75" + (b"\xa0" + bytes([size]) if size < 256 else b"\xb0" + struct.pack(">I", size))
    return head + filler


def string(text: bytes) -> bytes:
    """An encoded UTF-8 string."""
    return _variable(0xA1, text)


def _variable(code: int, data: bytes) -> bytes:
    if len(data) < 256:
        return bytes((code, len(data))) + data
    return struct.pack(">BI", code + 0x10, len(data)) + data


def compound(code: int, count: int, body: bytes) -> bytes:
    """An encoded list (0xC0) or map (0xC1)."""
    if len(body) < 255 and count < 256:
        return bytes((code, len(body) + 1, count)) + body
    return struct.pack(">BII", code + 0x10, len(body) + 4, count) + body


def _symbol(text: bytes) -> bytes:
    return _variable(0xA3, text)


EARLIEST = compound(  # a source filter: from the beginning of the event log (ES 5.2.1)
    0xC1,
    2,
    _symbol(b"start")
    + b"\x00\x80\x00\x00\x00\x00\x00\x00\x02\x00"
    + compound(0xC1, 2, _symbol(b"event-streams-offset") + _symbol(b"@earliest")),
)


def from_earliest(sql: str) -> bytes:
    """A source filter: from the beginning of the event log, and this SQL expression."""
    expression = b"\x00" + _symbol(b"amqp:sql-filter") + string(sql.encode())
    return compound(0xC1, 4, EARLIEST[3:] + _symbol(b"sql") + expression)


def selector(sql: str) -> bytes:
    """A source filter that is this SQL expression."""
    return compound(0xC1, 2, _symbol(b"sql") + b"\x00" + _symbol(b"amqp:sql-filter") + string(sql.encode()))


def correlated(name: bytes) -> bytes:
    """A properties section with this correlation-id."""
    return b"\x00\x53\x73" + compound(0xC0, 6, b"\x40" * 5 + string(name))


def bound_to(partition: str) -> bytes:
    """Link properties that bind a link to a partition (ES 4.6.1)."""
    return compound(0xC1, 2, _symbol(b"event-streams-partition") + _symbol(partition.encode()))


class Request(NamedTuple):
    """What a responder needs of a request: encoded values, and what its response repeats."""

    message_id: bytes
    reply_to: bytes
    cookie: bytes
    link_target: bytes
    header: bytes
    annotations: bytes
    """The message annotations section."""
    after: bytes
    """What follows the properties."""


def read_request(data: bytes) -> Request:
    """Reads a request in one pass over its sections; absent values are empty."""
    at, cookie, target, header, annotations = 0, b"", b"", b"", b""
    while (section := data[at + 2]) < 0x73:
        end = skip(data, at + 3)
        if section == 0x71:
            cookie, target = _annotations(data, at + 3)
        elif section == 0x70:
            header = data[at:end]
        else:
            annotations = data[at:end]
        at = end
    first, count = _enter(data, at + 3)
    message_id = data[first : skip(data, first)]
    end = skip(data, at + 3)
    for _ in range(min(count, 4)):
        first = skip(data, first)
    reply_to = data[first : skip(data, first)] if count > 4 else b""
    return Request(message_id, reply_to, cookie, target, header, annotations, data[end:])


def _annotations(data: bytes, at: int) -> tuple[bytes, bytes]:
    cookie = target = b""
    first, count = _enter(data, at)
    for _ in range(count // 2):
        value = skip(data, first)
        key = data[first + 2 : value]
        first = skip(data, value)
        if key == _KEY_COOKIE:
            cookie = data[value:first]
        elif key == _KEY_TARGET:
            target = data[value:first]
    return cookie, target


def text(encoded: bytes) -> str:
    """The value of an encoded string."""
    return encoded[2 if encoded[0] == 0xA1 else 5 :].decode()


def _enter(data: bytes, at: int) -> tuple[int, int]:
    code = data[at]
    if code == 0x45:
        return at + 1, 0
    if code < 0xD0:
        return at + 3, data[at + 2]
    return at + 9, int.from_bytes(data[at + 5 : at + 9], "big")


_FIXED = {0x40: 1, 0x50: 2, 0x60: 3, 0x70: 5, 0x80: 9, 0x90: 17}


def skip(data: bytes, at: int) -> int:
    """Where the value after the one at `at` starts (AMQP 1.0 part 1, 1.2: width by the high nibble)."""
    code = data[at]
    width = code & 0xF0
    if width in _FIXED:
        return at + _FIXED[width]
    if width in (0xA0, 0xC0, 0xE0):
        return at + 2 + data[at + 1]
    if width in (0xB0, 0xD0, 0xF0):
        return at + 5 + int.from_bytes(data[at + 1 : at + 5], "big")
    raise ValueError(f"unknown format code 0x{code:02x}")
