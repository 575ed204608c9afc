"""The golden files of the bindings: `python -m tests.support.cloudevents.golden` writes them, the tests read them.

A file is a JSON object: the name of an event to its encoding, where bytes are texts of the characters 0 to 255.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from bridges.cloudevents.events.bindings.amqp import amqp_binary, amqp_structured
from bridges.cloudevents.events.bindings.errors import NotEncodable
from bridges.cloudevents.events.bindings.http import http_batched, http_binary, http_structured
from bridges.cloudevents.events.bindings.kafka import kafka_binary, kafka_structured
from bridges.cloudevents.events.bindings.mqtt import mqtt3, mqtt5_binary, mqtt5_structured
from bridges.cloudevents.events.bindings.nats import nats_binary, nats_structured
from bridges.cloudevents.events.event import CloudEvent, event_of
from tests.support.cloudevents.golden_events import RECORDS
from tests.support.cloudevents.records import ADDRESS, StoredRecord
from tests.support.project.parts import ROOT

FOLDER: Final = ROOT / "tests" / "unit" / "bridges" / "cloudevents" / "events" / "golden"
ENCODERS: Final[dict[str, Callable[[CloudEvent], Any]]] = {
    "http_binary": http_binary,
    "http_structured": http_structured,
    "http_batched": lambda event: http_batched([event, event]),
    "kafka_binary": kafka_binary,
    "kafka_structured": kafka_structured,
    "mqtt5_binary": mqtt5_binary,
    "mqtt5_structured": mqtt5_structured,
    "mqtt3": mqtt3,
    "nats_binary": nats_binary,
    "nats_structured": nats_structured,
    "amqp_binary": amqp_binary,
    "amqp_underscore": lambda event: amqp_binary(event, "_"),
    "amqp_structured": amqp_structured,
}


def event(record: StoredRecord) -> CloudEvent:
    """The event in a record that has one."""
    found = event_of(record, ADDRESS, wrap=False)
    assert found is not None
    return found


def to_json(value: object) -> object:
    """An encoding as JSON."""
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, tuple | list):
        return [to_json(item) for item in value]
    if isinstance(value, dict):
        return {name: to_json(item) for name, item in value.items()}
    return value


def encoded(name: str) -> dict[str, object]:
    """All forty events in one encoding; None for one that is refused."""
    return {title: _encode(name, record) for title, record in RECORDS.items()}


def _encode(name: str, record: StoredRecord) -> object:
    try:
        return to_json(ENCODERS[name](event(record)))
    except NotEncodable:
        return None


def stored(name: str) -> dict[str, object]:
    """The golden file of an encoding."""
    found: dict[str, object] = json.loads((FOLDER / f"{name}.json").read_text("utf-8"))
    return found


def write() -> None:
    """Write all files anew: for a reviewer to compare with what they were."""
    FOLDER.mkdir(exist_ok=True)
    for name in ENCODERS:
        lines = (f"{json.dumps(title)}: {json.dumps(value)}" for title, value in encoded(name).items())
        (FOLDER / f"{name}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")


if __name__ == "__main__":
    write()
