"""Events as MQTT messages (MQTT Protocol Binding 1.0): MQTT 5 has both modes, MQTT 3.1.1 only structured mode."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from bridges.cloudevents.events.bindings.errors import NotEncodable
from bridges.cloudevents.events.bindings.json_format import JSON_EVENT, json_event
from bridges.cloudevents.events.event import CloudEvent
from bridges.cloudevents.model.mqtt_text import is_mqtt_text

_LONGEST: Final = 65_535
"""Maximum length of an MQTT string in bytes."""
UserProperties = tuple[tuple[str, str], ...]


class MqttMessage(NamedTuple):
    """The parts of a PUBLISH that come from the event; MQTT 3.1.1 has no properties."""

    content_type: str | None
    user_properties: UserProperties
    payload: bytes


def mqtt5_binary(event: CloudEvent, others: Iterable[tuple[str, str]] = ()) -> MqttMessage:
    """MQTT 5, binary mode (3.1): attributes are user properties; `others` are kept unless they name attributes.

    An event with unreadable attributes is sent unchanged. Raises NotEncodable for text that MQTT strings cannot hold.
    """
    kept = tuple((name, value) for name, value in others if name not in event.attributes)
    properties = (*((name, _string(value, name)) for name, value in event.attributes.items()), *kept)
    return MqttMessage(_media(event.content_type), properties, event.data or b"")


def mqtt5_structured(event: CloudEvent, others: Iterable[tuple[str, str]] = ()) -> MqttMessage:
    """MQTT 5 in structured mode (3.2): unchanged if it was structured, otherwise in the JSON format."""
    if event.structured is not None:
        return MqttMessage(_media(event.structured.content_type), tuple(others), event.structured.body)
    return MqttMessage(JSON_EVENT, tuple(others), json_event(event))


def mqtt3(event: CloudEvent) -> bytes:
    """The payload for MQTT 3.1.1, which is always JSON; raises NotEncodable for an event in another format."""
    return json_event(event)


def _media(content_type: str | None) -> str | None:
    return None if content_type is None else _string(content_type, "datacontenttype")


def _string(text: str, name: str) -> str:
    """Check an MQTT string: a server would close the connection each time, and hear of no later event of the key."""
    if not is_mqtt_text(text):
        raise NotEncodable(f"MQTT cannot carry the control characters in {name}")
    if len(text) > _LONGEST or len(text.encode()) > _LONGEST:
        raise NotEncodable(f"MQTT cannot carry more than {_LONGEST} bytes in {name}")
    return text
