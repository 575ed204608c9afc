"""CloudEvents in messages and records: the AMQP and the Kafka protocol binding onto each other (KM-13). Pure.

Binary mode: an attribute is the application property `cloudEvents:id` (or `cloudEvents_id`, as JMS clients have to
write it) there and the header `ce_id` here; the data's content type is the property of that name and the header
`content-type`. Structured mode is a body with a content type `application/cloudevents…`, the same on both sides.
"""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from typing import Final

from bridges.kafka.records.envelope import Header
from gateway.amqp.codec.codec import Symbol, Timestamp, Value
from gateway.amqp.message.sections import SectionOffsets, application_properties, properties

PREFIXES: Final = ("cloudEvents:", "cloudEvents_")
HEADER_PREFIX: Final = "ce_"
STRUCTURED: Final = "application/cloudevents"
REQUIRED: Final = ("specversion", "id", "source", "type")
_MARK: Final = b"cloudEvents"
VERSION: Final = "ce_specversion"
"""The header by which a record is a CloudEvent."""
_TIME: Final = PREFIXES[0] + "time"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def is_binary(data: bytes, layout: SectionOffsets) -> bool:
    """Whether the message is a CloudEvent in binary mode: it has all required attributes."""
    if data.find(_MARK, layout.app, layout.body) < 0:  # most messages
        return False
    found = {_attribute(name) for name in application_properties(data, layout)}
    return found.issuperset(REQUIRED)


def is_structured(data: bytes, layout: SectionOffsets) -> bool:
    """Whether the body is a CloudEvent in structured mode, or a batch of them."""
    if data.find(STRUCTURED.encode(), layout.properties, layout.app) < 0:
        return False
    media = properties(data, layout).content_type
    return media is not None and media.startswith(STRUCTURED)


def attribute_headers(data: bytes, layout: SectionOffsets, headers: list[Header]) -> list[Header]:
    """The record headers of a CloudEvent in binary mode, from those of any message."""
    written: list[Header] = []
    values = application_properties(data, layout)
    for name, content in headers:
        attribute = _attribute(name)
        if attribute is None or name not in values:
            written.append((name, content))
        else:
            written.append((HEADER_PREFIX + attribute, _canonical(values[name], content)))
    return written


def event_properties(headers: list[Header], others: dict[str, Value]) -> dict[str, Value]:
    """Application properties of a record that is a CloudEvent: `others` with the names and types of AMQP's binding."""
    if VERSION not in dict(headers):
        return others
    return dict(_property(name, value) for name, value in others.items())


def event_header(name: str) -> str | None:
    """The header of which the application property `name` of a CloudEvent is made; None: none (`event_properties`)."""
    if name.startswith(PREFIXES[0]):
        return HEADER_PREFIX + name[len(PREFIXES[0]) :]
    return None if name.startswith(HEADER_PREFIX) else name


def event_value(name: str, value: Value) -> Value:
    """The application property `name` of a CloudEvent, from that of a plain record."""
    return _moment(value) if name == _TIME else value


def _attribute(name: object) -> str | None:
    """The attribute a property is, None for any other."""
    if isinstance(name, str) and name.startswith(PREFIXES):
        return name[len(PREFIXES[0]) :]
    return None


def _canonical(value: Value, content: bytes | None) -> bytes | None:
    """An attribute's text (CloudEvents 1.0, Type System); most are the same as those of other headers."""
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


def _property(name: str, value: Value) -> tuple[str, Value]:
    if not name.startswith(HEADER_PREFIX):
        return name, value
    shown = PREFIXES[0] + name[len(HEADER_PREFIX) :]
    return shown, event_value(shown, value)


def _moment(value: Value) -> Value:
    """A time as AMQP timestamp if its text has a zone and at most milliseconds; else the text."""
    if not isinstance(value, str) or isinstance(value, Symbol):
        return value
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return value
    if moment.tzinfo is None or moment.microsecond % 1000:
        return value
    return Timestamp((moment - _EPOCH) // timedelta(milliseconds=1))
