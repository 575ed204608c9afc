"""Record mapping on any message and any record (KM-4 to KM-6, KM-13)."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from bridges.kafka.records.mapping import RecordReader, from_record, to_record
from gateway.amqp.codec.codec import Symbol
from gateway.amqp.message import sections
from gateway.errors import DECODE_ERROR, INVALID_FIELD
from tests.support.amqp.strategies import (
    AP_SECTIONS,
    BINARY,
    MESSAGE_PARTS,
    MESSAGES,
    TEXT,
    mutated,
    result_or_condition,
)

KEYS = (
    st.none()
    | st.binary(max_size=8)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=5).map(str.encode)
)
NAMES = st.sampled_from(["a", "b", "content-type", "ß", ""]) | TEXT
FOREIGN_NAMES = NAMES.filter(lambda name: not name.startswith("amqp."))
CONTENTS = st.none() | BINARY | TEXT.map(str.encode)
HEADERS = st.lists(st.tuples(FOREIGN_NAMES, CONTENTS), max_size=5)
TYPES = st.sampled_from([0, 1, 2])


def _record(data, **options):
    return to_record(data, sections.walk(data), **options)


@pytest.mark.row("CORE-5")
@given(MESSAGE_PARTS, st.sampled_from(["auto", "amqp"]))
def test_a_message_comes_back_byte_equal_but_for_delivery_annotations(parts, mode):
    header, _, ma, bare = parts
    record = _record(b"".join(parts), mode=mode)
    assert from_record(record.key, record.value, record.headers) == (header, ma + bare)


@given(MESSAGE_PARTS, st.text(max_size=3))
def test_a_keyed_message_comes_back_byte_equal_and_a_tombstone_says_so(parts, key):
    header, _, _, bare = parts
    ma = sections.section(sections.MESSAGE_ANNOTATIONS, {Symbol("event-streams-group-key"): key})
    record = _record(header + ma + bare, tombstones=True, compacted=True)
    assert record.key == key.encode()
    found = from_record(record.key, record.value, record.headers)
    if record.value is None:
        ma = sections.edit_map(ma, put={"x-opt-kafka-tombstone": b"\x41"})
    assert found == (header, ma + bare)


@given(KEYS, st.none() | BINARY, HEADERS, TYPES)
def test_a_foreign_record_comes_back_equal(key, value, headers, timestamp_type):
    assume(all("\0" not in name for name, _ in headers))
    header, rest = from_record(key, value, headers)
    record = _record(header + rest, tombstones=True)
    assert record.key == key
    assert [item for item in record.headers if not item[0].startswith("amqp.")] == headers
    if value is not None or key is not None:
        assert record.value == value


@given(MESSAGE_PARTS, st.sampled_from(["key", "value", "headers"]), st.binary(min_size=1, max_size=3))
def test_what_a_kafka_tool_changed_is_shown_as_it_is_now(parts, what, change):
    record = _record(b"".join(parts))
    assume(record.headers and ("amqp.body", b"sections") not in record.headers)
    key, value, headers = record.key, record.value, record.headers
    if what == "key":
        key = (key or b"") + change
    elif what == "value":
        value += change
    else:
        headers = [*headers, ("added", change)]
    header, rest = from_record(key, value, headers)
    layout = sections.walk(rest)
    assert header == b""
    assert sections.body_values(rest, layout) == [value]
    assert ("added" in sections.application_properties(rest, layout)) == (what == "headers")


@given(
    KEYS,
    st.none() | BINARY,
    st.lists(st.tuples(st.sampled_from(["amqp.bare", "amqp.body", "x"]), CONTENTS)),
    TYPES,
)
def test_any_record_gives_a_message(key, value, headers, timestamp_type):
    data = RecordReader().encode(key, value, headers, 1, 2, timestamp_type, 3)
    layout = sections.walk(data)
    assert sections.body_kind(data, layout)
    assert sections.delivery_annotations(data, layout)["event-streams-offset"] == "0" * 19 + "2"


@given(MESSAGE_PARTS, st.data())
def test_a_damaged_amqp_bare_gives_a_message_all_the_same(parts, data):
    record = _record(b"".join(parts))
    assume(record.headers)
    name, sealed = record.headers[-1]
    at = data.draw(st.integers(0, len(sealed) - 1))
    damaged = sealed[:at] + bytes((sealed[at] ^ 1,)) + sealed[at + 1 :]
    header, rest = from_record(
        record.key, record.value, [*record.headers[:-1], (name, damaged)]
    )
    assert sections.walk(header + rest).da == 0


@given(st.sampled_from(["event-streams-group-key", "x-opt-kafka-key"]), AP_SECTIONS, st.integers())
def test_a_key_of_a_wrong_type_is_refused(name, properties, value):
    assume(abs(value) < 2**63)
    ma = sections.section(sections.MESSAGE_ANNOTATIONS, {Symbol(name): value})
    assert result_or_condition(_record, ma + properties) == INVALID_FIELD


def _written(data, mode):
    to_record(data, sections.walk(data), mode=mode, tombstones=True)
    return "written"


@given(mutated(MESSAGES), st.sampled_from(["auto", "amqp", "data"]))
def test_a_damaged_message_is_written_or_refused(data, mode):
    assert result_or_condition(_written, data, mode) in {"written", DECODE_ERROR, INVALID_FIELD}
