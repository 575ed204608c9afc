"""A record of a topic as a CloudEvent: its context attributes as text, its data, and where it lies (CE 1.0)."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import quote

from bridges.cloudevents.events.structured import is_json_event, parse_json
from bridges.kafka.records.cloudevents import HEADER_PREFIX, REQUIRED, STRUCTURED, VERSION
from bridges.kafka.records.encode import SECTIONS
from bridges.kafka.records.envelope import Header, is_body
from bridges.kafka.records.headers import BODY, CONTENT_TYPE
from bridges.kafka.records.record import KafkaRecord
from gateway.amqp.message.sections import body_values, walk

WRAPPED: Final = "kafka.record"
"""The type of an event that was made of a record that is none."""
_LONGEST: Final = 255
"""Characters of an attribute's name; producers cannot fill the memory with longer ones."""
_HEADER: Final = re.compile(rf"{HEADER_PREFIX}(?!data$)([a-z0-9]{{1,{_LONGEST}}})")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_STRUCTURED: Final = STRUCTURED.encode()


class StructuredBody(NamedTuple):
    """The value of a record in structured mode, with its content type: what is sent on as it is."""

    content_type: str
    body: bytes


class CloudEvent(NamedTuple):
    """An event, in binary mode whichever mode its record has; `attributes` without `datacontenttype`.

    `address` is the address of the stream; `partition`, `offset` and `timestamp` (milliseconds since 1970) are the
    record's, `key` is its key. `attributes` is empty if they cannot be read: a batch, or a structured event in another
    format than JSON. Such an event matches no filter, and is sent as it is.
    """

    attributes: Mapping[str, str]
    content_type: str | None
    data: bytes | None
    """None: the event has no data."""
    key: bytes | None
    address: str
    partition: int
    offset: int
    timestamp: int
    structured: StructuredBody | None = None
    """None: the record has the event in binary mode."""
    record: KafkaRecord | None = None
    """The record it was made of: for dead letters, and for headers that are no attributes."""


def event_of(record: KafkaRecord, address: str, *, wrap: bool) -> CloudEvent | None:
    """The event in `record`, a record of the stream at `address`; never raises.

    None: the record is no CloudEvent. With `wrap` it then becomes the data of an event of the type `kafka.record`.
    """
    headers = record.headers() or []
    named = dict(headers)
    media = named.get(CONTENT_TYPE)
    if media is not None and media[: len(_STRUCTURED)].lower() == _STRUCTURED:
        event = _structured(record, address, media)
    elif VERSION in named:
        event = _binary(record, address, headers, media)
    else:
        event = None
    return _wrapped(record, address, media) if event is None and wrap else event


def _binary(record: KafkaRecord, address: str, headers: list[Header], media: bytes | None) -> CloudEvent | None:
    """Of a record with the headers of the Kafka binding, 3.2; None unless it has all required attributes."""
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
    return _event(record, address, attributes, content_type or written or None, _data(record.value(), headers))


def _data(value: bytes | None, headers: list[Header]) -> bytes | None:
    """The data in a record's value, which is an encoded body where that was not one data section (KM-13)."""
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
    """Whether the attributes that every event has are there, and not empty (CE 1.0, Required Attributes)."""
    return all(map(attributes.get, REQUIRED))


@lru_cache(maxsize=1024)
def _attribute_of(header: str) -> str | None:
    """The attribute that a header is, None: it is none; the records of a topic have the same headers."""
    found = _HEADER.fullmatch(header)
    return None if found is None else sys.intern(found[1])


def _structured(record: KafkaRecord, address: str, media: bytes) -> CloudEvent | None:
    """Of a record in structured mode (Kafka binding, 3.3); None: it is JSON, but no event."""
    value = record.value()
    if value is None or not media.isascii():
        return None
    content_type = media.decode()
    body = StructuredBody(content_type, value)
    if not is_json_event(content_type):
        return _event(record, address, {}, content_type, value, body)
    parsed = parse_json(value)
    if parsed is None or not has_required(parsed.attributes):
        return None
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
    """The record as data; its place makes the id, so that a repetition has the same one."""
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
    """A time since 1970 as text in UTC; None beyond the year 9999."""
    try:
        moment = _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return None
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
