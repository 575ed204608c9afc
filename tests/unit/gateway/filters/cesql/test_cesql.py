"""What the test cases of CESQL leave open: precedence, overflow, strings, errors with their places (CE-3.2.3-7)."""

from __future__ import annotations

import time

import pytest

from gateway.errors import INVALID_FIELD, RESOURCE_LIMIT_EXCEEDED, AmqpError
from gateway.filters.cesql import compile_cesql, compile_condition, limited_cesql, parse_cesql
from gateway.filters.cesql.nodes import Expression
from gateway.filters.cesql.values import CesqlError, Failed
from gateway.filters.parse.limits import FilterLimits

EVENT = {"a": "x", "n": "7", "yes": "true", "5abc": "odd", "empty": "", "quote": "it's"}


def result(text: str) -> object:
    return compile_cesql(parse_cesql(text))(EVENT)


@pytest.mark.row("CE-3.2.3-7")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("TRUE OR TRUE AND FALSE", False),  # from left to right (3.7)
        ("TRUE OR (TRUE AND FALSE)", True),
        ("TRUE XOR TRUE OR TRUE", True),
        ("FALSE AND TRUE OR TRUE", True),
        ("NOT FALSE AND FALSE", False),
        ("NOT 0 = 1", True),  # (NOT 0) = 1
        ("NOT (0 = 1)", True),
        ("NOT TRUE = TRUE", False),
        ("4-1", 3),
        ("4 -1", 3),
        ("4--1", 5),
        ("n-1", 6),
        ("+5", 5),
        ("2 + 3 * 4 - 6 / 2", 11),
        ("- 5 + 2", -3),
        ("1 < 2 = TRUE", True),
        ("10 - 2 - 3", 5),
        ("-7 / 2", -3),
        ("-7 % 2", -1),
        ("7 % -2", 1),
        ("2147483647", 2147483647),
        ("-2147483648", -2147483648),
        ("INT('007')", 7),
        ("INT('+7')", 7),
        ("n = 7", True),
        ("7 = n", True),  # 7 as the text "7"
        ("n = '07'", False),
        ("yes = TRUE", True),
        ("TRUE = yes", True),
        ("yes AND TRUE", True),
        ("5ABC = 'odd'", True),
        ("'it''s' = quote", True),
        (r"'it\'s' = quote", True),
        ('"it\'s" = quote', True),
        ('"a""b"', 'a"b'),
        (r"'a\\''b'", r"a\\'b"),
        (r"'\n'", r"\n"),
        ("''", ""),
        ("LENGTH('grün😀')", 5),
        ("left('abc', 1)", "a"),
        ("RIGHT('abc', 0)", ""),
        ("SUBSTRING('abc', 2, 0)", ""),
        ("SUBSTRING('abc', 3, 2147483647)", "c"),
        ("CONCAT(1, TRUE, a)", "1truex"),
        ("CONCAT_WS('-', a, n)", "x-7"),
        ("IS_INT('5')", True),
        ("IS_INT('5.0')", False),
        ("IS_BOOL('TRUE')", True),
        ("IS_BOOL('yes')", False),
        ("IS_INT(a)", False),
        ("EXISTS A", True),
        ("EXISTS missing", False),
        ("FALSE AND missing", False),
        ("TRUE OR missing", True),
        ("a NOT IN ('y')", True),
        ("a IN (missing, 'x')", Failed(CesqlError.MISSING_ATTRIBUTE, False)),
        ("a IN ('x', missing)", True),
        ("n IN (7, 8)", True),
        ("empty LIKE ''", True),
        ("empty LIKE '%'", True),
        (r"'a\\b' LIKE 'a\\b'", True),
        (r"'100%' LIKE '100\%'", True),
        ("'a.b' LIKE 'a_b'", True),
        ("'ab\nc' LIKE 'a%c'", True),
        ("a LIKE 'x' NOT LIKE 'true'", False),
    ],
)
def test_results(text: str, expected: object) -> None:
    found = result(text)
    assert (type(found), found) == (type(expected), expected)


@pytest.mark.row("CE-3.2.3-7")
@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("2147483647 + 1", CesqlError.MATH),
        ("-2147483648 - 1", CesqlError.MATH),
        ("65536 * 65536", CesqlError.MATH),
        ("-2147483648 / -1", CesqlError.MATH),
        ("-(-2147483648)", CesqlError.MATH),
        ("a + 1", CesqlError.CAST),
        ("a < 1", CesqlError.CAST),
        ("a AND TRUE", CesqlError.CAST),
        ("NOT a", CesqlError.CAST),
        ("a = 5", CesqlError.CAST),
        ("INT(' 7')", CesqlError.CAST),
        ("INT('7_0')", CesqlError.CAST),
        ("INT('٣')", CesqlError.CAST),
        ("INT('2147483648')", CesqlError.CAST),
        ("INT('')", CesqlError.CAST),
        ("5 IN (a)", CesqlError.CAST),
        ("missing XOR TRUE", CesqlError.MISSING_ATTRIBUTE),
        ("TRUE XOR missing", CesqlError.MISSING_ATTRIBUTE),
        ("IS_INT(missing)", CesqlError.MISSING_ATTRIBUTE),
        ("NOT (missing = 'x')", CesqlError.MISSING_ATTRIBUTE),
        ("missing NOT LIKE 'x'", CesqlError.MISSING_ATTRIBUTE),
        ("SUBSTRING('abc', 1, -1)", CesqlError.FUNCTION_EVALUATION),
    ],
)
def test_failures(text: str, error: CesqlError) -> None:
    found = result(text)
    assert isinstance(found, Failed)
    assert found.error is error


@pytest.mark.row("CE-3.2.3-7")
@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", "line 1, column 1"),
        ("a =", "line 1, column 4"),
        ("a = 1\n  AND", "line 2, column 6"),
        ("a LIKE b", "line 1, column 8"),
        ("a LIKE 5", "line 1, column 8"),
        ("FOO(a)", "line 1, column 1"),
        ("a = FOO(a)", "line 1, column 5"),
        ("INT(1, 2)", "line 1, column 1"),
        ("INT()", "line 1, column 1"),
        ("SUBSTRING('a')", "line 1, column 1"),
        ("CONCAT_WS()", "line 1, column 1"),
        ("a = 2147483648", "line 1, column 5"),
        ("a = -2147483649", "line 1, column 5"),
        ("9" * 4000, "line 1, column 1"),
        ("a IN ()", "line 1, column 7"),
        ("a.b = 1", "line 1, column 2"),
        ("a_b = 1", "line 1, column 1"),
        ("a = 'x", "line 1, column 5"),
        ("EXISTS 'a'", "line 1, column 8"),
        ("EXISTS (a)", "line 1, column 8"),
        ("(a = 1", "line 1, column 7"),
        ("a = 1)", "line 1, column 6"),
        ("a == 1", "line 1, column 4"),
        ("a = 1;", "line 1, column 6"),
        ("true (1)", "line 1, column 6"),
    ],
)
def test_mistakes_have_their_place(text: str, place: str) -> None:
    with pytest.raises(AmqpError) as error:
        parse_cesql(text)
    assert error.value.condition == INVALID_FIELD
    assert error.value.description.startswith(f"{place}: ")


def test_mistakes_name_the_way_out() -> None:
    for text, word in (
        ("FOO(a)", "SUBSTRING"),
        ("INT(1, 2)", "INT takes 1 argument, not 2"),
        ("SUBSTRING('a')", "SUBSTRING takes 2 or 3 arguments, not 1"),
        ("CONCAT_WS()", "CONCAT_WS takes at least 1 argument"),
        ("a = 2147483648", "2147483647"),
        ('a = "x', "no closing quote"),
    ):
        with pytest.raises(AmqpError) as error:
            parse_cesql(text)
        assert word in error.value.description


@pytest.mark.parametrize(
    "text",
    ["a" * 4097, " AND ".join(["a"] * 101), "(" * 150 + "a" + ")" * 150, "NOT " * 120 + "a", "-" * 150 + "a"],
)
def test_limits(text: str) -> None:
    with pytest.raises(AmqpError) as error:
        parse_cesql(text)
    assert error.value.condition in (RESOURCE_LIMIT_EXCEEDED, INVALID_FIELD)
    assert "limit" in error.value.description


def test_longest_chain_and_deepest_nesting_evaluate() -> None:
    limits = FilterLimits(tokens=10_000, length=100_000)
    for text in (" AND ".join(["yes"] * 95), "(" * 95 + "yes" + ")" * 95, "NOT " * 94 + "yes"):
        assert compile_condition(parse_cesql(text, limits=limits))(EVENT)


@pytest.mark.row("CE-3.2.3-7")
@pytest.mark.parametrize(
    ("text", "holds"),
    [("yes", True), ("n", False), ("INT(n)", True), ("n - 7", False), ("a", False), ("missing", False)],
)
def test_result_of_a_filter_is_cast_to_boolean(text: str, holds: bool) -> None:
    assert compile_condition(parse_cesql(text))(EVENT) is holds


def test_like_does_not_search_texts_beyond_the_limit() -> None:
    def limited(text: str) -> Expression:
        return limited_cesql(parse_cesql(text), work=4000)

    short, long = {"a": "b" * 999 + "x"}, {"a": "b" * 1000 + "x"}
    assert compile_cesql(limited("a LIKE '%x%'"))(short) is True
    assert compile_cesql(limited("a LIKE '%x%'"))(long) == Failed(CesqlError.FUNCTION_EVALUATION, False)
    assert compile_cesql(limited("NOT (a LIKE '%x%')"))(long) == Failed(CesqlError.FUNCTION_EVALUATION, False)
    assert compile_cesql(limited("a LIKE '%x' AND a LIKE 'b%'"))(long) is True  # the ends cost nothing


@pytest.mark.parametrize(
    "expression",
    [
        "CONCAT(" * 7 + "subject" + ", subject, subject, subject, subject)" * 7 + " = 'x'",
        "CONCAT_WS(subject" + ", 'a'" * 90 + ") = 'x'",
        "UPPER(" * 60 + "subject" + ")" * 60 + " = 'x'",
        "TRIM(LOWER(subject)) = 'x'",
    ],
)
def test_functions_of_long_texts_cost_no_more_than_short_ones(expression: str) -> None:
    """Texts that are longer than any attribute should be make a function fail: nothing is copied again and again."""
    evaluate = compile_cesql(parse_cesql(expression))
    begun = time.process_time()
    for _ in range(100):
        found = evaluate({"subject": "a" * 1_000_000})
    assert time.process_time() - begun < 1.0
    assert isinstance(found, Failed)
    assert found.error is CesqlError.FUNCTION_EVALUATION
    assert not isinstance(evaluate({"subject": "a" * 20}), Failed)
