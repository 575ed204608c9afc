"""Events as Kafka records (Kafka Protocol Binding 1.0): headers, value, and the key that a subscription selects."""

from __future__ import annotations

import json
from typing import Final

from bridges.cloudevents.events.bindings.json_format import JSON_EVENT, json_event
from bridges.cloudevents.events.event import CloudEvent
from bridges.cloudevents.model.values import Json
from bridges.kafka.records.cloudevents import HEADER_PREFIX
from bridges.kafka.records.envelope import Header
from bridges.kafka.records.headers import CONTENT_TYPE

_DATA: Final = "data:"


def kafka_binary(event: CloudEvent) -> tuple[list[Header], bytes | None]:
    """Headers and value in binary mode (3.2); an event with unreadable attributes is sent unchanged."""
    headers: list[Header] = [(HEADER_PREFIX + name, value.encode()) for name, value in event.attributes.items()]
    if event.content_type is not None:
        headers.append((CONTENT_TYPE, event.content_type.encode()))
    return headers, event.data


def kafka_structured(event: CloudEvent) -> tuple[list[Header], bytes]:
    """Headers and value in structured mode (3.3): unchanged if it was structured, otherwise in the JSON format."""
    if event.structured is not None:
        return [(CONTENT_TYPE, event.structured.content_type.encode())], event.structured.body
    return [(CONTENT_TYPE, JSON_EVENT.encode())], json_event(event)


def record_key(event: CloudEvent, extractor: str | None) -> bytes | None:
    """The key of the record (3.1, CE-3.2.2.4-3): without an extractor, the key of the source record.

    `extractor` is the name of an attribute, or `data:` with a JSON pointer into the data. None if the event has no such
    value; the record then has no key.
    """
    if extractor is None:
        return event.key
    if extractor.startswith(_DATA):
        return _in_data(event.data, extractor[len(_DATA) :])
    text = event.content_type if extractor == "datacontenttype" else event.attributes.get(extractor)
    return None if text is None else text.encode()


def _in_data(data: bytes | None, pointer: str) -> bytes | None:
    try:
        found = resolved(json.loads((data or b"").decode()), pointer)
        return found.encode() if isinstance(found, str) else _compact(found)
    except (ValueError, LookupError, RecursionError):
        return None


def _compact(value: Json) -> bytes | None:
    return None if value is None else json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def resolved(value: Json, pointer: str) -> Json:
    """Resolve a JSON pointer (RFC 6901) in a value; raises LookupError if nothing is there."""
    for step in pointer.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict):
            value = value[name]
        elif isinstance(value, list) and name.isascii() and name.isdecimal() and (name == "0" or name[0] != "0"):
            value = value[int(name)]
        else:
            raise LookupError(pointer)
    return value
