"""AMQP messages to Kafka records (KM-1, KM-4 to KM-6, KM-13).

In mode `auto` the value is what users of Kafka expect: the bytes of the single data section, or the encoded body
sections of any other body. The rest of the message is in the headers: readable, and exactly in `amqp.bare`. A message
that has only one data section needs no headers. Mode `amqp` stores the whole message in the value, `data` stores only
body and key. Delivery annotations are not stored, except the response address of a request from another scope, which
has headers of its own (KM-22).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from bridges.kafka.records.cloudevents import attribute_headers, is_binary, is_structured
from bridges.kafka.records.envelope import BARE, DATA_VALUE, SECTIONS_VALUE, Header, only_data, wrap
from bridges.kafka.records.headers import BODY, RESERVED, readable_headers
from gateway.amqp.codec.codec import Symbol, decode_all
from gateway.amqp.message._sections import count_values
from gateway.amqp.message.bounds import ITEMS
from gateway.amqp.message.sections import DATA, SectionOffsets, body_kind, body_values, map_entry, properties
from gateway.errors import INVALID_FIELD, NOT_IMPLEMENTED, RESOURCE_LIMIT_EXCEEDED, AmqpError, Fault

GROUP_KEY: Final = "event-streams-group-key"
KAFKA_KEY: Final = "x-opt-kafka-key"
TARGET_PARTITION: Final = "event-streams-target-partition"
SECTIONS: Final = b"sections"
MESSAGE: Final = b"message"
RESPONSE_ANNOTATIONS: Final = (
    "response-link-target-address",
    "response-address-cookie",
    "response-address-cookie-expiry",
)
MODES: Final = ("auto", "amqp", "data", "cloudevents")


class Record(NamedTuple):
    """A record to produce; `partition`: the target partition that the sender named, as a text."""

    key: bytes | None
    value: bytes | None
    headers: list[Header]
    partition: str | None


def to_record(
    data: bytes, layout: SectionOffsets, *, mode: str = "auto", tombstones: bool = False, compacted: bool = False
) -> Record:
    """The record for a message; raises `AmqpError` if the topic does not accept the message."""
    partition = target_partition(data, layout) if layout.da < layout.ma else None
    record = record_parts(data, layout, mode=mode, tombstones=tombstones, compacted=compacted)
    return Record(*record, partition)


def record_parts(
    data: bytes,
    layout: SectionOffsets,
    *,
    mode: str,
    tombstones: bool,
    compacted: bool,
    keys: Sequence[str] = ("group-key",),
) -> tuple[bytes | None, bytes | None, list[Header]]:
    """Key, value and headers of the record, without the target partition."""
    if layout.body - layout.ma > ITEMS or layout.da > ITEMS:
        _refuse_many(data, layout)
    key = _first_key(data, layout, keys)
    if compacted and key is None:
        raise AmqpError(
            INVALID_FIELD, "a compacted event log accepts only messages with a key", info=_field(GROUP_KEY)
        )
    tombstone = tombstones and key is not None and _is_null(data, layout)
    response = response_headers(data, layout) if layout.da < layout.ma else []
    if mode == "cloudevents" and not tombstone and not is_binary(data, layout) and not is_structured(data, layout):
        raise AmqpError(INVALID_FIELD, "this event log accepts only CloudEvents, in binary or structured mode")
    if mode in ("auto", "cloudevents"):
        return _auto(data, layout, key, tombstone, response)
    if mode == "amqp":
        value, headers = _whole_message(data, layout, tombstone)
        return key, value, headers + response
    if mode == "data":
        return key, None if tombstone else _joined_data(data, layout), response
    raise AmqpError(NOT_IMPLEMENTED, f"there is no record mode {mode!r}", fault=Fault.GATEWAY)


def _refuse_many(data: bytes, layout: SectionOffsets) -> None:
    """Refuse too many values: each becomes a header in Python, which costs as much as a small message."""
    spans = ((0, layout.da), (layout.ma, layout.body))
    if sum(count_values(data, start, end, ITEMS) for start, end in spans) > ITEMS:
        text = f"at most {ITEMS} values in annotations, properties and header fit an event log; put more in the body"
        raise AmqpError(RESOURCE_LIMIT_EXCEEDED, text)


def target_partition(data: bytes, layout: SectionOffsets) -> str | None:
    """The target partition that the sender named (Event Stream Extensions 4.6.6)."""
    value = _annotation(data[layout.da : layout.ma], TARGET_PARTITION)
    if value is None or type(value) is str or type(value) is Symbol:
        return value
    raise _wrong_type(TARGET_PARTITION, "symbol")


def _first_key(data: bytes, layout: SectionOffsets, keys: Sequence[str]) -> bytes | None:
    """The key, from the first of these fields that the message has (ES-4.6.7-3)."""
    for source in keys:
        if source == "group-key":
            key = record_key(data, layout) if layout.ma < layout.bare else None
        else:
            group = properties(data, layout).group_id if layout.properties < layout.app else None
            key = None if group is None else group.encode()
        if key is not None:
            return key
    return None


def record_key(data: bytes, layout: SectionOffsets) -> bytes | None:
    """The record key: the text of the group key (4.6.7), or else the annotation of Kafka's key."""
    if data.find(b"-key", layout.ma, layout.bare) < 0:  # part of both names; most messages have neither
        return None
    annotations = data[layout.ma : layout.bare]
    group = _annotation(annotations, GROUP_KEY)
    if group is not None:
        if type(group) is not str:
            raise _wrong_type(GROUP_KEY, "string")
        return group.encode()
    key = _annotation(annotations, KAFKA_KEY)
    if key is not None and type(key) is not bytes:
        raise _wrong_type(KAFKA_KEY, "binary")
    return key


def _annotation(annotations: bytes, name: str) -> object:
    encoded = map_entry(annotations, name)
    return None if encoded is None else decode_all(encoded)


def _wrong_type(name: str, expected: str) -> AmqpError:
    return AmqpError(INVALID_FIELD, f"annotation {name} must be a {expected}", info=_field(name))


def _field(name: str) -> dict[str, object]:
    return {"field": Symbol(name)}


def _is_null(data: bytes, layout: SectionOffsets) -> bool:
    return layout.footer - layout.body < 64 and body_values(data, layout) == [None]


def response_headers(data: bytes, layout: SectionOffsets) -> list[Header]:
    """The response address of a request (RA 2.3, KM-22): texts in UTF-8, the expiry in milliseconds since 1970."""
    if data.find(b"response-", layout.da, layout.ma) < 0:
        return []
    annotations = data[layout.da : layout.ma]
    values = ((name, _annotation(annotations, name)) for name in RESPONSE_ANNOTATIONS)
    return [(RESERVED + name, _as_header(value)) for name, value in values if value is not None]


def _as_header(value: object) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


def _auto(
    data: bytes, layout: SectionOffsets, key: bytes | None, tombstone: bool, response: list[Header]
) -> tuple[bytes | None, bytes | None, list[Header]]:
    _, da, ma, _, _, _, body, footer, end = layout
    kind, prefix, value = _body_parts(data, layout, tombstone)
    if kind == DATA_VALUE and not prefix and key is None and da == 0 and ma == body and footer == end and not response:
        return None, value, []  # nothing but data
    headers = readable_headers(data, layout)
    if is_binary(data, layout):
        headers = attribute_headers(data, layout, headers)
    headers += response
    if kind == SECTIONS_VALUE:
        headers.append((BODY, SECTIONS))
    rest = data[:da] + data[ma:body] + data[footer:]
    headers.append((BARE, wrap(kind, prefix, rest, key, value, headers)))
    return key, value, headers


def _body_parts(data: bytes, layout: SectionOffsets, tombstone: bool) -> tuple[int, bytes, bytes | None]:
    """The kind of the stored body, the part of it that is not in the value, and the value."""
    start, end = layout.body, layout.footer
    if tombstone:
        return DATA_VALUE, data[start:end], None
    value = only_data(data, start, end)
    if value is not None:
        return DATA_VALUE, b"", value
    if body_kind(data, layout) == DATA:
        values = body_values(data, layout)
        if len(values) == 1:
            return DATA_VALUE, data[start : end - len(values[0])], values[0]
    return SECTIONS_VALUE, b"", data[start:end]


def _whole_message(data: bytes, layout: SectionOffsets, tombstone: bool) -> tuple[bytes | None, list[Header]]:
    message = data[: layout.da] + data[layout.ma :]
    return (None, []) if tombstone else (message, [(BODY, MESSAGE)])


def _joined_data(data: bytes, layout: SectionOffsets) -> bytes:
    if body_kind(data, layout) != DATA:
        raise AmqpError(INVALID_FIELD, "this event log accepts only messages with a data body")
    return b"".join(body_values(data, layout))
