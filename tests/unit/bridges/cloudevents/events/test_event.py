"""Records as events: binary, structured, wrapped, and what is none (CE 3.2.3.1)."""

from __future__ import annotations

import json

import pytest

from bridges.cloudevents.events.bindings.json_format import json_batch
from bridges.cloudevents.events.event import CloudEvent, event_of
from bridges.kafka.records.envelope import Header
from bridges.kafka.records.headers import BODY
from gateway.amqp.message.sections import AMQP_VALUE, DATA, section
from tests.support.cloudevents.records import ADDRESS, REQUIRED, StoredRecord, binary_record, structured_record


def of(record: StoredRecord, *, wrap: bool = False) -> CloudEvent | None:
    return event_of(record, ADDRESS, wrap=wrap)


def event_from(record: StoredRecord, *, wrap: bool = False) -> CloudEvent:
    found = of(record, wrap=wrap)
    assert found is not None
    return found


def structured(**members: object) -> StoredRecord:
    return structured_record(json.dumps({**REQUIRED, **members}).encode())


def test_binary_record_is_event_with_its_place_and_key() -> None:
    record = binary_record(REQUIRED | {"subject": "grün", "partitionkey": "k"}, b"data", "text/plain")
    record.key_, record.partition_, record.offset_, record.time = b"k", 3, 17, 1234
    event = event_from(record)
    assert event.attributes == REQUIRED | {"subject": "grün", "partitionkey": "k"}
    assert (event.content_type, event.data, event.key) == ("text/plain", b"data", b"k")
    assert (event.address, event.partition, event.offset, event.timestamp) == (ADDRESS, 3, 17, 1234)
    assert event.structured is None
    assert event.record is record


@pytest.mark.row("CE-3.2.3.1-10")
@pytest.mark.parametrize("missing", REQUIRED)
def test_record_without_a_required_attribute_is_no_event(missing: str) -> None:
    assert of(binary_record({name: value for name, value in REQUIRED.items() if name != missing})) is None
    assert of(binary_record(REQUIRED | {missing: ""})) is None
    assert of(structured(**{missing: None})) is None


@pytest.mark.parametrize(
    "headers",
    [
        None,
        [],
        [("color", b"red")],
        [*((f"ce_{name}", value.encode()) for name, value in REQUIRED.items()), ("ce_subject", b"\xff")],
        [*((f"ce_{name}", value.encode()) for name, value in REQUIRED.items()), ("content-type", b"\xff")],
    ],
    ids=["none", "empty", "plain", "invalid attribute", "invalid content type"],
)
def test_other_records_are_no_events_and_can_be_wrapped(headers: list[Header] | None) -> None:
    record = StoredRecord(headers, b"x", b"key", 2, 9, 1_700_000_000_123)
    assert of(record) is None
    event = event_from(record, wrap=True)
    assert event.attributes == {
        "specversion": "1.0",
        "id": "2-9",
        "source": "/events/orders",
        "type": "kafka.record",
        "time": "2023-11-14T22:13:20.123Z",
    }
    assert (event.data, event.key) == (b"x", b"key")


def test_wrapped_record_without_time_has_none_and_keeps_its_content_type() -> None:
    event = event_from(StoredRecord([("content-type", b"text/csv")], None, time=-1), wrap=True)
    assert "time" not in event.attributes
    assert (event.content_type, event.data) == ("text/csv", None)


def test_attribute_names_are_lower_case_letters_and_digits() -> None:
    record = binary_record(REQUIRED)
    assert record.headers_ is not None
    record.headers_ += [(f"ce_{name}", b"x") for name in ("Type", "", "data", "a-b")]
    record.headers_ += [("ce_2nd", b"y"), ("ce_none", None)]
    assert event_from(record).attributes == REQUIRED | {"2nd": "y"}


def test_last_header_of_a_name_counts() -> None:
    record = binary_record(REQUIRED)
    assert record.headers_ is not None
    record.headers_.append(("ce_type", b"second"))
    assert event_from(record).attributes["type"] == "second"


def test_an_optional_attribute_without_text_is_none() -> None:
    """The specification has no such events: a sink with a strict library would refuse each."""
    record = binary_record(REQUIRED | {"subject": "", "time": "", "dataschema": "", "extension": ""})
    assert event_from(record).attributes == REQUIRED | {"extension": ""}
    assert event_of(binary_record(REQUIRED | {"source": ""}), ADDRESS, wrap=False) is None


@pytest.mark.row("CE-3.2.3.1-5")
def test_structured_attributes_become_text() -> None:
    event = event_from(structured(count=5, flag=True, off=False, time="2018-04-05T17:31:00+02:00", none=None))
    assert event.attributes == REQUIRED | {
        "count": "5",
        "flag": "true",
        "off": "false",
        "time": "2018-04-05T17:31:00+02:00",
    }


@pytest.mark.parametrize(
    ("members", "content_type", "data"),
    [
        ({}, None, None),
        ({"data": {"a": [1, 2.5, "ü"]}}, "application/json", b'{"a": [1, 2.5, "\\u00fc"]}'),
        ({"data": "text"}, "application/json", b'"text"'),
        ({"data": None}, "application/json", b"null"),
        ({"data": "text", "datacontenttype": "text/plain"}, "text/plain", b"text"),
        ({"data": {"a": 1}, "datacontenttype": "text/plain"}, "text/plain", b'{"a": 1}'),
        ({"data": "text", "datacontenttype": "application/x+json; charset=utf-8"},
         "application/x+json; charset=utf-8", b'"text"'),
        ({"data_base64": "AAE=", "datacontenttype": "image/png"}, "image/png", b"\0\1"),
        ({"data_base64": "e30="}, None, b"{}"),
    ],
)  # fmt: skip
def test_structured_data_becomes_bytes(members: dict[str, object], content_type: str | None, data: bytes) -> None:
    event = event_from(structured(**members))
    assert (event.content_type, event.data) == (content_type, data)
    assert "datacontenttype" not in event.attributes


_REQUIRED_JSON = json.dumps(REQUIRED)[:-1]


@pytest.mark.parametrize(
    "data",
    ["1e400", "1.00000000000000000001", "-0", "2.50", "9" * 5000, '{"a":1,"a":2}', "[ 1 ,\t2 ]", '"\\ud800"'],
)
def test_data_in_json_is_passed_on_as_it_was_written(data: str) -> None:
    body = f'{_REQUIRED_JSON}, "data" :\n{data} , "last":"x"}}'.encode()
    event = event_from(StoredRecord([("content-type", b"application/cloudevents+json")], body))
    assert (event.content_type, event.data, event.attributes["last"]) == ("application/json", data.encode(), "x")


@pytest.mark.parametrize(
    "body", ["{}", "{,}", "{%s,}", "{%s}x", '{%s "x":"y"}', '{%s,"x" "y"}', "{%s,x:1}", "{%s", "[%s]"]
)
def test_what_is_almost_an_object_is_no_event(body: str) -> None:
    text = body.replace("%s", _REQUIRED_JSON[1:])
    assert of(StoredRecord([("content-type", b"application/cloudevents+json")], text.encode())) is None


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-be", "utf-32"])
def test_json_in_another_encoding_becomes_utf_8_and_spoils_no_batch(encoding: str) -> None:
    text = _REQUIRED_JSON + ', "data": "ü"}'
    content_type = f"application/cloudevents+json; charset={encoding}".encode()
    event = event_from(StoredRecord([("content-type", content_type)], text.encode(encoding)))
    assert event.structured == ("application/cloudevents+json", text.encode())
    assert json.loads(json_batch([event, event])) == [json.loads(text)] * 2


@pytest.mark.parametrize("parts", [1, 2], ids=["amqp-value", "two data sections"])
def test_a_structured_event_may_be_text_or_several_sections(parts: int) -> None:
    """JMS sends text as an amqp-value; the record has the encoded body then (KM-13)."""
    text = _REQUIRED_JSON + ', "data": 1}'
    data = [section(DATA, text[:20].encode()), section(DATA, text[20:].encode())]
    value = section(AMQP_VALUE, text) if parts == 1 else b"".join(data)
    event = event_from(StoredRecord([("content-type", b"application/cloudevents+json"), (BODY, b"sections")], value))
    assert (event.structured, event.data) == (("application/cloudevents+json", text.encode()), b"1")


def test_structured_body_is_kept_as_it_is() -> None:
    record = structured(subject="x")
    event = event_from(record)
    assert event.structured == ("application/cloudevents+json", record.value_)


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b'"x"', b"\xff", b"NaN", b"[" * 100_000, None,
     *(json.dumps({**REQUIRED, **more}).encode() for more in (
         {"Upper": "x"}, {"a-b": "x"}, {"x": 1.5}, {"x": {}}, {"x": []}, {"x": "\ud800"},
         {"data_base64": "***"}, {"data_base64": 5}, {"data_base64": "", "data": 1},
         {"data": "\ud800", "datacontenttype": "text/plain"},
     ))],
)  # fmt: skip
def test_structured_json_that_is_no_event(body: bytes | None) -> None:
    record = StoredRecord([("content-type", b"application/cloudevents+json; charset=UTF-8")], body)
    assert of(record) is None
    assert event_from(record, wrap=True).attributes["type"] == "kafka.record"


@pytest.mark.row("CE-3.2.3.1-10")
@pytest.mark.parametrize("media", ["avro", "protobuf", "xml", "Avro"])
@pytest.mark.parametrize("kind", ["application/cloudevents+", "application/cloudevents-batch+"])
def test_other_formats_and_batches_have_no_readable_attributes(kind: str, media: str) -> None:
    event = event_from(structured_record(b"\0\1\2", (kind + media).encode()))
    assert event.attributes == {}
    assert (event.content_type, event.data) == (kind + media, b"\0\1\2")
    assert event.structured == (kind + media, b"\0\1\2")
