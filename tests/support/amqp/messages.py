"""Messages as bytes, for scripted peers and raw sends: a section is present only if it is given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gateway.amqp.codec.codec import Described, Symbol, Timestamp, Uint, Ulong, decode, encode
from tests.support.amqp.wire_types import wrong_names

PROPERTIES = [
    "message_id",
    "user_id",
    "to",
    "subject",
    "reply_to",
    "correlation_id",
    "content_type",
    "content_encoding",
    "absolute_expiry_time",
    "creation_time",
    "group_id",
    "group_sequence",
    "reply_to_group_id",
]
KINDS: dict[str, type] = {
    "content_type": Symbol,
    "content_encoding": Symbol,
    "absolute_expiry_time": Timestamp,
    "creation_time": Timestamp,
    "group_sequence": Uint,
}
SECTIONS = {
    0x70: "header",
    0x71: "delivery_annotations",
    0x72: "message_annotations",
    0x73: "properties",
    0x74: "application_properties",
    0x75: "data",
    0x76: "sequence",
    0x77: "value",
    0x78: "footer",
}


ANNOTATIONS = ("delivery_annotations", "message_annotations", "footer")


def section(code: int, value: Any) -> bytes:
    """Return one section."""
    return encode(Described(Ulong(code), value))


def symbol_keys(annotations: Mapping[str, Any]) -> dict[Symbol, Any]:
    """Return annotations as they are on the wire."""
    return {Symbol(key): value for key, value in annotations.items()}


def properties_list(fields: Mapping[str, Any]) -> list[Any]:
    """Return the properties section's list; plain values get the field's wire type."""
    assert fields.keys() <= set(PROPERTIES), fields
    values = [typed(name, fields.get(name)) for name in PROPERTIES]
    while values and values[-1] is None:
        values.pop()
    return values


def typed(name: str, value: Any) -> Any:
    """Give a plain integer or string the field's wire type."""
    return KINDS[name](value) if name in KINDS and type(value) in (int, str) else value


def message(
    body: bytes | None = b"body",
    *,
    header: list[Any] | None = None,
    da: Mapping[str, Any] | None = None,
    ma: Mapping[str, Any] | None = None,
    app: Mapping[str, Any] | None = None,
    value: Any = None,
    footer: Mapping[str, Any] | None = None,
    **properties: Any,
) -> bytes:
    """Return a message: a data body (or `value=` for an amqp-value), properties by name, annotations."""
    parts = [
        b"" if header is None else section(0x70, header),
        b"" if da is None else section(0x71, symbol_keys(da)),
        b"" if ma is None else section(0x72, symbol_keys(ma)),
        section(0x73, properties_list(properties)) if properties else b"",
        b"" if app is None else section(0x74, dict(app)),
        section(0x77, value) if value is not None else b"" if body is None else section(0x75, body),
        b"" if footer is None else section(0x78, symbol_keys(footer)),
    ]
    return b"".join(parts)


def sections(data: bytes) -> dict[str, Any]:
    """Return what a message holds, by section; properties by name, repeated body sections as a list.

    Annotations are held to the wire types of `wire_types`.
    """
    found: dict[str, Any] = {}
    offset = 0
    while offset < len(data):
        described, offset = decode(data, offset)
        name = SECTIONS[int(described.descriptor)]
        value = described.value
        if name == "properties":
            value = {key: item for key, item in zip(PROPERTIES, value, strict=False) if item is not None}
        if name in ANNOTATIONS:
            assert not (wrong := wrong_names(value)), f"wrong wire types in {name}: {'; '.join(wrong)}"
        found[name] = [found[name], value] if name in found else value
    return found


def split(data: bytes) -> dict[str, bytes]:
    """Return the exact bytes of each section by name; repeated body sections together."""
    found: dict[str, bytes] = {}
    offset = 0
    while offset < len(data):
        described, end = decode(data, offset)
        name = SECTIONS[int(described.descriptor)]
        found[name] = found.get(name, b"") + data[offset:end]
        offset = end
    return found


def bare(data: bytes) -> bytes:
    """Return the bytes of the bare message: properties, application properties and body."""
    hop = ("header", "delivery_annotations", "message_annotations", "footer")
    return b"".join(raw for name, raw in split(data).items() if name not in hop)


def fields(properties: bytes) -> dict[str, bytes]:
    """Return the exact bytes of each field of a properties section, nulls left out."""
    constructor = properties[3]
    offset = {0x45: 4, 0xC0: 6, 0xD0: 12}[constructor]
    found: dict[str, bytes] = {}
    for name in PROPERTIES:
        if offset < len(properties):
            _, end = decode(properties, offset)
            found[name] = properties[offset:end]
            offset = end
    return {name: raw for name, raw in found.items() if raw != b"\x40"}
