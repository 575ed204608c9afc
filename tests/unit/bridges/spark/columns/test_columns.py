"""Messages as rows of columns: names of entries, members of values, bounds, and what cannot be shown."""

from __future__ import annotations

import struct
import uuid
from decimal import Decimal
from typing import Any

import pytest

from bridges.spark.columns import schema
from bridges.spark.columns.arrow import compile_filter
from bridges.spark.columns.rows import EventRow, record_batch
from gateway.amqp.codec import codec
from gateway.amqp.codec.codec import Symbol
from gateway.amqp.message import sections
from gateway.errors import NOT_IMPLEMENTED, AmqpError
from gateway.filters import predicate as p
from tests.support.filters.rows import batch_of

AP, MA, V = p.MessageSection.APPLICATION_PROPERTIES, p.MessageSection.MESSAGE_ANNOTATIONS, p.MessageSection.AMQP_VALUE
DATA = sections.section(sections.DATA, b"x")


def row(message: bytes, **event: Any) -> dict[str, Any]:
    """The one row of a message."""
    at = {"partition": 3, "offset": 7, "timestamp_ms": 1500, "key": b"k", **event}
    (found,) = record_batch([EventRow(message=message, **at)]).to_pylist(maps_as_pydicts="strict")
    return dict(found)


def matches(predicate: p.Predicate, *messages: bytes, strict: bool = True) -> list[bool]:
    found: list[bool] = compile_filter(predicate, strict=strict)(batch_of(messages)).to_pylist()
    return found


@pytest.mark.parametrize(
    ("section", "name", "path", "key"),
    [
        (AP, "color", (), "color"),
        (AP, "com.example[1]", (), "com.example[1]"),
        (MA, "x-opt-a", (), "x-opt-a"),
        (MA, "a.b", (), "[a.b]"),
        (MA, "a]b", (), "[a]]b]"),
        (V, "order", ("id",), "order.id"),
        (V, "items", (0, "sku"), "items[0].sku"),
        (V, "items", ("0",), "items.0"),
        (V, "items[0]", (), "[items[[0]]]"),
        (V, "", ("",), "[].[]"),
        (V, "order", ("a.b", 2), "order.[a.b][2]"),
    ],
)
def test_names_of_entries_are_what_a_filter_says(section: Any, name: str, path: Any, key: str) -> None:
    assert schema.entry(section, name, path) == key


IDENTITY = uuid.UUID(int=7)
BIG = codec.Decimal128(b"\x7e" + bytes(15))


@pytest.mark.parametrize(
    ("value", "kind", "member", "held"),
    [
        (True, "boolean", "boolean", True),
        (codec.Ubyte(255), "ubyte", "long", 255),
        (codec.Ulong(5), "ulong", "long", 5),
        (codec.Ulong(2**64 - 1), "ulong", "decimal", Decimal(2**64 - 1)),
        (codec.Long(-(2**63)), "long", "long", -(2**63)),
        (codec.Float(0.5), "float", "double", 0.5),
        (0.1, "double", "double", 0.1),
        (codec.Decimal32(struct.pack(">I", 0x32000000 | 15)), "decimal32", "decimal", Decimal("1.5") / 10**0),
        (BIG, "decimal128", "binary", codec.encode(BIG)),
        ("é", "string", "text", "é"),
        (Symbol("s"), "symbol", "text", "s"),
        (IDENTITY, "uuid", "uuid", str(IDENTITY)),
        (b"\xff", "binary", "binary", b"\xff"),
        (codec.Timestamp(-5), "timestamp", "long", -5),
        (codec.Char("é"), "char", "binary", codec.encode(codec.Char("é"))),
        ([codec.Int(1)], "list", "binary", codec.encode([codec.Int(1)])),
        (codec.Described(Symbol("d"), 1), "described", "binary", codec.encode(codec.Described(Symbol("d"), 1))),
        (None, "null", "type", "null"),
    ],
)
def test_a_value_is_in_the_member_of_its_type(value: Any, kind: str, member: str, held: Any) -> None:
    found = row(sections.section(sections.MESSAGE_ANNOTATIONS, {Symbol("x"): value}) + DATA)
    entry = found["message_annotations"]["x"]
    assert entry["type"] == kind
    assert {name: item for name, item in entry.items() if item is not None and name != "type"} == (
        {member: held} if member != "type" else {}
    )


def test_a_row_has_every_section() -> None:
    header = sections.section(sections.HEADER, [True, codec.Ubyte(9), None, None, codec.Uint(2)])
    annotations = sections.section(sections.DELIVERY_ANNOTATIONS, {Symbol("d"): 1})
    fields = [IDENTITY, None, "to", None, None, None, Symbol("text/plain"), None, None, codec.Timestamp(8)]
    bare = sections.section(sections.PROPERTIES, fields) + DATA + DATA
    bare += sections.section(sections.FOOTER, {Symbol("f"): "end"})
    found = row(header + annotations + bare)
    assert (found["partition"], found["offset"], found["key"]) == (3, 7, b"k")
    assert found["timestamp"].timestamp() == 1.5
    assert found["header"] == {
        "durable": True, "priority": 9, "ttl": None, "first_acquirer": None, "delivery_count": 2,
    }  # fmt: skip
    assert found["delivery_annotations"]["d"]["long"] == 1
    assert found["properties"]["message_id"]["uuid"] == str(IDENTITY)
    assert (found["properties"]["to"], found["properties"]["content_type"]) == ("to", "text/plain")
    assert found["properties"]["creation_time"] == 8
    assert (found["body_kind"], found["body"], found["body_value"]) == ("data", b"xx", None)
    assert found["footer"]["f"]["text"] == "end"
    assert (found["head"], found["bare_message"], found["not_shown"]) == (header + annotations, bare, None)


@pytest.mark.parametrize(
    ("body", "kind", "value", "fields"),
    [
        (b"", "none", None, []),
        (sections.section(sections.AMQP_VALUE, "hello"), "amqp-value", ("string", "hello"), []),
        (sections.section(sections.AMQP_VALUE, None), "amqp-value", ("null", None), []),
        (sections.section(sections.AMQP_SEQUENCE, [1, 2]), "amqp-sequence", None, []),
        (
            sections.section(sections.AMQP_VALUE, {"order": {"id": 5, "lines": [{"sku": "x"}]}}),
            "amqp-value",
            ("map", None),
            ["order", "order.id", "order.lines", "order.lines[0]", "order.lines[0].sku"],
        ),
    ],
)
def test_a_body_that_is_no_data(body: bytes, kind: str, value: Any, fields: list[str]) -> None:
    found = row(body)
    shown = found["body_value"] and (found["body_value"]["type"], found["body_value"]["text"])
    assert (found["body_kind"], shown, list(found["body_fields"])) == (kind, value, fields)
    assert found["body"] == (body or None)


@pytest.mark.parametrize("milliseconds", [-62_135_596_800_001, 253_402_300_800_000, 2**62])
def test_a_time_beyond_the_calendar_is_no_timestamp(milliseconds: int) -> None:
    assert row(DATA, timestamp_ms=milliseconds)["timestamp"] is None


def deep(levels: int) -> Any:
    return codec.Int(1) if not levels else [deep(levels - 1)]


@pytest.mark.parametrize(
    "value",
    [
        deep(schema.DEPTH + 1),
        [codec.Int(1)] * (schema.ENTRIES_LIMIT + 1),
        {"k" * schema.NAME_LIMIT: 1},
        {"k": 1, codec.MapKey(Symbol("k"), codec.encode(Symbol("k"))): 2},
    ],
    ids=["deep", "many", "long", "twins"],
)
def test_what_is_not_shown_is_refused_and_never_guessed(value: Any) -> None:
    message = sections.section(sections.MESSAGE_ANNOTATIONS, {Symbol("x"): value, Symbol("y"): "z"}) + DATA
    assert row(message)["not_shown"] == ["message_annotations.*"]
    inside = p.Exists(p.FieldReference(MA, "x", ("k",)))
    with pytest.raises(AmqpError, match="strict=False") as refusal:
        matches(inside, message)
    assert refusal.value.condition == NOT_IMPLEMENTED
    assert matches(p.Not(inside), message, DATA, strict=False) == [False, True]
    assert matches(p.Compare(p.Comparison.EQ, p.FieldReference(MA, "y"), p.Literal("z")), message) == [True]


def test_what_is_just_within_the_bounds_is_shown() -> None:
    annotations = {
        Symbol("x"): deep(schema.DEPTH),
        Symbol("y"): [codec.Int(1)] * (schema.ENTRIES_LIMIT - schema.DEPTH),
    }
    found = row(sections.section(sections.MESSAGE_ANNOTATIONS, annotations) + DATA)
    assert found["not_shown"] is None
    assert found["message_annotations"]["x" + "[0]" * schema.DEPTH]["long"] == 1


def test_application_properties_that_are_no_scalars_are_not_shown_inside() -> None:
    message = sections.section(sections.APPLICATION_PROPERTIES, {"a": [codec.Int(1)]}) + DATA
    assert row(message)["not_shown"] == ["application_properties.*"]


def test_fields_of_wrong_types_are_not_guessed() -> None:
    message = sections.section(sections.HEADER, [None, "9"]) + sections.section(sections.PROPERTIES, [None] * 3 + [5])
    assert row(message + DATA)["not_shown"] == ["header.*", "properties.*"]
    with pytest.raises(AmqpError):
        matches(p.IsNull(p.FieldReference(p.MessageSection.PROPERTIES, "subject")), message + DATA)


def test_a_message_that_cannot_be_decoded_is_kept_and_matches_nothing() -> None:
    bad = b"\x00\x53\x74\xc1\x04\x02\xa1\x01a" + b"\xff"
    found = row(bad)
    assert found["head"] + found["bare_message"] == bad
    assert "application_properties" in found["not_shown"]
    absent = p.IsNull(p.FieldReference(AP, "a"))
    assert matches(absent, bad, DATA) == [False, True]
    assert matches(p.Not(absent), bad, DATA) == [False, False]


def test_numbers_that_some_of_many_messages_lack_are_null_in_their_rows() -> None:
    """Many messages of one shape are read together."""
    times = [codec.Timestamp(5000), None, codec.Timestamp(-1)] * 20
    events = [EventRow(partition=0, offset=0, timestamp_ms=0, key=None, message=created(each) + DATA) for each in times]
    found = [row["properties"]["creation_time"] for row in record_batch(events).to_pylist()]
    assert found == times


def created(time: int | None) -> bytes:
    return sections.section(sections.PROPERTIES, [None] * 9 + [time])


def test_no_rows_are_a_batch_too() -> None:
    assert compile_filter(p.IsNull(p.FieldReference(AP, "a")))(record_batch([])).to_pylist() == []


def test_zero_is_zero_whatever_its_exponent() -> None:
    """Found by chance: a zero with an exponent that Arrow would take for digits."""
    raw = codec.Decimal128(bytes.fromhex("6c1b0000000000000000000000000000"))
    message = sections.section(sections.MESSAGE_ANNOTATIONS, {Symbol("a"): raw}) + DATA
    assert row(message)["message_annotations"]["a"]["decimal"] == 0
