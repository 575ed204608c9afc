"""The shape of a message: what `batch_decoder` needs to decode many messages of one shape at once (docs/columns.md).

Messages of one log mostly differ in values, not in sections, fields, names and types. `shape_of` reads the shape of one
message; `batch_decoder` compares the bytes of the others with it. Unusual messages have no shape, and `row_decoder`
decodes them one by one. Pure.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from bridges.spark.columns import schema
from gateway.amqp.codec.decoder import skip
from gateway.amqp.message import sections
from gateway.amqp.message.section_index import descriptor, opened
from gateway.amqp.message.sections import SectionOffsets
from gateway.errors import AmqpError
from gateway.filters.predicate import MessageSection


class ShapeKind(NamedTuple):
    """An AMQP type whose values can be decoded together: its name, its member, and the bytes of each constructor.

    A negative width is the width of the size that precedes the value.
    """

    name: str
    member: str | None
    widths: tuple[tuple[int, int], ...]
    signed: bool = False


NULL: Final = ShapeKind("null", None, ((0x40, 0),))
BINARY: Final = ShapeKind("binary", "binary", ((0xA0, -1), (0xB0, -4)))
_KINDS: Final = (
    NULL,
    BINARY,
    ShapeKind("boolean", "boolean", ((0x41, 0), (0x42, 0), (0x56, 1))),
    ShapeKind("ubyte", "long", ((0x50, 1),)),
    ShapeKind("ushort", "long", ((0x60, 2),)),
    ShapeKind("uint", "long", ((0x70, 4), (0x52, 1), (0x43, 0))),
    ShapeKind("ulong", "long", ((0x80, 8), (0x53, 1), (0x44, 0))),
    ShapeKind("byte", "long", ((0x51, 1),), signed=True),
    ShapeKind("short", "long", ((0x61, 2),), signed=True),
    ShapeKind("int", "long", ((0x71, 4), (0x54, 1)), signed=True),
    ShapeKind("long", "long", ((0x81, 8), (0x55, 1)), signed=True),
    ShapeKind("timestamp", "long", ((0x83, 8),), signed=True),
    ShapeKind("float", "double", ((0x72, 4),)),
    ShapeKind("double", "double", ((0x82, 8),)),
    ShapeKind("uuid", "uuid", ((0x98, 16),)),
    ShapeKind("string", "text", ((0xA1, -1), (0xB1, -4))),
    ShapeKind("symbol", "text", ((0xA3, -1), (0xB3, -4))),
)
_BY_CODE: Final = {code: kind for kind in _KINDS for code, _ in kind.widths}
_IDENTIFIERS: Final = ("string", "ulong", "uuid", "binary")
_FIELDS: Final = {
    sections.HEADER: (("boolean",), ("ubyte",), ("uint",), ("boolean",), ("uint",)),
    sections.PROPERTIES: (
        _IDENTIFIERS, ("binary",), ("string",), ("string",), ("string",), _IDENTIFIERS, ("symbol",), ("symbol",),
        ("timestamp",), ("timestamp",), ("string",), ("uint",), ("string",),
    ),
}  # fmt: skip
"""The types of the fields of sections with fixed fields."""
ENTRIES: Final = 64
"""The most entries of a section of a message with a shape."""


class ShapeEntry(NamedTuple):
    """An entry of a map: its name in the column, its key as encoded, the type of its value."""

    name: str
    key: bytes
    kind: ShapeKind


class MessageShape(NamedTuple):
    """The sections of a message; `None` where one is absent. `body` is the section's code, 0 without one."""

    header: tuple[ShapeKind, ...] | None
    delivery_annotations: tuple[ShapeEntry, ...] | None
    message_annotations: tuple[ShapeEntry, ...] | None
    properties: tuple[ShapeKind, ...] | None
    application_properties: tuple[ShapeEntry, ...] | None
    body: int
    value: ShapeKind | None
    """The type of an amqp-value."""
    footer: tuple[ShapeEntry, ...] | None


class _Unusual(Exception):
    """The message cannot be decoded together with others."""


def shape_of(data: bytes) -> MessageShape | None:
    """The shape of an encoded message; `None` if the message has to be decoded by itself."""
    try:
        layout = sections.walk(data)
        body, value = _body(data, layout)
        return MessageShape(
            _fields(data, layout.header, layout.da, sections.HEADER),
            _entries(data, layout.da, layout.ma),
            _entries(data, layout.ma, layout.bare),
            _fields(data, layout.properties, layout.app, sections.PROPERTIES),
            _entries(data, layout.app, layout.body, MessageSection.APPLICATION_PROPERTIES),
            body,
            value,
            _entries(data, layout.footer, layout.end),
        )
    except (_Unusual, AmqpError, IndexError, UnicodeDecodeError):
        return None


def _body(data: bytes, layout: SectionOffsets) -> tuple[int, ShapeKind | None]:
    if layout.body == layout.footer:
        return 0, None
    code = _plain(data, layout.body)
    if code == sections.AMQP_VALUE:
        return code, _kind(data, layout.body + 3)
    if code != sections.DATA or skip(data, layout.body + 3) != layout.footer:
        raise _Unusual
    return code, None


def _plain(data: bytes, start: int) -> int:
    """The code of a section whose descriptor is a smallulong."""
    if data[start : start + 2] != b"\x00\x53":
        raise _Unusual
    return descriptor(data, start)[0]


def _kind(data: bytes, position: int) -> ShapeKind:
    kind = _BY_CODE.get(data[position])
    if kind is None:
        raise _Unusual
    return kind


def _fields(data: bytes, start: int, end: int, code: int) -> tuple[ShapeKind, ...] | None:
    if start == end:
        return None
    _plain(data, start)
    position, end, count = opened(data, start)
    allowed = _FIELDS[code]
    if not 0 < count <= len(allowed):
        raise _Unusual
    found = []
    for names in allowed[:count]:
        kind = _kind(data, position)
        if kind is not NULL and kind.name not in names:
            raise _Unusual
        found.append(kind)
        position = skip(data, position)
    return tuple(found)


def _entries(data: bytes, start: int, end: int, section: MessageSection | None = None) -> tuple[ShapeEntry, ...] | None:
    if start == end:
        return None
    _plain(data, start)
    position, end, count = opened(data, start)
    if count & 1 or not 0 < count <= 2 * ENTRIES:
        raise _Unusual
    found: dict[str, ShapeEntry] = {}
    for _ in range(count >> 1):
        after = skip(data, position)
        key = data[position:after]
        if key[0] not in (0xA1, 0xA3):
            raise _Unusual
        text = key[2:].decode("utf-8" if key[0] == 0xA1 else "ascii")
        if text in found:
            raise _Unusual
        name = text if section is MessageSection.APPLICATION_PROPERTIES else schema.step(text)
        found[text] = ShapeEntry(name, key, _kind(data, after))
        position = skip(data, after)
    return tuple(found.values())
