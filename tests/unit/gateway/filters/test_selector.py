"""JMS selectors: Java's constants, names of the JMS header, BETWEEN (JMS 2.0, 3.8.1)."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from gateway.errors import INVALID_FIELD, AmqpError
from gateway.filters.parse.selector import parse_selector
from gateway.filters.predicate import (
    FALSE,
    And,
    Arithmetic,
    Compare,
    Comparison,
    Constant,
    FieldReference,
    In,
    IsNull,
    IsTrue,
    Like,
    Literal,
    MessageSection,
    Not,
    Operator,
    Or,
    Predicate,
    Truth,
)

ID, CORRELATION, USER = (
    FieldReference(MessageSection.PROPERTIES, name) for name in ("message-id", "correlation-id", "user-id")
)
DURABLE = FieldReference(MessageSection.HEADER, "durable")
COUNT = Arithmetic(Operator.ADD, FieldReference(MessageSection.HEADER, "delivery-count"), Literal(1))


def a(name: str) -> FieldReference:
    return FieldReference(MessageSection.APPLICATION_PROPERTIES, name)


def false_where_unlike(compare: Compare) -> Or:
    """A comparison below NOT: unknown only where a field is null (JMS 2.0, 3.8.1.2)."""
    return Or((IsTrue(compare), And((Or((IsNull(compare.left),)), Constant(None)))))


def equal(field: Any, constant: Any) -> Compare:
    return Compare(Comparison.EQ, field, Literal(constant))


def between(field: Any, low: Any, high: Any) -> And:
    return And((Compare(Comparison.GE, field, Literal(low)), Compare(Comparison.LE, field, Literal(high))))


@pytest.mark.parametrize(
    ("text", "read"),
    [
        (
            "x = 1 AND NOT flag OR y LIKE 'a%'",
            Or((And((equal(a("x"), 1), Not(Truth(a("flag"))))), Like(a("y"), Literal("a%")))),
        ),
        ("x BETWEEN 1 AND 2 AND y = 3", And((between(a("x"), 1, 2), equal(a("y"), 3)))),
        ("x BETWEEN 1 AND 2", between(a("x"), 1, 2)),
        ("x NOT BETWEEN 1 AND 2", Not(And(tuple(map(false_where_unlike, between(a("x"), 1, 2).items))))),
        ("x IN ('a', 'b')", In(a("x"), (Literal("a"), Literal("b")))),
        ("x IS NOT NULL", Not(IsNull(a("x")))),
        ("_a$1 = 1", equal(a("_a$1"), 1)),
        ("exists = 1", equal(a("exists"), 1)),
        ("h = 1", equal(a("h"), 1)),
    ],
)
def test_conditions(text: str, read: Predicate) -> None:
    assert parse_selector(text) == read


@pytest.mark.parametrize(
    ("text", "constant"),
    [
        ("57", 57),
        ("5L", 5),
        ("010", 8),
        ("0", 0),
        ("09", 9),
        ("0xFf", 255),
        ("0x10l", 16),
        ("7.", 7.0),
        ("-95.7", -95.7),
        ("7E3", 7e3),
    ],
)
def test_constants_are_javas(text: str, constant: Any) -> None:
    read = parse_selector(f"x = {text}")
    assert isinstance(read, Compare)
    assert isinstance(read.right, Literal)
    assert (read.right.value, type(read.right.value)) == (constant, type(constant))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("JMSPriority", FieldReference(MessageSection.HEADER, "priority")),
        ("JMSType", FieldReference(MessageSection.PROPERTIES, "subject")),
        ("JMSTimestamp", FieldReference(MessageSection.PROPERTIES, "creation-time")),
        ("JMSXGroupID", FieldReference(MessageSection.PROPERTIES, "group-id")),
        ("JMSXGroupSeq", FieldReference(MessageSection.PROPERTIES, "group-sequence")),
        ("JMSXDeliveryCount", COUNT),
        ("JMS_vendor", a("JMS_vendor")),
        ("jmspriority", a("jmspriority")),
    ],
)
def test_names_of_the_header(name: str, value: Any) -> None:
    assert parse_selector(f"{name} > 4") == Compare(Comparison.GT, value, Literal(4))


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("JMSDeliveryMode = 'PERSISTENT'", equal(DURABLE, True)),
        ("'NON_PERSISTENT' <> JMSDeliveryMode", Compare(Comparison.NE, DURABLE, Literal(False))),
        ("JMSDeliveryMode = 'persistent'", FALSE),
        ("JMSDeliveryMode <> 'x'", Not(FALSE)),
        ("JMSDeliveryMode IN ('PERSISTENT', 'x')", Or((equal(DURABLE, True), FALSE))),
        ("JMSXUserID = 'me'", equal(USER, b"me")),
        ("JMSMessageID = 'ID:abc'", equal(ID, "ID:abc")),
        ("JMSMessageID = 'ID:AMQP_NO_PREFIX:abc'", equal(ID, "abc")),
        ("JMSMessageID = 'ID:AMQP_STRING:ID:AMQP_X'", equal(ID, "ID:AMQP_X")),
        ("'ID:AMQP_ULONG:18446744073709551615' = JMSMessageID", Compare(Comparison.EQ, Literal((1 << 64) - 1), ID)),
        ("JMSMessageID IN ('ID:AMQP_BINARY:0aFF', 'x')", In(ID, (Literal(b"\x0a\xff"), Literal("x")))),
        (
            "JMSCorrelationID = 'ID:AMQP_UUID:f81d4fae-7dec-11d0-a765-00a0c91e6bf6'",
            equal(CORRELATION, uuid.UUID("f81d4fae-7dec-11d0-a765-00a0c91e6bf6")),
        ),
        ("JMSCorrelationID = 'mine'", equal(CORRELATION, "mine")),
        ("x = 'ID:AMQP_ULONG:1'", equal(a("x"), "ID:AMQP_ULONG:1")),
    ],
)
def test_constants_mean_what_is_in_the_field(text: str, read: Predicate) -> None:
    assert parse_selector(text) == read


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("JMSReplyTo = 'x'", "line 1, column 1: JMS does not permit JMSReplyTo in selectors"),
        ("JMSDeliveryMode > 'x'", "line 1, column 1: JMSDeliveryMode can only be compared by"),
        ("JMSDeliveryMode = 1", "line 1, column 1: JMSDeliveryMode can only be compared by"),
        ("JMSMessageID = 'ID:AMQP_ULONG:-1'", "line 1, column 16: not an id of the form ID:AMQP_ULONG:"),
        ("JMSMessageID = 'ID:AMQP_UUID:x'", "line 1, column 16: not an id of the form ID:AMQP_UUID:"),
        ("a.x = 1", "line 1, column 2: found '.'"),
        ("[x] = 1", "line 1, column 1: found '['"),
        ('x = "a"', "line 1, column 5: found '\"'; text must be in single quotes"),
        ("x BETWEEN 1", "line 1, column 12: found the end, expected AND or an operator"),
        ("lower(x) = 1", "line 1, column 6: found '('; functions are not defined"),
        (f"x = 0x{'f' * 39}", "line 1, column 5: a number may have at most 38 digits"),
    ],
)
def test_errors(text: str, said: str) -> None:
    with pytest.raises(AmqpError) as caught:
        parse_selector(text)
    assert caught.value.condition == INVALID_FIELD
    assert caught.value.description.startswith(said)
