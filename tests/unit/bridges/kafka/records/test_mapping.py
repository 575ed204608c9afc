"""The record mapping by example, as Kafka's and AMQP's users see it (KM-1 to KM-6, KM-13)."""

from __future__ import annotations

import uuid

import pytest

from bridges.kafka.records import envelope
from bridges.kafka.records.envelope import DATA_VALUE, SECTIONS_VALUE, wrap
from bridges.kafka.records.mapping import (
    CREATE_TIME,
    LOG_APPEND_TIME,
    NO_TIMESTAMP,
    RecordReader,
    from_record,
    to_record,
)
from gateway.amqp.codec.codec import Decimal32, Float, Symbol, Timestamp, Ubyte, Ulong, encode
from gateway.amqp.message import sections
from gateway.amqp.message.sections import (
    AMQP_SEQUENCE,
    AMQP_VALUE,
    APPLICATION_PROPERTIES,
    DATA,
    DELIVERY_ANNOTATIONS,
    FOOTER,
    HEADER,
    MESSAGE_ANNOTATIONS,
    PROPERTIES,
    section,
    walk,
)
from gateway.errors import INVALID_FIELD, NOT_IMPLEMENTED, AmqpError, Fault

BODY = section(DATA, b"body")
NULL = section(AMQP_VALUE, None)


def _record(data, **options):
    return to_record(data, walk(data), **options)


def _message(key, value, headers, timestamp_type=LOG_APPEND_TIME):
    header, rest = from_record(key, value, headers)
    return header + rest, walk(header + rest)


def _annotated(code, **entries):
    return section(code, {Symbol(name.replace("_", "-")): value for name, value in entries.items()})


KEYED = _annotated(MESSAGE_ANNOTATIONS, event_streams_group_key="key")

# -- outgoing ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 255, 256, 70_000])
def test_plain_data_needs_no_headers(size):
    body = section(DATA, b"x" * size)
    assert _record(body) == (None, b"x" * size, [], None)
    assert from_record(None, b"x" * size, []) == (b"", body)
    assert from_record(None, b"x" * size, None) == (b"", body)


def test_delivery_annotations_are_not_stored():
    da = _annotated(DELIVERY_ANNOTATIONS, x_opt_hop=1)
    assert _record(da + BODY) == (None, b"body", [], None)
    assert b"x-opt-hop" not in b"".join(value for _, value in _record(da + KEYED + BODY).headers)


@pytest.mark.parametrize("partition", [Symbol("2"), "2"])
@pytest.mark.parametrize("bare", [BODY, section(PROPERTIES, ["id"]) + BODY])
def test_the_target_partition_is_read(partition, bare):
    assert (
        _record(_annotated(DELIVERY_ANNOTATIONS, event_streams_target_partition=partition) + bare).partition
        == "2"
    )


@pytest.mark.parametrize("partition", [2, b"2", Ulong(2)])
def test_a_target_partition_of_a_wrong_type_is_refused(partition):
    with pytest.raises(AmqpError, match="target-partition") as caught:
        _record(_annotated(DELIVERY_ANNOTATIONS, event_streams_target_partition=partition) + BODY)
    assert caught.value.condition == INVALID_FIELD
    assert caught.value.info == {"field": "event-streams-target-partition"}


@pytest.mark.parametrize(
    ("annotations", "key"),
    [
        ({"event_streams_group_key": "k"}, b"k"),
        ({"event_streams_group_key": ""}, b""),
        ({"event_streams_group_key": "ß"}, "ß".encode()),
        ({"x_opt_kafka_key": b"\xff"}, b"\xff"),
        ({"event_streams_group_key": "k", "x_opt_kafka_key": b"\xff"}, b"k"),
        ({"event_streams_group_key": None, "x_opt_kafka_key": b"\xff"}, b"\xff"),
        ({"x_opt_other": 1}, None),
    ],
)
def test_the_key(annotations, key):
    assert _record(_annotated(MESSAGE_ANNOTATIONS, **annotations) + BODY).key == key


@pytest.mark.parametrize(
    "annotations",
    [{"event_streams_group_key": Symbol("k")}, {"event_streams_group_key": b"k"}, {"x_opt_kafka_key": "k"}],
)
def test_a_key_of_a_wrong_type_is_refused(annotations):
    with pytest.raises(AmqpError, match="key") as caught:
        _record(_annotated(MESSAGE_ANNOTATIONS, **annotations) + BODY)
    assert caught.value.condition == INVALID_FIELD


def test_properties_and_application_properties_are_readable_headers():
    properties = section(
        PROPERTIES, [uuid.UUID(int=1), b"me", None, "subject", *[None] * 2, Symbol("text/plain")]
    )
    application = {
        "s": "ß",
        "null": None,
        "flag": True,
        "n": Ubyte(5),
        "f": 0.5,
        "f32": Float(0.1),
        "time": Timestamp(7),
        "bin": b"\xff",
        "dec": Decimal32(b"\x01\x02\x03\x04"),
        "id": uuid.UUID(int=2),
        "amqp.bare": "forged",
        "cut\0short": "by C",
    }
    data = section(HEADER, [True]) + properties + section(APPLICATION_PROPERTIES, application) + BODY
    record = _record(data)
    assert record.headers[:-1] == [
        ("s", "ß".encode()),
        ("null", None),
        ("flag", b"true"),
        ("n", b"5"),
        ("f", b"0.5"),
        ("f32", b"0.10000000149011612"),
        ("time", b"7"),
        ("bin", b"\xff"),
        ("dec", b"01020304"),
        ("id", b"00000000-0000-0000-0000-000000000002"),
        ("amqp.message-id", b"00000000-0000-0000-0000-000000000001"),
        ("amqp.user-id", b"me"),
        ("amqp.subject", b"subject"),
        ("content-type", b"text/plain"),
    ]
    assert record.headers[-1][0] == "amqp.bare"
    assert b"".join(from_record(record.key, record.value, record.headers)) == data


@pytest.mark.parametrize(
    "body",
    [
        b"",
        BODY + BODY,
        section(AMQP_VALUE, "text"),
        section(AMQP_VALUE, b"body"),
        section(AMQP_SEQUENCE, [1]) + section(AMQP_SEQUENCE, [2]),
        NULL,
    ],
)
def test_other_bodies_are_stored_as_sections(body):
    record = _record(body)
    assert record.value == body
    assert ("amqp.body", b"sections") in record.headers
    assert from_record(record.key, record.value, record.headers) == (b"", body)


@pytest.mark.parametrize(
    "body",
    [
        b"\x00\x53\x75\xb0\x00\x00\x00\x04body",
        b"\x00\x80\x00\x00\x00\x00\x00\x00\x00\x75\xa0\x04body",
        b"\x00" + encode(Symbol("amqp:data:binary")) + b"\xa0\x04body",
    ],
)
def test_data_not_in_its_shortest_encoding_is_exact_all_the_same(body):
    record = _record(body)
    assert record.value == b"body"
    assert from_record(record.key, record.value, record.headers) == (b"", body)


def test_null_becomes_a_tombstone_only_with_a_key_and_leave():
    assert _record(KEYED + NULL).value == NULL
    assert _record(NULL, tombstones=True).value == NULL
    record = _record(KEYED + NULL, tombstones=True)
    assert (record.key, record.value) == (b"key", None)
    data, layout = _message(record.key, record.value, record.headers)
    assert sections.message_annotations(data, layout) == {
        "event-streams-group-key": "key",
        "x-opt-kafka-tombstone": True,
    }
    assert data[layout.bare :] == NULL


def test_a_compacted_log_wants_keys():
    assert _record(KEYED + BODY, compacted=True).key == b"key"
    with pytest.raises(AmqpError, match="compacted") as caught:
        _record(BODY, compacted=True)
    assert caught.value.condition == INVALID_FIELD


def test_mode_amqp_stores_the_whole_message():
    da, footer = _annotated(DELIVERY_ANNOTATIONS, x=1), section(FOOTER, {Symbol("f"): 1})
    header = section(HEADER, [True])
    record = _record(header + da + KEYED + BODY + footer, mode="amqp")
    assert record == (b"key", header + KEYED + BODY + footer, [("amqp.body", b"message")], None)
    assert from_record(*record[:3]) == (header, KEYED + BODY + footer)


def test_mode_data_stores_body_and_key_only():
    data = section(HEADER, [True]) + KEYED + section(APPLICATION_PROPERTIES, {"a": 1}) + BODY + BODY
    assert _record(data, mode="data") == (b"key", b"bodybody", [], None)
    with pytest.raises(AmqpError, match="data body") as caught:
        _record(section(AMQP_VALUE, 1), mode="data")
    assert caught.value.condition == INVALID_FIELD


def test_an_unknown_mode_is_the_gateways_fault():
    with pytest.raises(AmqpError, match="mode") as caught:
        _record(KEYED + BODY, mode="xml")
    assert (caught.value.condition, caught.value.fault) == (NOT_IMPLEMENTED, Fault.GATEWAY)


ASKED = {
    Symbol("response-link-target-address"): "$replies.core",
    Symbol("response-address-cookie"): b"\x00\xff",
    Symbol("response-address-cookie-expiry"): Timestamp(1_700_000_000_000),
    Symbol("x-opt-hop"): 1,
}


@pytest.mark.parametrize("mode", ["auto", "amqp", "data"])
@pytest.mark.parametrize("rest", [b"", KEYED])
def test_how_a_request_is_answered_is_kept_in_headers(mode, rest):
    """KM-22; the message itself stays exact, and is what it would be without."""
    record = _record(section(DELIVERY_ANNOTATIONS, ASKED) + rest + BODY, mode=mode)
    headers = dict(record.headers)
    assert headers["amqp.response-link-target-address"] == b"$replies.core"
    assert headers["amqp.response-address-cookie"] == b"\x00\xff"
    assert headers["amqp.response-address-cookie-expiry"] == b"1700000000000"
    assert not any("hop" in name for name in headers)
    plain = _record(rest + BODY, mode=mode)
    assert (record.key, record.value) == (plain.key, plain.value)
    if mode != "data":
        assert _message(record.key, record.value, record.headers)[0] == rest + BODY


def test_a_record_with_a_cookie_is_an_answer():
    """KM-22: the cookie is an annotation beside those of the event, and no application property."""
    headers = [("amqp.address-cookie", b"\x00\xff"), ("n", b"1")]
    data = RecordReader().encode(None, b"body", headers, 0, 7, LOG_APPEND_TIME, 1)
    layout = walk(data)
    annotations = sections.delivery_annotations(data, layout)
    assert annotations["address-cookie"] == b"\x00\xff"
    assert annotations["event-streams-offset"] == f"{7:020d}"
    assert sections.application_properties(data, layout) == {"n": "1"}
    without = RecordReader().encode(None, b"body", headers[1:], 0, 7, LOG_APPEND_TIME, 1)
    assert "address-cookie" not in sections.delivery_annotations(without, walk(without))


# -- incoming ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "word"), [(NO_TIMESTAMP, "none"), (CREATE_TIME, "create"), (LOG_APPEND_TIME, "append")]
)
@pytest.mark.parametrize("record", [(None, b"value", []), (b"key", b"value", [("a", b"b")]), (None, None, [])])
def test_every_event_says_what_kind_of_time_it_has_and_nothing_is_added_to_what_was_sent(kind, word, record):
    """One key, always there, beside the time it is about: a message is not changed by it."""
    data = RecordReader().encode(*record, 0, 7, kind, 1)
    layout = walk(data)
    assert sections.delivery_annotations(data, layout)[Symbol("x-opt-kafka-timestamp-type")] == Symbol(word)
    assert "x-opt-kafka-timestamp-type" not in sections.message_annotations(data, layout)


def test_a_text_key_is_shown_as_text_and_as_bytes():
    data, layout = _message(b"key", b"value", [])
    assert sections.message_annotations(data, layout) == {
        "event-streams-group-key": "key",
        "x-opt-kafka-key": b"key",
    }


def test_a_binary_key_is_shown_as_bytes_only():
    annotations = sections.message_annotations(*_message(b"\xff", b"value", []))
    assert annotations == {"x-opt-kafka-key": b"\xff"}


def test_foreign_headers_become_application_properties():
    headers = [("text", "ß".encode()), ("bin", b"\xff"), ("null", None), ("amqp.secret", b"x")]
    data, layout = _message(None, b"value", headers)
    assert sections.application_properties(data, layout) == {"text": "ß", "bin": b"\xff", "null": None}
    assert "x-opt-kafka-headers" not in sections.message_annotations(data, layout)


def test_of_duplicate_headers_the_last_shows_and_all_are_listed():
    headers = [("a", b"1"), ("b", b"2"), ("a", None)]
    data, layout = _message(None, b"value", headers)
    assert sections.application_properties(data, layout) == {"a": None, "b": "2"}
    assert sections.message_annotations(data, layout)["x-opt-kafka-headers"] == [
        ["a", b"1"],
        ["b", b"2"],
        ["a", None],
    ]


def test_listed_headers_count_only_while_they_match_the_properties():
    ma = section(MESSAGE_ANNOTATIONS, {Symbol("x-opt-kafka-headers"): [["a", b"old"], ["a", b"1"]]})
    matching = ma + section(APPLICATION_PROPERTIES, {"a": "1"}) + BODY
    changed = ma + section(APPLICATION_PROPERTIES, {"a": "2"}) + BODY
    assert _record(matching).headers[:-1] == [("a", b"old"), ("a", b"1")]
    assert _record(changed).headers[:-1] == [("a", b"2")]


@pytest.mark.parametrize("listed", ["text", [["a"]], [["a", "1"]], [[1, b"1"]], [1]])
def test_a_malformed_header_list_is_of_no_use(listed):
    ma = section(MESSAGE_ANNOTATIONS, {Symbol("x-opt-kafka-headers"): listed})
    data = ma + section(APPLICATION_PROPERTIES, {"a": "1"}) + BODY
    assert _record(data).headers[:-1] == [("a", b"1")]


def test_a_foreign_content_type_is_a_property_too():
    data, layout = _message(None, b"{}", [("content-type", b"application/json")])
    assert sections.properties(data, layout).content_type == "application/json"
    assert sections.application_properties(data, layout) == {"content-type": "application/json"}
    assert _record(data).headers[:-1] == [("content-type", b"application/json")]
    data, layout = _message(None, b"{}", [("content-type", b"\xff")])
    assert sections.properties(data, layout).content_type is None


def test_a_foreign_tombstone():
    data, layout = _message(b"key", None, [])
    assert sections.message_annotations(data, layout)["x-opt-kafka-tombstone"] is True
    assert data[layout.bare :] == NULL


@pytest.mark.parametrize("change", ["key", "value", "header", "twice"])
def test_a_record_changed_on_the_kafka_side_shows_its_readable_form(change):
    key, value, headers, _ = _record(KEYED + section(APPLICATION_PROPERTIES, {"n": 5}) + BODY)
    assert headers[0] == ("n", b"5")
    if change == "key":
        key = b"other"
    elif change == "value":
        value = b"other"
    elif change == "header":
        headers[0] = ("n", b"6")
    else:
        headers.append(headers[-1])
    data, layout = _message(key, value, headers)
    assert sections.body_values(data, layout) == [value]
    assert sections.application_properties(data, layout) == {"n": headers[0][1].decode()}
    assert sections.message_annotations(data, layout)["event-streams-group-key"] == key.decode()


def test_changed_body_sections_are_shown_if_they_are_sections():
    key, _, headers, _ = _record(section(AMQP_VALUE, 1))
    data, layout = _message(key, section(AMQP_VALUE, 2), headers)
    assert sections.body_values(data, layout) == [2]
    data, layout = _message(key, b"no section", headers)
    assert sections.body_values(data, layout) == [b"no section"]


@pytest.mark.parametrize(
    ("kind", "prefix", "stored", "value"),
    [
        (DATA_VALUE, b"", b"garbage", b"value"),
        (DATA_VALUE, b"", BODY, b"value"),
        (DATA_VALUE, b"", _annotated(DELIVERY_ANNOTATIONS, event_streams_offset=Symbol("9")), b"value"),
        (DATA_VALUE, b"garbage", b"", b"value"),
        (DATA_VALUE, section(HEADER, []), b"", BODY),
        (SECTIONS_VALUE, b"", b"", b"value"),
        (SECTIONS_VALUE, b"", b"", section(FOOTER, {})),
        (3, b"", b"", b"value"),
    ],
)
def test_a_forged_amqp_bare_is_no_way_to_send_malformed_messages(kind, prefix, stored, value):
    sealed = wrap(kind, prefix, stored, None, value, [])
    data, layout = _message(None, value, [("amqp.bare", sealed)])
    assert layout.header == layout.ma
    assert sections.body_values(data, layout) == [value]
    assert layout.footer == layout.end


def test_an_amqp_bare_that_is_cut_off_restores_nothing():
    """Its prefix would be shorter than it says, though prefix and value are a body and the digest is right."""
    sealed = envelope._sealed(DATA_VALUE, b"\x05\0\x53\x77", b"k", b"\x40", [])
    data, layout = _message(b"k", b"\x40", [("amqp.bare", sealed)])
    assert sections.message_annotations(data, layout)["x-opt-kafka-key"] == b"k"
    assert sections.body_values(data, layout) == [b"\x40"]


def test_a_value_that_is_no_message_is_shown_as_data():
    data, layout = _message(None, b"no message", [("amqp.body", b"message")])
    assert sections.body_values(data, layout) == [b"no message"]
