"""Events as AMQP messages (AMQP Protocol Binding 1.0): whole encoded messages in both modes."""

from __future__ import annotations

from typing import Final, Literal

from bridges.cloudevents.events.bindings.kafka import kafka_binary, kafka_structured
from bridges.cloudevents.events.event import CloudEvent
from bridges.kafka.records.cloudevents import PREFIXES
from bridges.kafka.records.decode import from_record
from gateway.amqp.message.sections import APPLICATION_PROPERTIES, application_properties, section, walk

_COLON, _UNDERSCORE = PREFIXES
_PREFIX: Final = _COLON.encode()


def amqp_binary(event: CloudEvent, separator: Literal[":", "_"] = ":") -> bytes:
    """The message in binary mode (3.1), without delivery annotations.

    A record in binary mode becomes the message that a receiver of its stream gets. `separator` is what follows
    `cloudEvents` in the names of application properties: JMS selectors cannot name one with a colon. An event whose
    attributes cannot be read is sent as it is.
    """
    if event.structured is None and event.record is not None:
        restored = from_record(event.record.key(), event.record.value(), event.record.headers())
    else:
        restored = from_record(event.key, event.data or b"", kafka_binary(event)[0])
    message = restored.header + restored.rest
    return message if separator == ":" else _renamed(message)


def amqp_structured(event: CloudEvent) -> bytes:
    """The message in structured mode (3.2): unchanged if it was structured, otherwise in the JSON format."""
    headers, value = kafka_structured(event)
    restored = from_record(event.key, value, headers)
    return restored.header + restored.rest


def _renamed(message: bytes) -> bytes:
    """Rename application properties to `cloudEvents_…`; if both spellings are present, the first is kept."""
    layout = walk(message)
    if message.find(_PREFIX, layout.app, layout.body) < 0:
        return message
    named = application_properties(message, layout)
    renamed = {_name(name): value for name, value in reversed(named.items())}
    properties = section(APPLICATION_PROPERTIES, dict(reversed(renamed.items())))
    return message[: layout.app] + properties + message[layout.body :]


def _name(name: object) -> object:
    return _UNDERSCORE + name[len(_COLON) :] if isinstance(name, str) and name.startswith(_COLON) else name
