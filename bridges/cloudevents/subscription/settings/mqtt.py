"""Settings of MQTT sinks (CE 3.2.2.2). Pure."""

from __future__ import annotations

from typing import Final, Literal

from bridges.cloudevents.model.members import Check, InvalidMember, Members, boolean, integer, one_of
from bridges.cloudevents.model.mqtt_text import is_mqtt_text
from bridges.cloudevents.model.strict_json import pointer
from bridges.cloudevents.model.values import Json, Mode, MqttSettings, SinkProtocol
from bridges.cloudevents.subscription.settings.common import CONTEXT_ATTRIBUTES, text_map

_LONGEST: Final = 65_535
_level: Final[Check[Literal[0, 1, 2]]] = one_of(0, 1, 2)
_properties: Final = text_map(4096, CONTEXT_ATTRIBUTES)
_MODES: Final[tuple[Mode, ...]] = ("binary", "structured")


def mqtt_settings(members: Members, protocol: SinkProtocol) -> MqttSettings:
    """Parse the settings; MQTT 3.1.1 has neither expiry nor user properties, and its events are structured."""
    v5 = protocol is SinkProtocol.MQTT5
    topic = members.require("topicname", _topic, "")
    qos: Literal[0, 1, 2] = members.take("qos", _level, 1)
    retain = members.take("retain", boolean, False)
    expiry = members.take("expiry", integer(0, 2**32 - 1) if v5 else _not_here, None)
    properties = members.take("userproperties", _user_properties if v5 else _not_here, ())
    modes, usual = (_MODES, _MODES[0]) if v5 else (_MODES[1:], _MODES[1])
    mode = members.take("x-mode", one_of(*modes), usual)
    return MqttSettings(topic, qos, retain, expiry, properties or (), mode)


def _not_here(value: Json) -> None:
    raise InvalidMember("only for MQTT5")


def _user_properties(value: Json) -> tuple[tuple[str, str], ...]:
    found = _properties(value)
    for name, text in found:
        if not is_mqtt_text(name + text):
            raise InvalidMember("text without control characters", pointer(name))
    return found


def _topic(value: Json) -> str:
    if not isinstance(value, str) or not 0 < len(value.encode()) <= _LONGEST:
        raise InvalidMember(f"a topic of 1 to {_LONGEST} bytes")
    if value.startswith("$") or set(value) & set("+#") or not is_mqtt_text(value):
        raise InvalidMember(
            "a topic without the wildcards + and #, without control characters, and not one that begins with $"
        )
    return value
