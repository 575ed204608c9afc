"""CloudEvents in messages and records: maps between the AMQP and the Kafka protocol binding (KM-13). Pure.

Binary mode: an attribute is an application property in AMQP, such as `cloudEvents:id` (or `cloudEvents_id`, which JMS
clients need), and a header in Kafka, such as `ce_id`. The content type of the data is the property `content-type` in
AMQP, and the header of that name in Kafka. Structured mode: a body with a content type `application/cloudevents…`, the
same on both sides.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from bridges.kafka.records.envelope import Header
from gateway.amqp.codec.codec import Symbol, Timestamp
from gateway.amqp.message.sections import SectionOffsets, application_properties, properties

EventValue = str | bytes | Timestamp | None
"""An application property from a header."""
PREFIXES: Final = ("cloudEvents:", "cloudEvents_")
HEADER_PREFIX: Final = "ce_"
STRUCTURED: Final = "application/cloudevents"
REQUIRED: Final = ("specversion", "id", "source", "type")
_MARK: Final = b"cloudEvents"
VERSION: Final = "ce_specversion"
"""The header that makes a record a CloudEvent."""
_TIME: Final = PREFIXES[0] + "time"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def is_binary(data: bytes, layout: SectionOffsets) -> bool:
    """Whether the message is a CloudEvent in binary mode, which has all required attributes."""
    if data.find(_MARK, layout.app, layout.body) < 0:  # most messages
        return False
    found = {_attribute(name) for name in application_properties(data, layout)}
    return found.issuperset(REQUIRED)


def is_structured(data: bytes, layout: SectionOffsets) -> bool:
    """Whether the body is a CloudEvent in structured mode, or a batch of them."""
    if STRUCTURED.encode() not in data[layout.properties : layout.app].lower():
        return False
    media = properties(data, layout).content_type
    return media is not None and media.lower().startswith(STRUCTURED)  # RFC 2045, 5.1: in any case


def attribute_headers(data: bytes, layout: SectionOffsets, headers: list[Header]) -> list[Header]:
    """The record headers of a CloudEvent in binary mode; `headers`: those of an ordinary message."""
    written: list[Header] = []
    values = application_properties(data, layout)
    for name, content in headers:
        attribute = _attribute(name)
        if attribute is None or name not in values:
            written.append((name, content))
        else:
            written.append((HEADER_PREFIX + attribute, _canonical(values[name], content)))
    return written


def event_properties(headers: list[Header], others: Mapping[str, EventValue]) -> Mapping[str, EventValue]:
    """Application properties of a record; those of a CloudEvent get the names and types of the AMQP binding."""
    if VERSION not in dict(headers):
        return others
    return dict(_property(name, value) for name, value in others.items())


def event_header(name: str) -> str | None:
    """The header that becomes the application property `name` of a CloudEvent; None: no header does."""
    if name.startswith(PREFIXES[0]):
        return HEADER_PREFIX + name[len(PREFIXES[0]) :]
    return None if name.startswith(HEADER_PREFIX) else name


def event_value(name: str, value: EventValue) -> EventValue:
    """The value of the application property `name` of a CloudEvent, from that of an ordinary record."""
    return _timestamp(value) if name == _TIME else value


def _attribute(name: object) -> str | None:
    """The attribute that a property has; None: it has none."""
    if isinstance(name, str) and name.startswith(PREFIXES):
        return name[len(PREFIXES[0]) :]
    return None


def _canonical(value: object, content: bytes | None) -> bytes | None:
    """The text of an attribute (CloudEvents 1.0, Type System); most types have that of any header."""
    if type(value) is Timestamp:
        return _time(value).encode()
    if type(value) is bytes:
        return base64.b64encode(value)
    return content


def _time(value: int) -> str:
    try:
        moment = _EPOCH + timedelta(milliseconds=value)
    except OverflowError:
        return str(int(value))
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _property(name: str, value: EventValue) -> tuple[str, EventValue]:
    if not name.startswith(HEADER_PREFIX):
        return name, value
    attribute = PREFIXES[0] + name[len(HEADER_PREFIX) :]
    return attribute, event_value(attribute, value)


def _timestamp(value: EventValue) -> EventValue:
    """The AMQP timestamp of a time with a zone and at most milliseconds; otherwise its text."""
    if not isinstance(value, str) or isinstance(value, Symbol):
        return value
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return value
    if moment.tzinfo is None or moment.microsecond % 1000:
        return value
    return Timestamp((moment - _EPOCH) // timedelta(milliseconds=1))
