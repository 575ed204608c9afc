"""From a source's filter set to one predicate: types, groups, echo, refusals, limits and positions (FX 3, ES 5.2)."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.amqp.codec.types import Array, Described, Symbol, Timestamp, Ulong
from gateway.errors import INVALID_FIELD, NOT_IMPLEMENTED, RESOURCE_LIMIT_EXCEEDED, AmqpError
from gateway.filters.parse.filter_set import CODES, FilterSet, Rules, read
from gateway.filters.parse.limits import LIMITS
from gateway.filters.parse.sql import parse_sql
from gateway.filters.position.event_stream import NEVER, OFFSET, TIMESTAMP, LogPosition, Start, offset_symbol
from gateway.filters.predicate import (
    TRUE,
    And,
    Compare,
    Comparison,
    Exists,
    FieldReference,
    IsTrue,
    Latest,
    Literal,
    Matches,
    MessageSection,
    Not,
    Or,
    Predicate,
    Text,
)

AP = MessageSection.APPLICATION_PROPERTIES


def described(kind: str | int, content: Any) -> Described:
    return Described(Ulong(kind) if isinstance(kind, int) else Symbol(kind), content)


def sql(text: str) -> Described:
    return described("amqp:sql-filter", text)


def one(kind: str | int, content: Any, **rules: Any) -> FilterSet:
    return read({Symbol("f"): described(kind, content)}, Rules(**rules))


RED, BLUE = parse_sql("color = 'red'"), parse_sql("color = 'blue'")


# -- types and forms of descriptors


@pytest.mark.row("FX-3-4", "FX-4-2")
@pytest.mark.parametrize(
    ("name", "code", "content"),
    [
        ("amqp:sql-filter", 0x120, "color = 'red'"),
        ("amqp:properties-filter", 0x173, {Symbol("subject"): "x"}),
        ("amqp:application-properties-filter", 0x174, {"color": "red"}),
        ("amqp:event-streams-delivery-annotations-filter", 0x200, {Symbol(OFFSET): Symbol("@earliest")}),
        ("amqp:event-streams-sql-filter", 0x201, "d.event-streams-timestamp > 5"),
        ("apache.org:selector-filter:string", 0x0000468C00000004, "color = 'red'"),
    ],
)
def test_a_type_is_named_or_numbered_and_echoed_as_it_came(name: str, code: int, content: Any) -> None:
    named, numbered = one(name, content), one(code, content)
    assert CODES[code] == name
    assert named.predicate == numbered.predicate != TRUE
    for found, descriptor in ((named, Symbol), (numbered, Ulong)):
        (echoed,) = found.in_force.values()
        assert type(echoed.descriptor) is descriptor
        assert echoed.value == content


@pytest.mark.row("FX-3-4", "FX-4-2")
@pytest.mark.parametrize("kind", [0xFEFEFEFE, 0x172, "amqp:amqp-value-filter", "rabbitmq:stream-offset-spec", ""])
def test_unknown_types_are_left_out_or_refused_by_policy(kind: str | int) -> None:
    filters = {Symbol("a"): described(kind, "x"), Symbol("b"): sql("color = 'red'"), Symbol("c"): None}
    found = read(filters)
    assert (found.predicate, list(found.in_force), found.left_out) == (RED, ["b"], ("a",))
    with pytest.raises(AmqpError) as caught:
        read(filters, Rules(refuse_unknown=True))
    assert (caught.value.condition, caught.value.info) == (NOT_IMPLEMENTED, {"filter": "a"})


def test_all_filters_of_a_set_must_hold() -> None:
    found = read({"a": sql("color = 'red'"), "b": sql("color = 'blue'")})
    assert found.predicate == And((RED, BLUE))
    assert read({}) == FilterSet(TRUE, {}, LogPosition(Start.LATEST))


# -- groups


@pytest.mark.row("FX-3-1", "FX-3-2", "FX-3.1-2", "FX-3.2-2", "FX-3.3-2")
@pytest.mark.parametrize(
    ("kind", "meant"),
    [
        ("amqp:all-filter", And((IsTrue(RED), IsTrue(BLUE)))),
        ("amqp:all-filter ", And((IsTrue(RED), IsTrue(BLUE)))),
        ("amqp:any-filter", Or((IsTrue(RED), IsTrue(BLUE)))),
        ("amqp:not-filter", Not(Or((IsTrue(RED), IsTrue(BLUE))))),
    ],
)
def test_groups(kind: str, meant: Predicate) -> None:
    content = [sql("color = 'red'"), described(0x120, "color = 'blue'")]
    assert one(kind, content).predicate == meant
    assert one("amqp:any-filter", [described(kind, content)]).predicate == Or((IsTrue(meant),))


@pytest.mark.parametrize(
    ("content", "condition", "said"),
    [
        ([], INVALID_FIELD, "has no members"),
        ([described("amqp:all-filter", [])], INVALID_FIELD, "amqp:all-filter has no members"),
        ("x", INVALID_FIELD, "a list of filters"),
        ({}, INVALID_FIELD, "a list of filters"),
        (Array("string", ("x",)), INVALID_FIELD, "a list of filters"),
        (["x"], INVALID_FIELD, "is not a filter"),
        ([None], INVALID_FIELD, "is not a filter"),
        ([described("foo", 1)], NOT_IMPLEMENTED, "unknown filter type 'foo'"),
        ([described(0xFEFEFEFE, 1)], NOT_IMPLEMENTED, "0xfefefefe"),
        ([sql("color =")], INVALID_FIELD, "line 1, column 8"),
    ],
)
def test_groups_take_filters_they_know(content: Any, condition: str, said: str) -> None:
    with pytest.raises(AmqpError, match=said) as caught:
        one("amqp:not-filter", content)
    assert (caught.value.condition, caught.value.info) == (condition, {"filter": "f"})


def nested(depth: int) -> Described:
    found = sql("color = 'red'")
    for _ in range(depth):
        found = described("amqp:all-filter", [found])
    return found


@pytest.mark.parametrize(
    ("within", "beyond", "rules"),
    [
        ({0: nested(8)}, {0: nested(9)}, {}),
        ({0: sql("x" * 4096)}, {0: sql("x" * 4097)}, {}),
        ({0: sql("x" * 4096), 1: sql("x" * 4096)}, {0: sql("x" * 4096), 1: sql("x" * 4096), 2: sql("x")}, {}),
        (dict.fromkeys(range(256), sql("x")), dict.fromkeys(range(257), sql("x")), {}),
        ({0: sql("x = 1 AND x = 2")}, {0: sql("x = 1 AND x = 2"), 1: sql("x")}, {"nodes": 7}),
        ({0: nested(2)}, {0: nested(3)}, {"nodes": 5}),
        ({0: sql("x IN (1, 2)")}, {0: sql("x IN (1, 2, 3)")}, {"items": 2}),
        (
            {0: described("amqp:footer-filter", {Symbol("x"): [1]})},
            {0: described("amqp:footer-filter", {Symbol("x"): [1, 2]})},
            {"items": 2},
        ),
        (
            {0: described("amqp:any-filter", [sql("x")] * 2)},
            {0: described("amqp:any-filter", [sql("x")] * 3)},
            {"items": 2},
        ),
    ],
    ids=["depth", "length", "together", "filters", "nodes", "groups", "in", "property", "members"],
)
def test_limits(within: Any, beyond: Any, rules: dict[str, int]) -> None:
    limits = Rules(limits=LIMITS._replace(**rules))
    read(within, limits)
    with pytest.raises(AmqpError, match="the limit is") as caught:
        read(beyond, limits)
    assert caught.value.condition == RESOURCE_LIMIT_EXCEEDED


@pytest.mark.parametrize("value", ["color = 'red'", 5, [], {}, b"x"])
def test_a_filter_is_a_described_value(value: Any) -> None:
    with pytest.raises(AmqpError, match="described value") as caught:
        read({Symbol("mine"): value})
    assert (caught.value.condition, caught.value.info) == (INVALID_FIELD, {"filter": "mine"})


@pytest.mark.parametrize("content", [5, None, b"TRUE", ["TRUE"], described(0x201, "TRUE")])
def test_expressions_are_strings(content: Any) -> None:
    for kind in ("amqp:sql-filter", 0x201, 0x468C00000004):
        with pytest.raises(AmqpError, match="must be a string"):
            one(kind, content)


# -- property filters


def matches(section: MessageSection, name: str, reference: Any) -> Matches:
    return Matches(FieldReference(section, name), reference)


@pytest.mark.row("FX-4-3", "FX-4-5", "FX-4-6", "FX-4-19", "FX-4-20")
@pytest.mark.parametrize(
    ("kind", "content", "meant"),
    [
        ("header", [None, 7], matches(MessageSection.HEADER, "priority", 7)),
        ("header", {Symbol("priority"): 7, Symbol("ttl"): None}, matches(MessageSection.HEADER, "priority", 7)),
        ("header", [], TRUE),
        ("properties", [None] * 13, TRUE),
        ("properties", [None, None, None, "a"], matches(MessageSection.PROPERTIES, "subject", "a")),
        ("properties", {"message-id": 5}, matches(MessageSection.PROPERTIES, "message-id", 5)),
        (
            "application-properties",
            {"a": 1, "b": None},
            And((matches(AP, "a", 1), Exists(FieldReference(AP, "b")))),
        ),
        (
            "message-annotations",
            {Symbol("x-opt-a"): Symbol("y")},
            matches(MessageSection.MESSAGE_ANNOTATIONS, "x-opt-a", "y"),
        ),
        (
            "delivery-annotations",
            {Symbol("x-opt-a"): True},
            matches(MessageSection.DELIVERY_ANNOTATIONS, "x-opt-a", True),
        ),
        ("footer", {Symbol("hash"): b"x"}, matches(MessageSection.FOOTER, "hash", b"x")),
    ],
)
def test_property_filters(kind: str, content: Any, meant: Predicate) -> None:
    assert one(f"amqp:{kind}-filter", content).predicate == meant


@pytest.mark.row("FX-4-11", "FX-4-12", "FX-4-13", "FX-4-14", "FX-4-15", "FX-4-16")
@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("&S:.jpg", ("suffix", ".jpg", False)),
        ("&P:Ab", ("prefix", "Ab", False)),
        ("&s:.JPG", ("suffix", ".JPG", True)),
        ("&p:", ("prefix", "", True)),
        ("&i:a&b", ("whole", "a&b", True)),
        ("&&S:x", "&S:x"),
        ("&&", "&"),
        ("a&S:x", "a&S:x"),
    ],
)
def test_modifiers(text: str, meant: Any) -> None:
    found = one(0x174, {"k": text}).predicate
    if isinstance(found, Text):
        assert (found.affix.value, found.operand, found.fold) == meant
    else:
        assert found == matches(AP, "k", meant)


@pytest.mark.row("FX-4-17")
@pytest.mark.parametrize(
    ("kind", "content", "said"),
    [
        ("application-properties", {"k": "&q:x"}, "unknown modifier"),
        ("application-properties", {"k": "&"}, "unknown modifier"),
        ("application-properties", {1: "x"}, "a key of the filter must be a string"),
        ("application-properties", ["x"], "must be a map"),
        ("footer", {1: "x"}, "a key of the filter must be a symbol"),
        ("header", {"prio": 1}, "has no field 'prio'; its fields are durable"),
        ("header", [None, "4"], "priority of the header section is an integer"),
        ("header", {"durable": 1}, "durable of the header section is boolean"),
        ("properties", {"message-id": 5.0}, "is text or an integer or uuid or binary"),
        ("properties", {"creation-time": 5}, "creation-time of the properties section"),
        ("properties", {"user-id": "me"}, "is binary"),
        ("header", [1] * 6, "has 5 fields, the filter has 6"),
        ("properties", "subject", "a list of fields, or a map"),
    ],
)
def test_malformed_property_filters(kind: str, content: Any, said: str) -> None:
    with pytest.raises(AmqpError, match=said) as caught:
        one(f"amqp:{kind}-filter", content)
    assert (caught.value.condition, caught.value.info) == (INVALID_FIELD, {"filter": "f"})


# -- positions of event logs

FOUR = offset_symbol(4)
EVENTS = "amqp:event-streams-delivery-annotations-filter"


@pytest.mark.row("ES-5.1.1-6", "ES-5.1.1-7", "ES-5.2.1-2", "ES-5.2.2-5", "ES-5.2.2-6", "FX-3-5")
@pytest.mark.parametrize(
    ("filters", "position"),
    [
        ([described(EVENTS, {})], LogPosition(Start.EARLIEST)),
        ([described(EVENTS, {Symbol(OFFSET): Symbol(FOUR)})], LogPosition(Start.EARLIEST, 5)),
        ([described(EVENTS, {Symbol(OFFSET): "@earliest"})], LogPosition(Start.EARLIEST)),
        ([described(EVENTS, {Symbol(OFFSET): "@latest"})], LogPosition(Start.LATEST)),
        ([described(EVENTS, {Symbol(TIMESTAMP): Timestamp(9)})], LogPosition(Start.EARLIEST, 0, 9)),
        ([described(EVENTS, {Symbol(TIMESTAMP): 9}), sql("x")], LogPosition(Start.EARLIEST, 0, 9)),
        ([sql("x")], LogPosition(Start.LATEST)),
        ([sql("x OR d.event-streams-offset > 'a'")], LogPosition(Start.EARLIEST)),
        ([sql(f"d.event-streams-offset >= '{FOUR}' AND x")], LogPosition(Start.EARLIEST, 4)),
        ([sql(f"'{FOUR}' >= d.event-streams-offset")], LogPosition(Start.EARLIEST, end_offset=5)),
        ([sql(f"d.event-streams-offset < '{FOUR}'")], LogPosition(Start.EARLIEST, end_offset=4)),
        ([sql(f"d.event-streams-offset = '{FOUR}'")], LogPosition(Start.EARLIEST, 4, end_offset=5)),
        ([sql("d.event-streams-offset > 'zzz'")], LogPosition(Start.EARLIEST, NEVER)),
        ([sql("d.event-streams-offset >= '@latest' AND x")], LogPosition(Start.LATEST)),
        ([sql("d.event-streams-offset < '@latest'")], LogPosition(Start.EARLIEST)),
        ([described(0x201, "TRUE")], LogPosition(Start.EARLIEST)),
        (
            [described(0x201, sql("d.event-streams-timestamp > 1585672841"))],
            LogPosition(Start.EARLIEST, 0, 1585672841000),
        ),
        (
            [described(0x201, "d.event-streams-timestamp >= 1585672841000")],
            LogPosition(Start.EARLIEST, 0, 1585672840999),
        ),
        ([described("amqp:all-filter", [described(EVENTS, {Symbol(OFFSET): FOUR})])], LogPosition(Start.EARLIEST, 5)),
        ([described("amqp:any-filter", [described(EVENTS, {Symbol(OFFSET): FOUR})])], LogPosition(Start.EARLIEST)),
        ([described("amqp:not-filter", [described(EVENTS, {Symbol(OFFSET): FOUR})])], LogPosition(Start.EARLIEST)),
    ],
)
def test_where_reading_begins(filters: list[Described], position: LogPosition) -> None:
    assert read(dict(enumerate(filters))).position == position


def test_policy_moves_the_default_start_and_the_unit_of_time() -> None:
    assert one(0x120, "x", earliest=True).position == LogPosition(Start.EARLIEST)
    at = "d.event-streams-timestamp > 1585672841"
    assert one(0x120, at, seconds=False).position == LogPosition(Start.EARLIEST, 0, 1585672841)


def offset(how: Comparison, constant: Any) -> Compare:
    return Compare(how, FieldReference(MessageSection.DELIVERY_ANNOTATIONS, OFFSET), Literal(constant))


ANY, NONE = offset(Comparison.GE, ""), offset(Comparison.LT, "")
AFTER, BEFORE = offset(Comparison.GE, Latest.LATEST), offset(Comparison.LT, Latest.LATEST)


@pytest.mark.row("ES-5.1.1-6", "ES-5.1.1-7")
@pytest.mark.parametrize(
    ("sign", "earliest", "latest"),
    [
        ("=", NONE, NONE),
        ("<>", ANY, ANY),
        (">", ANY, AFTER),
        (">=", ANY, AFTER),
        ("<", NONE, BEFORE),
        ("<=", NONE, BEFORE),
    ],
)
def test_sentinels_are_places_not_text(sign: str, earliest: Predicate, latest: Predicate) -> None:
    turned = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}.get(sign, sign)
    for kind in ("amqp:event-streams-sql-filter", "amqp:sql-filter"):
        for name, meant in (("@earliest", earliest), ("@latest", latest)):
            assert one(kind, f"d.event-streams-offset {sign} '{name}'").predicate == meant
            assert one(kind, f"'{name}' {turned} d.event-streams-offset").predicate == meant
            assert one(kind, f"d.other {sign} '{name}'").predicate not in (ANY, NONE, AFTER, BEFORE)


@pytest.mark.row("ES-5.2.2-2", "ES-5.2.2-3", "ES-5.2.2-4", "ES-5.2.2-7")
@pytest.mark.parametrize(
    ("text", "subset"),
    [
        ("TRUE", True),
        ("false OR 1 = 1", True),
        ("d.a > 1 AND d.b <> 'x' OR delivery_annotations.c != 5", True),
        ("'x' < d.event-streams-offset AND d.[event-streams-timestamp] > 5", True),
        ("NOT TRUE", False),
        ("(TRUE)", False),
        ("d.a = 1.5", False),
        ("d.a = NULL", False),
        ("d.a = -1", False),
        ("d.a + 1 = 2", False),
        ("d.a IN (1)", False),
        ("d.a.b = 1", False),
        ("d.a", False),
        ("color = 'red'", False),
        ("p.subject = 'a'", False),
    ],
)
def test_the_small_sql_is_part_of_the_large_one(text: str, subset: bool) -> None:
    whole = one("amqp:sql-filter", text).predicate
    if subset:
        assert one(0x201, text).predicate == whole
    else:
        with pytest.raises(AmqpError, match="line 1, column"):
            one(0x201, text)


@pytest.mark.parametrize(
    "content",
    [
        [],
        "@earliest",
        None,
        {Symbol(OFFSET): 4},
        {Symbol(OFFSET): b"4"},
        {Symbol(TIMESTAMP): "now"},
        {Symbol(TIMESTAMP): True},
        {Symbol("event-streams-source-partition"): Symbol("0")},
    ],
)
def test_malformed_event_maps(content: Any) -> None:
    with pytest.raises(AmqpError) as caught:
        one(EVENTS, content)
    assert (caught.value.condition, caught.value.info) == (INVALID_FIELD, {"filter": "f"})
