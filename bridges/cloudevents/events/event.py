"""A record of a topic as a CloudEvent: its context attributes as strings, its data, and its position (CE 1.0)."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import quote

from bridges.cloudevents.events.structured import JSON_EVENT, is_json_event, parse_json
from bridges.kafka.records.cloudevents import HEADER_PREFIX, REQUIRED, STRUCTURED, VERSION
from bridges.kafka.records.encode import SECTIONS
from bridges.kafka.records.envelope import Header, is_body
from bridges.kafka.records.headers import BODY, CONTENT_TYPE
from bridges.kafka.records.record import KafkaRecord
from gateway.amqp.message.sections import body_values, walk

WRAPPED: Final = "kafka.record"
"""The event type of a wrapped record that is not an event."""
_LONGEST: Final = 255
"""Maximum length of an attribute name, so that producers cannot fill the memory with longer ones."""
_HEADER: Final = re.compile(rf"{HEADER_PREFIX}(?!data$)([a-z0-9]{{1,{_LONGEST}}})")
_NEVER_EMPTY: Final = frozenset(("subject", "time", "dataschema"))
"""Optional attributes that must not be empty (CE 1.0): a header without text means that there is none."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_STRUCTURED: Final = STRUCTURED.encode()


class StructuredBody(NamedTuple):
    """The value of a record in structured mode with its content type; forwarded unchanged, JSON in UTF-8."""

    content_type: str
    body: bytes


class CloudEvent(NamedTuple):
    """An event, in binary mode whatever its record's mode; `attributes` does not include `datacontenttype`.

    `address` is the address of the stream; `partition`, `offset` and `timestamp` (milliseconds since 1970) are the
    record's, `key` is its key. `attributes` is empty if they cannot be read: for a batch, or a structured event in a
    format other than JSON. Such an event matches no filter, and is sent unchanged.
    """

    attributes: Mapping[str, str]
    content_type: str | None
    data: bytes | None
    """None if the event has no data."""
    key: bytes | None
    address: str
    partition: int
    offset: int
    timestamp: int
    structured: StructuredBody | None = None
    """None if the record is in binary mode."""
    record: KafkaRecord | None = None
    """The record of the event: for dead letters, and for headers that are not attributes."""


def event_of(record: KafkaRecord, address: str, *, wrap: bool) -> CloudEvent | None:
    """Decode `record`, a record of the stream at `address`; never raises.

    None if the record is not a CloudEvent. With `wrap`, it becomes the data of an event of the type `kafka.record`.
    """
    headers = record.headers() or []
    named = dict(headers)
    media = named.get(CONTENT_TYPE)
    if media is not None and media[: len(_STRUCTURED)].lower() == _STRUCTURED:
        event = _structured(record, address, headers, media)
    elif VERSION in named:
        event = _binary(record, address, headers, media)
    else:
        event = None
    return _wrapped(record, address, media) if event is None and wrap else event


def _binary(record: KafkaRecord, address: str, headers: list[Header], media: bytes | None) -> CloudEvent | None:
    """Decode the headers of the Kafka binding, 3.2; None unless all required attributes are present."""
    attributes: dict[str, str] = {}
    try:
        for name, content in headers:
            if content is not None and (attribute := _attribute_of(name)) is not None:
                attributes[attribute] = content.decode()
        content_type = None if media is None else media.decode()
    except UnicodeDecodeError:
        return None
    written = attributes.pop("datacontenttype", None)
    if not has_required(attributes):
        return None
    if "" in attributes.values():
        attributes = {name: value for name, value in attributes.items() if value or name not in _NEVER_EMPTY}
    return _event(record, address, attributes, content_type or written or None, _data(record.value(), headers))


def _data(value: bytes | None, headers: list[Header]) -> bytes | None:
    """The data in a record's value, which is an encoded body if that was not a single data section (KM-13)."""
    if value is None or (BODY, SECTIONS) not in headers or not is_body(value):
        return value
    sections = body_values(value, walk(value))
    if all(isinstance(content, bytes) for content in sections):
        return b"".join(sections)
    (content, *others) = sections
    if isinstance(content, str) and not others:
        return content.encode()
    return None if content is None and not others else value


def has_required(attributes: Mapping[str, str]) -> bool:
    """Whether the required attributes are present and not empty (CE 1.0, Required Attributes)."""
    return all(map(attributes.get, REQUIRED))


@lru_cache(maxsize=1024)
def _attribute_of(header: str) -> str | None:
    """The attribute of a header, or None. The records of a topic usually have the same headers."""
    found = _HEADER.fullmatch(header)
    return None if found is None else sys.intern(found[1])


def _structured(record: KafkaRecord, address: str, headers: list[Header], media: bytes) -> CloudEvent | None:
    """Decode a record in structured mode (Kafka binding, 3.3); None if it is JSON, but not an event."""
    value = _data(record.value(), headers)
    if value is None or not media.isascii():
        return None
    content_type = media.decode()
    if not is_json_event(content_type):
        return _event(record, address, {}, content_type, value, StructuredBody(content_type, value))
    parsed = parse_json(value)
    if parsed is None or not has_required(parsed.attributes):
        return None
    body = StructuredBody(content_type if parsed.body is value else JSON_EVENT, parsed.body)
    return _event(record, address, parsed.attributes, parsed.content_type, parsed.data, body)


def _event(
    record: KafkaRecord,
    address: str,
    attributes: Mapping[str, str],
    content_type: str | None,
    data: bytes | None,
    structured: StructuredBody | None = None,
) -> CloudEvent:
    partition, offset, timestamp = record.partition(), record.offset(), record.timestamp()[1]
    return CloudEvent(
        attributes, content_type, data, record.key(), address, partition, offset, timestamp, structured, record
    )


def _wrapped(record: KafkaRecord, address: str, media: bytes | None) -> CloudEvent:
    """The record as data; the id comes from its position, so that a repetition has the same id."""
    attributes = {
        "specversion": "1.0",
        "id": f"{record.partition()}-{record.offset()}",
        "source": "/" + quote(address.lstrip("/")),
        "type": WRAPPED,
    }
    stamp = record.timestamp()[1]
    if stamp > 0 and (time := rfc3339(stamp)) is not None:
        attributes["time"] = time
    content_type = media.decode() if media is not None and media.isascii() else None
    return _event(record, address, attributes, content_type or None, record.value())


def rfc3339(milliseconds: int) -> str | None:
    """A time since 1970 as UTC text; None after the year 9999."""
    try:
        moment = _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return None
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
