"""Events as MQTT messages (MQTT Protocol Binding 1.0): MQTT 5 has both modes, MQTT 3.1.1 only the structured one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from bridges.cloudevents.events.bindings.errors import NotEncodable
from bridges.cloudevents.events.bindings.json_format import JSON_EVENT, json_event
from bridges.cloudevents.events.event import CloudEvent

_LONGEST: Final = 65_535
"""Bytes of a string of MQTT."""
UserProperties = tuple[tuple[str, str], ...]


class MqttMessage(NamedTuple):
    """The parts of a PUBLISH that are the event's; without properties in MQTT 3.1.1."""

    content_type: str | None
    user_properties: UserProperties
    payload: bytes


def mqtt5_binary(event: CloudEvent, others: Iterable[tuple[str, str]] = ()) -> MqttMessage:
    """MQTT 5 in binary mode (3.1): attributes are user properties; of `others` those that are no attributes stay.

    An event whose attributes cannot be read is sent as it is. Raises NotEncodable for what is no string of MQTT.
    """
    kept = tuple((name, value) for name, value in others if name not in event.attributes)
    properties = (*((name, _string(value, name)) for name, value in event.attributes.items()), *kept)
    return MqttMessage(_media(event.content_type), properties, event.data or b"")


def mqtt5_structured(event: CloudEvent, others: Iterable[tuple[str, str]] = ()) -> MqttMessage:
    """MQTT 5 in structured mode (3.2): as it came, otherwise in the JSON format."""
    if event.structured is not None:
        return MqttMessage(_media(event.structured.content_type), tuple(others), event.structured.body)
    return MqttMessage(JSON_EVENT, tuple(others), json_event(event))


def mqtt3(event: CloudEvent) -> bytes:
    """The payload of MQTT 3.1.1, which is always JSON; raises NotEncodable for an event in another format."""
    return json_event(event)


def _media(content_type: str | None) -> str | None:
    return None if content_type is None else _string(content_type, "datacontenttype")


def _string(text: str, name: str) -> str:
    """A string of MQTT (MQTT 5, 1.5.4)."""
    if "\0" in text:
        raise NotEncodable(f"MQTT cannot carry the NUL in {name}")
    if len(text) > _LONGEST or len(text.encode()) > _LONGEST:
        raise NotEncodable(f"MQTT cannot carry more than {_LONGEST} bytes in {name}")
    return text
