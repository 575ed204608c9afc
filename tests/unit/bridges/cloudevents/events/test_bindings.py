"""The bindings, byte for byte against golden files, and read back with the CloudEvents SDK (CE-B-1 to CE-B-5)."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from cloudevents.core.base import BaseCloudEvent
from cloudevents.core.bindings import amqp as sdk_amqp
from cloudevents.core.bindings import http as sdk_http
from cloudevents.core.bindings import kafka as sdk_kafka
from cloudevents.core.formats.json import JSONFormat
from proton import Message, timestamp

from bridges.cloudevents.events.bindings.amqp import amqp_binary, amqp_structured
from bridges.cloudevents.events.bindings.errors import NotEncodable
from bridges.cloudevents.events.bindings.http import http_batched, http_binary, http_structured
from bridges.cloudevents.events.bindings.kafka import kafka_binary, kafka_structured, record_key
from bridges.cloudevents.events.bindings.mqtt import mqtt3, mqtt5_binary, mqtt5_structured
from bridges.cloudevents.events.bindings.nats import nats_binary, nats_structured
from bridges.cloudevents.events.event import CloudEvent
from bridges.kafka.records.decode import TOMBSTONE
from gateway.amqp.codec.codec import Timestamp
from gateway.amqp.message.sections import (
    application_properties,
    body_values,
    message_annotations,
    properties,
    walk,
)
from tests.support.cloudevents import golden
from tests.support.cloudevents.golden_events import OTHERS, RECORDS, binary, structured
from tests.support.cloudevents.records import StoredRecord
from tests.support.cloudevents.records import event as event_with

FORMAT = JSONFormat()
EVENTS = {name: golden.event(record) for name, record in RECORDS.items()}


def files(*names: str) -> list[object]:
    row = {"http": "CE-B-1", "amqp": "CE-B-2", "kafk": "CE-B-3", "mqtt": "CE-B-4", "nats": "CE-B-5"}
    return [pytest.param(name, marks=pytest.mark.row(row[name[:4]])) for name in names]


@pytest.mark.parametrize("name", files(*golden.ENCODERS))
def test_bytes_are_those_of_the_golden_file(name: str) -> None:
    found, stored = golden.encoded(name), golden.stored(name)
    assert list(found) == list(stored)
    for title, value in stored.items():
        assert found[title] == value, title


# -- the SDK's opinion


def assert_same(found: BaseCloudEvent, event: CloudEvent) -> None:
    """Attributes and data are those of the event: numbers and flags may have come as such."""
    attributes = found.get_attributes()
    content_type = attributes.pop("datacontenttype", None)
    if "time" not in event.attributes:
        del attributes["time"]  # the SDK sets the present
    assert {name: text(value) for name, value in attributes.items()} == {
        name: text(datetime.fromisoformat(value)) if name == "time" else value
        for name, value in event.attributes.items()
    }
    data = found.get_data()
    if content_type is not None:
        assert content_type == event.content_type
    if data is None:
        assert event.data in (None, b"", b"null")
    elif isinstance(data, bytes):
        assert data == event.data
    else:
        assert event.data is not None
        assert data in (event.data.decode(), parsed(event.data))


def text(value: object) -> str:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="milliseconds")
    return str(value).lower() if isinstance(value, bool) else str(value)


def parsed(data: bytes) -> object:
    try:
        return json.loads(data)
    except ValueError:
        return None


def each(*without: str) -> Any:
    return pytest.mark.parametrize("event", [pytest.param(event, id=name) for name, event in EVENTS.items()
                                             if name not in without])  # fmt: skip


@pytest.mark.row("CE-B-1")
@each()
def test_sdk_reads_http(event: CloudEvent) -> None:
    for encode in (http_binary, http_structured):
        fields, body = encode(event)
        assert len({name for name, _ in fields}) == len(fields)
        assert_same(sdk_http.from_http(sdk_http.HTTPMessage(dict(fields), body), FORMAT), event)
    batch = json.loads(http_batched([event, event])[1])
    assert len(batch) == 2
    for item in batch:
        assert_same(FORMAT.read(None, json.dumps(item)), event)


@pytest.mark.row("CE-B-3")
@each("space quote percent")  # the SDK percent-decodes its attribute, as HTTP's binding says and Kafka's does not
def test_sdk_reads_kafka(event: CloudEvent) -> None:
    for encode in (kafka_binary, kafka_structured):
        headers, value = encode(event)
        given = {name: content for name, content in headers if content is not None}
        assert_same(sdk_kafka.from_kafka(sdk_kafka.KafkaMessage(given, None, value or b""), FORMAT), event)


@pytest.mark.row("CE-B-2")
@each()
def test_sdk_reads_amqp(event: CloudEvent) -> None:
    for data in (amqp_binary(event), amqp_binary(event, "_"), amqp_structured(event)):
        layout = walk(data)
        media = properties(data, layout).content_type
        named = {} if media is None else {"content-type": str(media)}
        given = {str(name): value for name, value in application_properties(data, layout).items()}
        items = body_values(data, layout)
        body = b"".join(item if isinstance(item, bytes) else (item or "").encode() for item in items)
        assert_same(sdk_amqp.from_amqp(sdk_amqp.AMQPMessage(named, given, body), FORMAT), event)


@each()
def test_gateway_reads_what_it_wrote_to_kafka(event: CloudEvent) -> None:
    again = golden.event(StoredRecord(*kafka_binary(event)))
    assert (again.attributes, again.content_type, again.data) == (event.attributes, event.content_type, event.data)
    again = golden.event(StoredRecord(*kafka_structured(event)))
    assert again.attributes == event.attributes
    if again.content_type == event.content_type and parsed(event.data or b"") is None:
        assert again.data == event.data


# -- what the golden files do not say


@pytest.mark.row("CE-3.1.2-3", "CE-B-2")
def test_amqp_has_typed_time_and_the_prefix_that_was_asked_for() -> None:
    event = EVENTS["example of the specification"]
    for separator in (":", "_"):
        data = amqp_binary(event, separator)  # type: ignore[arg-type]
        found = application_properties(data, walk(data))
        assert found[f"cloudEvents{separator}time"] == Timestamp(1522949460000)
        assert type(found[f"cloudEvents{separator}time"]) is Timestamp
        assert found[f"cloudEvents{separator}type"] == "com.github.pull_request.opened"


@pytest.mark.row("CE-B-2")
def test_proton_reads_typed_attributes() -> None:
    message = Message()
    message.decode(amqp_binary(EVENTS["example of the specification"]))
    assert message.content_type == "text/xml"
    assert message.body == b'<much wow="xml"/>'
    assert message.properties["cloudEvents:time"] == timestamp(1522949460000)
    assert type(message.properties["cloudEvents:time"]) is timestamp
    assert type(message.properties["cloudEvents:subject"]) is str


def test_amqp_event_without_data_that_came_structured_is_no_tombstone() -> None:
    data = amqp_binary(EVENTS["structured without data"])
    assert TOMBSTONE not in message_annotations(data, walk(data))
    assert body_values(data, walk(data)) == [b""]


@pytest.mark.parametrize("title", ["batch", "avro"])
def test_unreadable_events_are_sent_as_they_are(title: str) -> None:
    record = OTHERS[title]
    event = golden.event(record)
    media, body = record.headers_[0][1] if record.headers_ else b"", record.value_
    assert media is not None
    field = [("content-type", media.decode())]
    assert http_binary(event) == http_structured(event) == (field, body)
    assert kafka_binary(event) == kafka_structured(event) == ([("content-type", media)], body)
    assert mqtt5_binary(event) == mqtt5_structured(event) == (media.decode(), (), body)
    assert nats_binary(event) == nats_structured(event) == (dict(field), body)
    for data in (amqp_binary(event), amqp_structured(event)):
        assert properties(data, walk(data)).content_type == media.decode()
        assert body_values(data, walk(data)) == [body]
    assert http_batched([event]) == (field, body)
    for encode in (mqtt3, lambda event: http_batched([EVENTS["text"], event])):
        with pytest.raises(NotEncodable):
            encode(event)


@pytest.mark.row("CE-B-4")
@pytest.mark.parametrize("title", ["nul", "too long for mqtt"])
def test_mqtt_refuses_strings_that_it_has_not(title: str) -> None:
    with pytest.raises(NotEncodable) as error:
        mqtt5_binary(golden.event(OTHERS[title]))
    assert "subject" in str(error.value)


@pytest.mark.row("CE-B-4")
@pytest.mark.parametrize("character", ["\0", "\n", "\x1f", "\x7f", "\x9f", "\ufdd0", "\uffff", "\U0010fffe"])
def test_mqtt_refuses_characters_for_which_servers_close_the_connection(character: str) -> None:
    with pytest.raises(NotEncodable, match="control characters in subject"):
        mqtt5_binary(event_with(subject=f"a{character}b"))
    assert mqtt5_structured(event_with(subject=f"a{character}b")).payload


@pytest.mark.row("CE-3.2.2.2-7", "CE-B-4")
@each()
def test_mqtt3_payload_is_the_event_in_json(event: CloudEvent) -> None:
    assert_same(FORMAT.read(None, mqtt3(event)), event)


@pytest.mark.row("CE-3.2.2.2-6")
def test_attributes_win_over_user_properties_of_their_name() -> None:
    event = event_with(tenant="7")
    others = [("tenant", "other"), ("x", "1"), ("x", "2")]
    found = mqtt5_binary(event, others).user_properties
    assert found[-3:] == (("tenant", "7"), ("x", "1"), ("x", "2"))
    assert mqtt5_structured(event, others).user_properties == tuple(others)


@pytest.mark.row("CE-3.2.2.4-3")
@pytest.mark.parametrize(
    ("extractor", "key"),
    [
        (None, b"own"),
        ("subject", "grün".encode()),
        ("partitionkey", None),
        ("datacontenttype", b"application/json"),
        ("data:", b'{"a":{"b/c":[1,"x",true,null,{"d":1.5}]}}'),
        ("data:/a/b~1c/1", b"x"),
        ("data:/a/b~1c/0", b"1"),
        ("data:/a/b~1c/2", b"true"),
        ("data:/a/b~1c/3", None),
        ("data:/a/b~1c/4", b'{"d":1.5}'),
        ("data:/a/b~1c/5", None),
        ("data:/a/b~1c/-", None),
        ("data:/a/b~1c/01", None),
        ("data:/a/b~1c/1/x", None),
        ("data:/b", None),
    ],
)
def test_key_of_a_record(extractor: str | None, key: bytes | None) -> None:
    record = binary(b'{"a": {"b/c": [1, "x", true, null, {"d": 1.50}]}}', subject="grün")
    record.key_ = b"own"
    assert record_key(golden.event(record), extractor) == key


@pytest.mark.parametrize("data", [None, b"", b"{", b"\xff", b"[" * 100_000])
def test_key_of_data_that_is_no_json(data: bytes | None) -> None:
    assert record_key(golden.event(binary(data)), "data:/a") is None


def test_key_of_structured_data() -> None:
    assert record_key(golden.event(structured(data={"a": "k"})), "data:/a") == b"k"
