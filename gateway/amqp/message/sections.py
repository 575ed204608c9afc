"""Messages as bytes (AMQP 1.0 part 3, 3.2): read a section, edit the annotations, leave the rest alone.

The bare message is immutable in transit (3.2), so everything here except `replace_properties` copies it
unchanged. It re-exports `section_index` and `properties`, so that other packages import from one place.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from typing import Final

from gateway.amqp.codec.decoder import ASK_SKIP, STEPS, decode, malformed, skip
from gateway.amqp.codec.encoder import encode, encode_map
from gateway.amqp.codec.types import Value, ValueList, ValueMap
from gateway.amqp.message.properties import Properties, property_field, replace_properties
from gateway.amqp.message.section_index import (
    AMQP_SEQUENCE,
    AMQP_VALUE,
    APPLICATION_PROPERTIES,
    DATA,
    DELIVERY_ANNOTATIONS,
    FOOTER,
    HEADER,
    MESSAGE_ANNOTATIONS,
    PROPERTIES,
    SectionOffsets,
    descriptor,
    opened,
    walk,
)

__all__ = [
    "AMQP_SEQUENCE",
    "AMQP_VALUE",
    "APPLICATION_PROPERTIES",
    "DATA",
    "DELIVERY_ANNOTATIONS",
    "FOOTER",
    "HEADER",
    "KEEP",
    "MESSAGE_ANNOTATIONS",
    "PROPERTIES",
    "Properties",
    "SectionOffsets",
    "annotation_keys",
    "annotations_section",
    "application_properties",
    "body_kind",
    "body_values",
    "delivery_annotations",
    "edit_map",
    "footer",
    "header",
    "keep_entries",
    "map_entry",
    "message_annotations",
    "properties",
    "property_field",
    "replace_properties",
    "section",
    "splice",
    "walk",
]

KEEP: Final = b""
"""Keeps a section unchanged: no encoded section is empty."""

_SHORT: Final = (0xA3, 0xA1)
"""Symbols and strings of up to 255 bytes."""
_NOTHING: Final[Mapping[str, bytes]] = {}


def section(code: int, value: Value) -> bytes:
    """A whole section."""
    return bytes((0, 0x53, code)) + encode(value)


def annotations_section(code: int, entries: Mapping[str, bytes]) -> bytes:
    """An annotations section of symbol keys and already encoded values."""
    return bytes((0, 0x53, code)) + encode_map((_symbol(key), value) for key, value in entries.items())


def header(data: bytes, layout: SectionOffsets) -> ValueList:
    """The header's fields (3.2.1), as many as were sent."""
    if layout.header == layout.da:
        return []
    fields: ValueList = decode(data, descriptor(data, layout.header)[1])[0]
    return fields


def delivery_annotations(data: bytes, layout: SectionOffsets) -> ValueMap:
    """The delivery annotations, empty where there are none."""
    return _map(data, layout.da, layout.ma)


def message_annotations(data: bytes, layout: SectionOffsets) -> ValueMap:
    """The message annotations, empty where there are none."""
    return _map(data, layout.ma, layout.bare)


def properties(data: bytes, layout: SectionOffsets) -> Properties:
    """The properties, decoded field by field when asked."""
    return Properties(data, layout)


def application_properties(data: bytes, layout: SectionOffsets) -> ValueMap:
    """The application properties, empty where there are none."""
    return _map(data, layout.app, layout.body)


def footer(data: bytes, layout: SectionOffsets) -> ValueMap:
    """The footer, empty where there is none."""
    return _map(data, layout.footer, layout.end)


def _map(data: bytes, start: int, end: int) -> ValueMap:
    if start == end:
        return {}
    entries: ValueMap = decode(data, descriptor(data, start)[1])[0]
    return entries


def body_kind(data: bytes, layout: SectionOffsets) -> int:
    """`DATA`, `AMQP_SEQUENCE`, `AMQP_VALUE`, or 0 for a message without a body."""
    return descriptor(data, layout.body)[0] if layout.body < layout.footer else 0


def body_values(data: bytes, layout: SectionOffsets) -> ValueList:
    """Each body section's value: `bytes` of data, `list` of sequences, one value of amqp-value."""
    values, position = [], layout.body
    while position < layout.footer:
        value, position = decode(data, descriptor(data, position)[1])
        values.append(value)
    return values


def splice(data: bytes, layout: SectionOffsets, *, da: bytes | None = KEEP, ma: bytes | None = KEEP) -> bytes:
    """The message with its annotations sections replaced, inserted, or (`None`) removed."""
    if da == KEEP:
        da = data[layout.da : layout.ma]
    if ma == KEEP:
        return data[: layout.da] + (da or b"") + data[layout.ma :]
    return data[: layout.da] + (da or b"") + (ma or b"") + data[layout.bare :]


def edit_map(
    annotations: bytes,
    *,
    put: Mapping[str, bytes] = _NOTHING,
    drop: Collection[str] = (),
    code: int = DELIVERY_ANNOTATIONS,
) -> bytes | None:
    """An annotations section with entries set and dropped, every other entry's bytes as they were.

    `annotations` is the whole section or `b""`; then `code` is that of the new section. None: no entry is left.
    A string key counts as the symbol of the same text, so that its type cannot hide an entry.
    """
    entries: list[tuple[bytes, bytes]] = []
    if annotations:
        code = descriptor(annotations, 0)[0]
        unwanted = {name.encode() for name in (*put, *drop)}
        entries = [entry[1:] for entry in _entries(annotations) if entry[0] not in unwanted]
    entries += [(_symbol(name), value) for name, value in put.items()]
    return bytes((0, 0x53, code)) + encode_map(entries) if entries else None


def keep_entries(annotations: bytes, names: frozenset[bytes]) -> bytes | None:
    """An annotations section with only the entries of these names; the same object if there are no others.

    None: no entry is left. A string key counts as the symbol of the same text.
    """
    position, end, count = opened(annotations, 0)
    kept = []
    try:
        for _ in range(count >> 1):
            start, form = position, annotations[position]
            after = position + 2 + annotations[position + 1] if form in _SHORT else skip(annotations, position)
            step = STEPS[annotations[after]]
            position = skip(annotations, after) if step == ASK_SKIP else after + (step or 2 + annotations[after + 1])
            if _key_text(annotations, start, after) in names:
                kept.append((annotations[start:after], annotations[after:position]))
    except IndexError:
        position = -1
    if position != end or count & 1:
        raise malformed("entries do not fill the annotations")
    if kept and 2 * len(kept) == count:
        return annotations
    code = descriptor(annotations, 0)[0]
    return bytes((0, 0x53, code)) + encode_map(kept) if kept else None


def map_entry(annotations: bytes, name: str) -> bytes | None:
    """The encoded value under a symbol (or string) key of an encoded map section; `None` where absent."""
    key = name.encode()
    if key not in annotations:  # most messages: a fast check
        return None
    position, end, _ = opened(annotations, 0)
    while position < end:
        after = skip(annotations, position)
        text = _key_text(annotations, position, after)
        position = skip(annotations, after)
        if text == key:
            return annotations[after:position]
    return None


def _entries(annotations: bytes) -> list[tuple[bytes | None, bytes, bytes]]:
    """Each entry's name, where it has one, and its encoded key and value."""
    position, end, count = opened(annotations, 0)
    found = []
    for _ in range(count >> 1):
        after = skip(annotations, position)
        value_end = skip(annotations, after)
        key = _key_text(annotations, position, after)
        found.append((key, annotations[position:after], annotations[after:value_end]))
        position = value_end
    if position != end or count & 1:
        raise malformed("entries do not fill the annotations")
    return found


def annotation_keys(annotations: bytes) -> Iterator[bytes | None]:
    """The keys of an annotations section that are symbols, or strings; None for each other key.

    Raises:
        AmqpError: DECODE_ERROR, after the keys before the error.
    """
    position, end, count = opened(annotations, 0)
    for _ in range(count >> 1):
        after = skip(annotations, position)
        yield _key_text(annotations, position, after)
        position = skip(annotations, after)
    if position != end or count & 1:
        raise malformed("entries do not fill the annotations")


def _key_text(data: bytes, start: int, end: int) -> bytes | None:
    form = data[start]
    if form in (0xA3, 0xA1):
        return data[start + 2 : end]
    return data[start + 5 : end] if form in (0xB3, 0xB1) else None


@lru_cache(maxsize=256)
def _symbol(name: str) -> bytes:
    raw = name.encode("ascii")
    return (bytes((0xA3, len(raw))) if len(raw) < 256 else b"\xb3" + len(raw).to_bytes(4, "big")) + raw
