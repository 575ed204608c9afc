"""Record headers that people and Kafka tools can read, and application properties made of them (KM-5, KM-13).

The prefix `amqp.` is the gateway's own: properties are written under it, and nothing under it becomes an
application property. The exact, typed values are in `amqp.bare`.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any, Final

from bridges.kafka.bare import Header
from gateway.amqp.codec import (
    Byte,
    Char,
    Decimal32,
    Decimal64,
    Decimal128,
    Float,
    Int,
    Long,
    Short,
    Symbol,
    Timestamp,
    Ubyte,
    Uint,
    Ulong,
    Ushort,
)
from gateway.amqp.sections import (
    Layout,
    application_properties,
    map_entry,
    message_annotations,
    properties,
)

RESERVED: Final = "amqp."
BODY: Final = "amqp.body"
CONTENT_TYPE: Final = "content-type"
HEADERS_ANNOTATION: Final = "x-opt-kafka-headers"

_PROPERTIES: Final = (
    (0, "amqp.message-id"),
    (1, "amqp.user-id"),
    (2, "amqp.to"),
    (3, "amqp.subject"),
    (4, "amqp.reply-to"),
    (5, "amqp.correlation-id"),
    (6, CONTENT_TYPE),
    (7, "amqp.content-encoding"),
    (8, "amqp.absolute-expiry-time"),
    (9, "amqp.creation-time"),
    (10, "amqp.group-id"),
    (11, "amqp.group-sequence"),
    (12, "amqp.reply-to-group-id"),
)


def _hexadecimal(value: bytes) -> bytes:
    return value.hex().encode()


def _decimal(value: int) -> bytes:
    return b"%d" % value


def _text(value: object) -> bytes:
    return str(value).encode()


_TEXTS: Final[dict[type, Callable[[Any], bytes | None]]] = {
    type(None): lambda value: None,
    bool: lambda value: b"true" if value else b"false",
    **dict.fromkeys((Ubyte, Ushort, Uint, Ulong, Byte, Short, Int, Long, Timestamp), _decimal),
    **dict.fromkeys((Decimal32, Decimal64, Decimal128), _hexadecimal),
    float: lambda value: repr(value).encode(),
    Float: lambda value: float.__repr__(value).encode(),
    **dict.fromkeys((str, Symbol, Char), str.encode),
    uuid.UUID: _text,
    bytes: lambda value: value,
}
"""Canonical text per type: times in milliseconds since 1970, decimals as hexadecimal of their bytes."""


def readable_headers(data: bytes, layout: Layout) -> list[Header]:
    """Headers for the application properties and properties of a message."""
    headers = _application_headers(data, layout) if layout.app < layout.body else []
    if layout.properties < layout.app:
        view = properties(data, layout)
        taken = {name for name, _ in headers}
        for index, name in _PROPERTIES:
            value = view.value(index)
            if value is not None and name not in taken and (text := _TEXTS.get(type(value))):
                headers.append((name, text(value)))
    return headers


def _application_headers(data: bytes, layout: Layout) -> list[Header]:
    """Without names that C would cut short: a header that changes on the way would void `amqp.bare`."""
    headers: list[Header] = []
    for name, value in application_properties(data, layout).items():
        text = _TEXTS.get(type(value))
        if type(name) is str and text and "\0" not in name and not name.startswith(RESERVED):
            headers.append((name, text(value)))
    if map_entry(data[layout.ma : layout.bare], HEADERS_ANNOTATION):
        listed = _listed(message_annotations(data, layout).get(HEADERS_ANNOTATION))
        if listed and dict(listed) == dict(headers):
            return listed
    return headers


def _listed(value: Any) -> list[Header]:
    """The ordered headers of the annotation; of no use unless every item is [string, binary or null]."""
    if not isinstance(value, list) or not all(_is_pair(item) for item in value):
        return []
    return [(name, content) for name, content in value if not name.startswith(RESERVED)]


def _is_pair(item: Any) -> bool:
    if not isinstance(item, list) or len(item) != 2:
        return False
    return type(item[0]) is str and (item[1] is None or type(item[1]) is bytes)


def shown(headers: list[Header]) -> list[Header]:
    """The headers that application properties show."""
    return [header for header in headers if not header[0].startswith(RESERVED)]


def as_property(content: bytes | None) -> str | bytes | None:
    """A header's content as an application property: text if it is UTF-8, otherwise binary."""
    if content is None:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return content


def content_type(headers: list[Header]) -> Symbol | None:
    """The content type the headers name last, where it is one."""
    content = dict(headers).get(CONTENT_TYPE)
    return Symbol(content, "ascii") if content and content.isascii() else None
