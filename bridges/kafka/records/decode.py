"""Kafka records to AMQP messages (KM-3 to KM-6, KM-13).

A record that the gateway wrote becomes exactly the message that was sent; any other becomes a message with its headers
as application properties. Records are not trusted: sections in them are checked before they are sent, and a record with
invalid sections is treated as any other.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from bridges.kafka.records.cloudevents import VERSION, event_properties
from bridges.kafka.records.encode import GROUP_KEY, KAFKA_KEY, MESSAGE, SECTIONS
from bridges.kafka.records.envelope import Header, RestoredMessage, data_prefix, is_body, split_envelope, unwrap
from bridges.kafka.records.headers import (
    BODY,
    CONTENT_TYPE,
    HEADERS_ANNOTATION,
    as_property,
    content_type,
    visible_headers,
)
from gateway.amqp.codec.codec import ValueList, encode, encode_list, encode_map
from gateway.amqp.message.sections import (
    AMQP_VALUE,
    APPLICATION_PROPERTIES,
    MESSAGE_ANNOTATIONS,
    annotations_section,
    edit_map,
    section,
    walk,
)
from gateway.errors import AmqpError

TOMBSTONE: Final = "x-opt-kafka-tombstone"
NO_TIMESTAMP, CREATE_TIME, LOG_APPEND_TIME = 0, 1, 2
"""Numbers of timestamp types in the Kafka client."""

_APPLICATION: Final = bytes((0, 0x53, APPLICATION_PROPERTIES))
_SHORT: Final = 256
_STRING: Final = [bytes((0xA1, size)) for size in range(_SHORT)]
_NULL_BODY: Final = section(AMQP_VALUE, None)


def from_record(key: bytes | None, value: bytes | None, headers: list[Header] | None) -> RestoredMessage:
    """The message of a record, without delivery annotations, which belong between `header` and `rest`."""
    if key is None and not headers and value is not None:
        return RestoredMessage(b"", data_prefix(len(value)) + value)
    envelope, others = split_envelope(headers) if headers else (None, [])
    if envelope is not None:
        exact = unwrap(envelope, key, value, others)
        if exact is not None:
            return exact if value is not None else _with_tombstone(exact)
    if value is not None and (BODY, MESSAGE) in others:
        message = _message(value)
        if message is not None:
            return message
    return RestoredMessage(b"", _readable(key, value, others))


def _with_tombstone(exact: RestoredMessage) -> RestoredMessage:
    """Add the annotation of tombstones, which also those that the gateway wrote have."""
    layout = walk(exact.rest)
    annotations = exact.rest[: layout.bare]
    edited = edit_map(annotations, put={TOMBSTONE: b"\x41"}, code=MESSAGE_ANNOTATIONS)
    return RestoredMessage(exact.header, (edited or b"") + exact.rest[layout.bare :])


def _message(value: bytes) -> RestoredMessage | None:
    """The message in a value of mode `amqp`; None: the value is not a message."""
    try:
        layout = walk(value)
    except AmqpError:
        return None
    return RestoredMessage(value[: layout.da], value[layout.ma :])


def _readable(key: bytes | None, value: bytes | None, headers: list[Header]) -> bytes:
    visible = visible_headers(headers)
    named = dict(visible)
    parts = []
    if key is not None or value is None or len(named) < len(visible):
        parts.append(_annotations(key, value, visible))
    if visible:
        if CONTENT_TYPE in named and (media := content_type(visible)) is not None:
            parts.append(b"\x00\x53\x73" + encode_list([b"\x40"] * 6 + [encode(media)]))
        if VERSION in named:
            values = {name: as_property(item) for name, item in named.items()}
            parts.append(section(APPLICATION_PROPERTIES, event_properties(visible, values)))
        else:
            parts.append(_APPLICATION + encode_map([(_name(name), _property(item)) for name, item in named.items()]))
    if value is None:
        parts.append(_NULL_BODY)
    elif (BODY, SECTIONS) in headers and is_body(value):
        parts.append(value)
    else:
        parts += data_prefix(len(value)), value
    return b"".join(parts)


def _name(name: str) -> bytes:
    return _known_name(name) if len(name) < _SHORT else encode(name)


@lru_cache(maxsize=1024)
def _known_name(name: str) -> bytes:
    """The encoded name of a header; the records of a topic usually have the same names."""
    return encode(name)


def _property(content: bytes | None) -> bytes:
    """`as_property`, encoded; a text is copied, and decoded only to check that it is UTF-8."""
    if content is None:
        return b"\x40"
    if len(content) >= _SHORT:
        return encode(as_property(content))
    if not content.isascii():
        try:
            content.decode()
        except UnicodeDecodeError:
            return encode(content)
    return _STRING[len(content)] + content


def _annotations(key: bytes | None, value: bytes | None, headers: list[Header]) -> bytes:
    entries: dict[str, bytes] = {}
    if key is not None:
        text = as_property(key)
        if isinstance(text, str):
            entries[GROUP_KEY] = encode(text)
        entries[KAFKA_KEY] = encode(key)
    if value is None:
        entries[TOMBSTONE] = b"\x41"
    if len(dict(headers)) < len(headers):
        listed: ValueList = [[name, content] for name, content in headers]
        entries[HEADERS_ANNOTATION] = encode(listed)
    return annotations_section(MESSAGE_ANNOTATIONS, entries)
