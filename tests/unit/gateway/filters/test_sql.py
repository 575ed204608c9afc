"""The SQL filter's grammar: what is read as what, and what is refused in which words (FX 5)."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from gateway.errors import INVALID_FIELD, RESOURCE_LIMIT_EXCEEDED, AmqpError
from gateway.filters.parse.limits import LIMITS
from gateway.filters.parse.sql import parse_sql
from gateway.filters.predicate import (
    FALSE,
    TRUE,
    And,
    Arithmetic,
    Compare,
    Comparison,
    Exists,
    FieldReference,
    In,
    IsNull,
    Like,
    Literal,
    MessageSection,
    Negative,
    Not,
    Operator,
    Or,
    Positive,
    Predicate,
    Truth,
)

A = MessageSection.APPLICATION_PROPERTIES


def a(name: str, *path: Any) -> FieldReference:
    return FieldReference(A, name, path)


def equal(field: Any, constant: Any) -> Compare:
    return Compare(Comparison.EQ, field, Literal(constant))


ONE, TWO, THREE = (equal(a("x"), number) for number in (1, 2, 3))


@pytest.mark.row("FX-5-1", "FX-5-2", "FX-5-3", "FX-5-9")
@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("x = 1 AND x = 2 OR x = 3", Or((And((ONE, TWO)), THREE))),
        ("x = 1 OR x = 2 AND x = 3", Or((ONE, And((TWO, THREE))))),
        ("x = 1 and (x = 2 or x = 3)", And((ONE, Or((TWO, THREE))))),
        ("NOT x = 1 AND x = 2", And((Not(ONE), TWO))),
        ("not (x = 1 AND x = 2)", Not(And((ONE, TWO)))),
        ("NOT NOT x = 1", Not(Not(ONE))),
        ("((x)) = (1)", ONE),
    ],
)
def test_not_binds_before_and_before_or(text: str, read: Predicate) -> None:
    assert parse_sql(text) == read


@pytest.mark.parametrize(("sign", "comparison"), [*((item.value, item) for item in Comparison), ("!=", Comparison.NE)])
def test_comparisons(sign: str, comparison: Comparison) -> None:
    assert parse_sql(f"x{sign}1") == Compare(comparison, a("x"), Literal(1))
    assert parse_sql(f"1 {sign} x") == Compare(comparison, Literal(1), a("x"))


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("x IS NULL", IsNull(a("x"))),
        ("x is not null", Not(IsNull(a("x")))),
        ("x IN (1, 2.5, 'it''s', y)", In(a("x"), (Literal(1), Literal(Decimal("2.5")), Literal("it's"), a("y")))),
        ("x NOT IN (NULL)", Not(In(a("x"), (Literal(None),)))),
        ("x LIKE 'ABC\\%' ESCAPE '\\'", Like(a("x"), Literal("ABC\\%"), Literal("\\"))),
        ("x NOT LIKE y", Not(Like(a("x"), a("y")))),
        (
            "EXISTS(x) AND NOT exists ( h.ttl )",
            And((Exists(a("x")), Not(Exists(FieldReference(MessageSection.HEADER, "ttl"))))),
        ),
        ("TRUE", TRUE),
        ("false", FALSE),
        ("flag", Truth(a("flag"))),
        ("h.durable AND x = TRUE", And((Truth(FieldReference(MessageSection.HEADER, "durable")), equal(a("x"), True)))),
    ],
)
def test_tests(text: str, read: Predicate) -> None:
    assert parse_sql(text) == read


def product(left: Any, right: Any) -> Arithmetic:
    return Arithmetic(Operator.MUL, left, right)


@pytest.mark.row("FX-5-21")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("headers.priority > 4", "there is no section 'headers'; did you mean header.priority?"),
        ("Propertys.subject = 'x'", "did you mean properties.subject?"),
        ("annotations.x = 1", "did you mean message_annotations.x?"),
        ("order.id = 7", r"for a property named 'order.id' write \[order.id\], for the body's map v.order.id"),
    ],
)
def test_nothing_is_below_a_name_without_a_section(text: str, said: str) -> None:
    with pytest.raises(AmqpError, match=said) as caught:
        parse_sql(text)
    assert "line 1, column 1" in caught.value.description


@pytest.mark.parametrize("text", ["a" * 5000 + ".x = 1", "headers." + "x" * 5000 + " = 1"])
def test_an_error_repeats_the_beginning_of_a_long_name_only(text: str) -> None:
    with pytest.raises(AmqpError) as caught:
        parse_sql(text)
    assert len(caught.value.description) < 600


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("x + 1 * y", Arithmetic(Operator.ADD, a("x"), product(Literal(1), a("y")))),
        ("(x + 1) * y", product(Arithmetic(Operator.ADD, a("x"), Literal(1)), a("y"))),
        ("x - 1 - y", Arithmetic(Operator.SUB, Arithmetic(Operator.SUB, a("x"), Literal(1)), a("y"))),
        ("x -1", Arithmetic(Operator.SUB, a("x"), Literal(1))),
        ("x % 2 / 3", Arithmetic(Operator.DIV, Arithmetic(Operator.MOD, a("x"), Literal(2)), Literal(3))),
        ("-x * +y", product(Negative(a("x")), Positive(a("y")))),
    ],
)
def test_arithmetic_has_the_usual_precedence(text: str, read: Arithmetic) -> None:
    assert parse_sql(f"{text} = 0") == equal(read, 0)


@pytest.mark.parametrize(
    ("text", "constant"),
    [
        ("05", 5),
        ("-9223372036854775808", -(1 << 63)),
        ("18446744073709551615", (1 << 64) - 1),
        ("1.5", Decimal("1.5")),
        (".5", Decimal("0.5")),
        ("1.", Decimal(1)),
        ("5E-1", 0.5),
        ("1.e2", 100.0),
        ("''''", "'"),
        ("'\n日本'", "\n日本"),
        ("NULL", None),
        ("0.1 + 0.2", Decimal("0.3")),
        ("1 / 4.0", Decimal("0.25")),
        ("1.0 / 3", Decimal("0." + "3" * 18)),
        ("7 / -2", -3),
        ("-7 % 4", -3),
        ("7.5 % 2", Decimal("1.5")),
        ("1 + 5E-1", 1.5),
        ("-7.5E0 % 2", -1.5),
        ("- (1 - 3)", 2),
        ("1 / 0", None),
        ("1.0 % 0", None),
        ("1E0 / 0", None),
        ("9223372036854775807 + 1", None),
        ("99999999999999999999.0 * 10", None),
        ("1E308 * 10", None),
        ("'a' + 'b'", None),
        ("-'a'", None),
        ("TRUE + 1", None),
        ("NULL * 2", None),
    ],
)
def test_constants_are_computed_when_the_filter_is_read(text: str, constant: Any) -> None:
    read = parse_sql(f"x = {text}")
    assert isinstance(read, Compare)
    assert isinstance(read.right, Literal)
    assert (read.right.value, type(read.right.value)) == (constant, type(constant))


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("color", a("color")),
        ("v", a("v")),
        ("größe", a("größe")),
        ("a.and", a("and")),
        ("A.Color", a("Color")),
        ("application-properties.x", a("x")),
        ("[my key]", a("my key")),
        ("a.[x[[0]]-y]", a("x[0]-y")),
        ("HEADER.priority", FieldReference(MessageSection.HEADER, "priority")),
        ("p.content_type", FieldReference(MessageSection.PROPERTIES, "content-type")),
        ("properties.[content-type]", FieldReference(MessageSection.PROPERTIES, "content-type")),
        ("f.hash", FieldReference(MessageSection.FOOTER, "hash")),
        ("message_annotations.x", FieldReference(MessageSection.MESSAGE_ANNOTATIONS, "x")),
        ("m.[x-opt-kafka-key]", FieldReference(MessageSection.MESSAGE_ANNOTATIONS, "x-opt-kafka-key")),
        ("amqp-sequence.x", FieldReference(MessageSection.AMQP_SEQUENCE, "x")),
        ("d.event-streams-offset", FieldReference(MessageSection.DELIVERY_ANNOTATIONS, "event-streams-offset")),
        (
            "Delivery_Annotations.[event-streams-offset]",
            FieldReference(MessageSection.DELIVERY_ANNOTATIONS, "event-streams-offset"),
        ),
        ("d.a-1", FieldReference(MessageSection.DELIVERY_ANNOTATIONS, "a-1")),
        ("v.order.id", FieldReference(MessageSection.AMQP_VALUE, "order", ("id",))),
        ("amqp_value.items[0].[sku no]", FieldReference(MessageSection.AMQP_VALUE, "items", (Literal(0), "sku no"))),
        ("x[n - 1]", a("x", Arithmetic(Operator.SUB, a("n"), Literal(1)))),
        ("a.[x][1 + 1]", a("x", Literal(2))),
        ("v.i[a.[x]].y", FieldReference(MessageSection.AMQP_VALUE, "i", (a("x"), "y"))),
    ],
)
def test_references(text: str, field: FieldReference) -> None:
    assert parse_sql(f"{text} = 1") == equal(field, 1)
    assert parse_sql(f"1 = {text}") == Compare(Comparison.EQ, Literal(1), field)


@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        ("", "line 1, column 1", "nothing at all, expected a name, a constant"),
        ("x = ", "line 1, column 5", "found the end, expected a name"),
        ("x = 1\n  AND )", "line 2, column 7", "found ')'"),
        ("lower(x) = 'a'", "line 1, column 6", "functions are not defined"),
        ('x = "red"', "line 1, column 5", "single quotes"),
        ("x = 'red", "line 1, column 5", "no closing quote"),
        ("[x = 1", "line 1, column 1", "no closing bracket"),
        ("x BETWEEN 1 AND 2", "line 1, column 3", "x >= 1 AND x <= 9"),
        ("x = y = z", "line 1, column 7", "expected AND, OR, an operator or the end"),
        ("and = 1", "line 1, column 1", "found 'and'"),
        ("data.x = 1", "line 1, column 1", "data sections"),
        ("p.colour = 1", "line 1, column 3", "the properties section has message_id,"),
        ("h.message_id = 1", "line 1, column 3", "the header section has durable,"),
        ("p.message-id = 1", "line 1, column 3", "the properties section has message_id"),
        ("5", "line 1, column 1", "instead of a condition"),
        ("x + 1", "line 1, column 1", "instead of a condition"),
        ("NULL", "line 1, column 1", "instead of a condition"),
        ("(x = 1) = TRUE", "line 1, column 2", "instead of a value"),
        ("(x + 1) IS NULL", "line 1, column 2", "IS NULL needs a property"),
        ("x LIKE 5", "line 1, column 8", "a pattern must be a text"),
        ("x LIKE 'a' ESCAPE 'ab'", "line 1, column 19", "one character"),
        ("x IN ()", "line 1, column 7", "found ')'"),
        ("x = 5a", "line 1, column 6", "found 'a'"),
        ("_x = 1", "line 1, column 1", "found '_'"),
        ("x = 1;", "line 1, column 6", "ends too early"),
        ("EXISTS(1)", "line 1, column 8", "expected a name"),
        (f"x = {'9' * 39}", "line 1, column 5", "38 digits"),
        (f"x = .{'1' * 19}", "line 1, column 5", "18 of them after the point"),
        ("x = 1E999", "line 1, column 5", "a double's exponent"),
    ],
)
def test_errors_name_line_column_and_what_was_expected(text: str, place: str, said: str) -> None:
    with pytest.raises(AmqpError) as caught:
        parse_sql(text)
    assert caught.value.condition == INVALID_FIELD
    assert caught.value.description.startswith(f"{place}: ")
    assert said in caught.value.description


@pytest.mark.parametrize(
    ("within", "beyond"),
    [
        ("x = '" + "y" * 4090 + "'", "x = '" + "y" * 4091 + "'"),
        (" AND ".join(["x = 1"] * 50), " AND ".join(["x = 1"] * 50) + " OR TRUE"),
        ("NOT " * 47 + "x", "NOT " * 48 + "x"),
        ("(" * 99 + "x" + ")" * 99, "(" * 100 + "x" + ")" * 100),
    ],
    ids=["length", "tokens", "depth", "parentheses"],
)
def test_limits(within: str, beyond: str) -> None:
    parse_sql(within)
    with pytest.raises(AmqpError, match="the limit is") as caught:
        parse_sql(beyond)
    assert caught.value.condition == RESOURCE_LIMIT_EXCEEDED


def test_limits_are_the_callers() -> None:
    with pytest.raises(AmqpError, match="the limit is 3"):
        parse_sql("x = 1 AND x = 2", limits=LIMITS._replace(tokens=3))
