"""The record header `amqp.bare` (KM-13): what of a message its value and readable headers do not hold.

    kind (1 byte) | digest (16) | prefix length (1) | prefix | sections

`sections` are the encoded header, message annotations, properties, application properties and footer, in
this order and as they were sent. `prefix` is the body section's descriptor and size where they were not
the shortest, or the whole body section of a tombstone. The digest (BLAKE2b) covers all of that, the key,
the other headers in their order, and the value: a tool that changes any of them on the Kafka side makes
it mismatch, and then the readable form wins. It is no protection against forgery: whoever may write to
the topic may compute it; therefore everything read here is walked before it is sent to anybody.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from hashlib import blake2b
from typing import Final, NamedTuple

from gateway.amqp.sections import walk
from gateway.errors import AmqpError

BARE: Final = "amqp.bare"
DATA_VALUE: Final = 1
"""The value is the content of one data section (or null: a tombstone)."""
SECTIONS_VALUE: Final = 2
"""The value is the encoded body sections."""

_DIGEST: Final = 16
_PREFIX: Final = 1 + _DIGEST + 1
_NULL_SIZE: Final = b"\xff\xff\xff\xff"
_size: Final = struct.Struct(">I").pack

Header = tuple[str, bytes | None]


class Exact(NamedTuple):
    """A message as it was sent, without its delivery annotations, which go between the two."""

    header: bytes
    rest: bytes


def data_prefix(size: int) -> bytes:
    """The shortest start of a data section of `size` bytes."""
    return b"\x00\x53\x75\xa0" + bytes((size,)) if size < 256 else b"\x00\x53\x75\xb0" + _size(size)


def seal(
    kind: int, prefix: bytes, sections: bytes, key: bytes | None, value: bytes | None, headers: list[Header]
) -> bytes:
    """The value of the `amqp.bare` header of this record; `headers` are its others."""
    exact = bytes((len(prefix),)) + prefix + sections
    return bytes((kind,)) + _digest(kind, exact, key, value, headers) + exact


def rebuild(sealed: bytes, key: bytes | None, value: bytes | None, headers: list[Header]) -> Exact | None:
    """The message as it was sent, or `None` where the record is not as it was written."""
    if len(sealed) < _PREFIX or sealed[0] not in (DATA_VALUE, SECTIONS_VALUE):
        return None
    kind, exact = sealed[0], sealed[1 + _DIGEST :]
    if sealed[1 : 1 + _DIGEST] != _digest(kind, exact, key, value, headers):
        return None
    start = 1 + exact[0]
    try:
        return _assembled(exact[start:], _body(kind, exact[1:start], value))
    except AmqpError:
        return None


def is_body(data: bytes) -> bool:
    """Whether these are body sections and nothing else."""
    try:
        layout = walk(data)
    except AmqpError:
        return False
    return layout.body == 0 and layout.footer == layout.end


def _digest(kind: int, exact: bytes, key: bytes | None, value: bytes | None, headers: list[Header]) -> bytes:
    parts = [bytes((kind,)), _framed(exact), _framed(key)]
    parts += [_framed(part) for name, content in headers for part in (name.encode(), content)]
    digest = blake2b(b"".join(parts), digest_size=_DIGEST)
    digest.update(_NULL_SIZE if value is None else _size(len(value)))
    digest.update(value or b"")
    return digest.digest()


def _framed(part: bytes | None) -> bytes:
    return _NULL_SIZE if part is None else _size(len(part)) + part


def _body(kind: int, prefix: bytes, value: bytes | None) -> bytes | None:
    if kind == DATA_VALUE and not prefix and value is not None:
        return data_prefix(len(value)) + value
    body = prefix + (value or b"")
    return body if is_body(body) else None


def _assembled(sections: bytes, body: bytes | None) -> Exact | None:
    layout = walk(sections)
    if body is None or layout.da != layout.ma or layout.body != layout.footer:
        return None
    rest = sections[layout.da : layout.body] + body + sections[layout.footer :]
    return Exact(sections[: layout.da], rest)


def other_headers(headers: Iterable[Header]) -> tuple[list[Header], list[bytes | None]]:
    """The headers without `amqp.bare`, and every `amqp.bare` there is."""
    others: list[Header] = []
    bares: list[bytes | None] = []
    for item in headers:
        if item[0] == BARE:
            bares.append(item[1])
        else:
            others.append(item)
    return others, bares
