"""Readable record headers for the properties of a message, and application properties from headers (KM-5, KM-13).

The prefix `amqp.` is reserved for the gateway: properties have it, and headers with it do not become application
properties. The exact, typed values are in `amqp.bare`.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from bridges.kafka.records.envelope import Header
from gateway.amqp.codec import types as t
from gateway.amqp.codec.decoder import LIMITS, READERS, decode, malformed
from gateway.amqp.codec.types import Value
from gateway.amqp.message._sections import list_texts, map_texts
from gateway.amqp.message.section_index import opened
from gateway.amqp.message.sections import SectionOffsets, application_properties, message_annotations

RESERVED: Final = "amqp."
BODY: Final = "amqp.body"
CONTENT_TYPE: Final = "content-type"
HEADERS_ANNOTATION: Final = "x-opt-kafka-headers"
_LISTED: Final = HEADERS_ANNOTATION.encode()

_PROPERTIES: Final = (
    "amqp.message-id",
    "amqp.user-id",
    "amqp.to",
    "amqp.subject",
    "amqp.reply-to",
    "amqp.correlation-id",
    CONTENT_TYPE,
    "amqp.content-encoding",
    "amqp.absolute-expiry-time",
    "amqp.creation-time",
    "amqp.group-id",
    "amqp.group-sequence",
    "amqp.reply-to-group-id",
)
_NULL, _STRING = 0x40, 0xA1


def _hexadecimal(value: bytes) -> bytes:
    return value.hex().encode()


def _decimal(value: int) -> bytes:
    return b"%d" % value


def _text(value: object) -> bytes:
    return str(value).encode()


_TEXTS: Final[dict[type, Callable[[Value], bytes | None]]] = {
    type(None): lambda value: None,
    bool: lambda value: b"true" if value else b"false",
    **dict.fromkeys((t.Ubyte, t.Ushort, t.Uint, t.Ulong, t.Byte, t.Short, t.Int, t.Long, t.Timestamp), _decimal),
    **dict.fromkeys((t.Decimal32, t.Decimal64, t.Decimal128), _hexadecimal),
    float: lambda value: repr(value).encode(),
    t.Float: lambda value: float.__repr__(value).encode(),
    **dict.fromkeys((str, t.Symbol, t.Char), str.encode),
    uuid.UUID: _text,
    bytes: lambda value: value,
}
"""The text of a value by type: times in milliseconds since 1970, decimals as the hexadecimal digits of their bytes."""


def readable_headers(data: bytes, layout: SectionOffsets) -> list[Header]:
    """Headers for the application properties and properties of a message."""
    try:
        headers = _application_headers(data, layout) if layout.app < layout.body else []
        if layout.properties < layout.app:
            headers += _property_headers(data, layout, headers)
    except (IndexError, struct.error):
        raise malformed("value cut off") from None
    except UnicodeDecodeError as error:
        raise malformed(f"text is not valid {error.encoding}") from None
    return headers


def _application_headers(data: bytes, layout: SectionOffsets) -> list[Header]:
    position, end, count = opened(data, layout.app)
    found = map_texts(data, position, end, _known_name)
    headers, position = _map_headers(data, position, end) if found is ... else (found, end)
    if position != end or 2 * len(dict(headers)) != count:  # rare, or not a map: a duplicate key is an error
        application_properties(data, layout)
    return _in_order(data, layout, headers)


def _map_headers(data: bytes, position: int, end: int) -> tuple[list[Header], int]:
    """The general form: keys and values of any type. Texts are copied as they are encoded."""
    headers: list[Header] = []
    while position < end:
        if data[position] == _STRING:
            after = position + 2 + data[position + 1]
            name = _known_name(data[position + 2 : after])
        else:
            key, after = decode(data, position)
            name = _header_name(key) if type(key) is str else None
        if data[after] == _STRING:
            position = after + 2 + data[after + 1]
            text: bytes | None = data[after + 2 : position]
            if text and not text.isascii():
                text.decode()
        else:
            value, position = READERS[data[after]](data, after + 1, LIMITS.depth)
            convert = _TEXTS.get(type(value))
            if convert is None:
                continue
            text = convert(value)
        if name is not None:
            headers.append((name, text))
    return headers, position


def _in_order(data: bytes, layout: SectionOffsets, headers: list[Header]) -> list[Header]:
    """The headers in the order that the message lists (KM-5), if they are the same headers."""
    if data.find(_LISTED, layout.ma, layout.bare) >= 0:
        listed = _listed(message_annotations(data, layout).get(HEADERS_ANNOTATION))
        if listed and dict(listed) == dict(headers):
            return listed
    return headers


def _property_headers(data: bytes, layout: SectionOffsets, taken: list[Header]) -> list[Header]:
    position, end, count = opened(data, layout.properties)
    found = list_texts(data, position, end, _PROPERTIES[:count]) if count <= len(_PROPERTIES) else ...
    headers = _list_headers(data, position, end, count) if found is ... else found
    if taken and CONTENT_TYPE in dict(taken):
        return [header for header in headers if header[0] != CONTENT_TYPE]
    return headers


def _list_headers(data: bytes, position: int, end: int, count: int) -> list[Header]:
    """The general form: fields of any type, and the errors."""
    headers: list[Header] = []
    for name in _PROPERTIES[:count]:
        form = data[position]
        if form == _NULL:
            position += 1
        elif form == _STRING:
            after = position + 2 + data[position + 1]
            text = data[position + 2 : after]
            if not text.isascii():
                text.decode()
            headers.append((name, text))
            position = after
        else:
            value, position = READERS[form](data, position + 1, LIMITS.depth)
            convert = _TEXTS.get(type(value))
            if convert is not None:
                headers.append((name, convert(value)))
    if position != end or count > len(_PROPERTIES):
        raise malformed("fields do not fill the properties section")
    return headers


@lru_cache(maxsize=1024)
def _known_name(name: bytes) -> str | None:
    """Called only for names of less than 256 bytes, so that longer ones cannot fill the cache."""
    return _header_name(name.decode())


def _header_name(name: str) -> str | None:
    """None for reserved names, and for names with NUL, which librdkafka would cut off.

    A changed header would invalidate the digest in `amqp.bare`.
    """
    return None if "\0" in name or name.startswith(RESERVED) else name


def _listed(value: object) -> list[Header]:
    """The headers in the annotation; empty unless every item is a list of a string, and a binary or null."""
    if not isinstance(value, list) or not all(_is_pair(item) for item in value):
        return []
    return [(name, content) for name, content in value if not name.startswith(RESERVED)]


def _is_pair(item: object) -> bool:
    if not isinstance(item, list) or len(item) != 2:
        return False
    return type(item[0]) is str and (item[1] is None or type(item[1]) is bytes)


def visible_headers(headers: list[Header]) -> list[Header]:
    """The headers that become application properties."""
    return [header for header in headers if not header[0].startswith(RESERVED)]


def as_property(content: bytes | None) -> str | bytes | None:
    """The content of a header as an application property: a string if it is UTF-8, otherwise binary."""
    if content is None:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return content


def content_type(headers: list[Header]) -> t.Symbol | None:
    """The last content type in the headers; None: there is none, or it is not ASCII."""
    content = dict(headers).get(CONTENT_TYPE)
    return t.Symbol(content, "ascii") if content and content.isascii() else None
