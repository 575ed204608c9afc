"""The record header `amqp.bare` (KM-13): the parts of a message that are not in the value or the readable headers.

    kind (1 byte) | digest (16) | prefix length (1) | prefix | sections

`sections` are the encoded header, message annotations, properties, application properties and footer, in
this order and as they were sent. `prefix` is the descriptor and size of the body section if they did not
have the shortest form, or the whole body section of a tombstone. The digest covers all of that, the key, the
other headers in their order, and the value. If a Kafka tool changes any of them, the digest does not match,
and the record is treated as one of another producer. The digest does not protect against forgery, because
every producer of the topic can compute it; therefore everything read here is checked before it is sent.

The digest is the first 16 bytes of SHA-256, which processors accelerate and every language has, over: kind
(1 byte), sizes of key, value and the rest of `amqp.bare` (4 bytes each, -1: null), key, that rest, for each
header its name, the size of its content and the content, and the value. A name needs no size: the byte after
it never continues UTF-8 text without NUL.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from bridges.kafka.consume._fetch import seal
from bridges.kafka.records.digest import sha256
from gateway.amqp.codec.decoder import skip
from gateway.amqp.message.sections import SectionOffsets, walk
from gateway.errors import AmqpError

BARE: Final = "amqp.bare"
DEAD_LETTER: Final = "amqp.dead-letter."
"""The prefix of the headers that `dead_letters` appends to those of a record; the digest does not cover them."""
DATA_VALUE: Final = 1
"""The value is the content of one data section; null: a tombstone."""
SECTIONS_VALUE: Final = 2
"""The value is the encoded body sections."""

_KINDS: Final = (DATA_VALUE, SECTIONS_VALUE)
_DIGEST: Final = 16
_PREFIX: Final = 1 + _DIGEST + 1
_VALUE: Final = b"\x00\x53\x77"
_SHORT: Final = 256
"""From this number of bytes on, the size of a value is encoded in four bytes."""
_SHORT_START: Final = 5
_LONG_START: Final = 8
_NULL_SIZE: Final = b"\xff\xff\xff\xff"
_size: Final = struct.Struct(">I").pack
_new: Final = tuple.__new__
_sizes: Final = struct.Struct(">Biii").pack

Header = tuple[str, bytes | None]


class RestoredMessage(NamedTuple):
    """A message without its delivery annotations, which belong between the two parts."""

    header: bytes
    rest: bytes


def data_prefix(size: int) -> bytes:
    """The shortest start of a data section of `size` bytes."""
    return b"\x00\x53\x75\xa0" + bytes((size,)) if size < _SHORT else b"\x00\x53\x75\xb0" + _size(size)


def only_data(data: bytes, start: int, end: int) -> bytes | None:
    """The content of `data[start:end]` if that is one data section that begins as `data_prefix`; else None.

    The start of any other form of a data section, such as `b0` with fewer than 256 bytes, must be stored as well.
    """
    size = end - start
    if size >= _SHORT_START + _SHORT:
        first = start + _LONG_START
    elif size >= _SHORT_START:
        first = start + _SHORT_START
    else:
        return None
    return data[first:end] if data[start:first] == data_prefix(end - first) else None


def wrap(
    kind: int, prefix: bytes, sections: bytes, key: bytes | None, value: bytes | None, headers: list[Header]
) -> bytes:
    """The content of the header `amqp.bare` of a record; `headers`: its other headers."""
    exact = bytes((len(prefix),)) + prefix + sections
    return _sealed(kind, exact, key, value, headers)


def unwrap(envelope: bytes, key: bytes | None, value: bytes | None, headers: list[Header]) -> RestoredMessage | None:
    """The message as it was sent; None: no gateway wrote the record so, or it has been changed since it was written."""
    stored = stored_sections(envelope)
    if stored is None:
        return None
    kind, exact = envelope[0], envelope[1 + _DIGEST :]
    if envelope != _sealed(kind, exact, key, value, headers):
        return None
    return _assembled(*stored, _body(kind, exact[1 : 1 + exact[0]], value))


def stored_sections(envelope: bytes | None) -> tuple[bytes, SectionOffsets] | None:
    """The sections in an `amqp.bare` and their offsets, without checking the digest; None: no gateway wrote it so."""
    if not envelope or len(envelope) < _PREFIX or envelope[0] not in _KINDS:
        return None
    start = _PREFIX + envelope[_PREFIX - 1]
    if start > len(envelope):
        return None
    sections = envelope[start:]
    try:
        layout = walk(sections)
    except AmqpError:
        return None
    _, da, ma, _, _, _, body, footer, _ = layout
    return (sections, layout) if da == ma and body == footer else None


def is_body(data: bytes) -> bool:
    """Whether these bytes are body sections and nothing else."""
    try:
        if data[:3] == _VALUE:
            return skip(data, 3) == len(data)
        layout = walk(data)
    except AmqpError:
        return False
    return layout.body == 0 and layout.footer == layout.end


def _sealed(kind: int, exact: bytes, key: bytes | None, value: bytes | None, headers: list[Header]) -> bytes:
    """Kind, digest and the rest; in C if libcrypto is bound."""
    made = seal(kind, key, value, exact, headers)
    return bytes((kind,)) + _digest(kind, exact, key, value, headers) + exact if made is None else made


def _digest(kind: int, exact: bytes, key: bytes | None, value: bytes | None, headers: list[Header]) -> bytes:
    key_size = -1 if key is None else len(key)
    value_size = -1 if value is None else len(value)
    parts = [_sizes(kind, key_size, value_size, len(exact)), key or b"", exact]
    for name, content in headers:
        parts += (name.encode(), _NULL_SIZE) if content is None else (name.encode(), _size(len(content)), content)
    if value:
        parts.append(value)
    return sha256(b"".join(parts))[:_DIGEST]


def _body(kind: int, prefix: bytes, value: bytes | None) -> bytes | None:
    if kind == DATA_VALUE and not prefix and value is not None:
        return data_prefix(len(value)) + value
    body = prefix + (value or b"")
    return body if is_body(body) else None


def _assembled(sections: bytes, layout: SectionOffsets, body: bytes | None) -> RestoredMessage | None:
    if body is None:
        return None
    da, at = layout.da, layout.body
    return _new(RestoredMessage, (sections[:da], sections[da:at] + body + sections[at:]))


def split_envelope(headers: list[Header]) -> tuple[bytes | None, list[Header]]:
    """The content of `amqp.bare`, and the other headers; None: there is none, or there are several."""
    if headers[-1][0] == BARE:  # where the gateway writes it; with a second one before it the digest does not match
        return headers[-1][1], headers[:-1]
    headers = [item for item in headers if not item[0].startswith(DEAD_LETTER)]
    bares = [content for name, content in headers if name == BARE]
    return bares[0] if len(bares) == 1 else None, [item for item in headers if item[0] != BARE]
