"""Settings of Kafka sinks (CE 3.2.2.4). Pure."""

from __future__ import annotations

import re
from typing import Final

from bridges.cloudevents.model.members import InvalidMember, Members, one_of, text
from bridges.cloudevents.model.values import Json, KafkaSettings
from policies.rules import legal_topic

_ATTRIBUTE: Final = re.compile(r"[a-z0-9]{1,64}", re.ASCII)
_LONGEST_ID: Final = text(255)
_POINTER: Final = re.compile(r"data:(?:/(?:[^~/]|~[01])*)+", re.DOTALL)


def kafka_settings(members: Members) -> KafkaSettings:
    """Parse the settings."""
    return KafkaSettings(
        topic=members.require("topicname", _topic, ""),
        key=members.take("partitionkeyextractor", _extractor, None),
        client_id=members.take("clientid", _client_id, None),
        acks=members.take("acks", one_of("0", "1", "all"), None),
        mode=members.take("x-mode", one_of("binary", "structured"), "binary"),
        mechanism=members.take("x-mechanism", one_of("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"), None),
    )


def _topic(value: Json) -> str:
    if isinstance(value, str) and legal_topic(value):
        return value
    raise InvalidMember("a topic: 1 to 249 characters of A-Z, a-z, 0-9, '.', '_' and '-'")


def _client_id(value: Json) -> str:
    """Brokers let `__admin_client` write to Kafka's internal topics."""
    found = _LONGEST_ID(value)
    if found.startswith("__"):
        raise InvalidMember("a name that does not begin with __, which has a meaning for brokers")
    return found


def _extractor(value: Json) -> str:
    if isinstance(value, str) and len(value) <= 1024:
        if _ATTRIBUTE.fullmatch(value) and value != "data":
            return value
        if _POINTER.fullmatch(value):
            return value
    raise InvalidMember('the name of an attribute, or data: with a JSON pointer, like "data:/customer/id"')
