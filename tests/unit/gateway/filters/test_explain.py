"""Predicates in words: what `scopegate filter` prints of an SQL filter is an SQL filter that means the same."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

import pytest

from gateway.amqp.codec.codec import Array, Decimal64, Described, Int, Symbol, Timestamp
from gateway.filters.decimals import encoded
from gateway.filters.evaluate.access import ABSENT
from gateway.filters.evaluate.explain import described, node_text
from gateway.filters.evaluate.search_limit import limited
from gateway.filters.parse.sql import parse_sql
from gateway.filters.predicate import (
    Affix,
    And,
    Constant,
    FieldReference,
    Matches,
    MessageSection,
    Not,
    Or,
    Predicate,
    Text,
    walk,
)
from gateway.filters.values import frozen
from tests.support.filters.truth import cases

COLOR = FieldReference(MessageSection.APPLICATION_PROPERTIES, "color")


def terms() -> Iterator[Predicate]:
    """The lines of the truth table that are a term of SQL, each as a predicate."""
    for case in cases():
        if case.language == "sql" and not case.refused and "@" not in case.text:
            predicate = case.predicate()
            if not any(isinstance(node, And | Or | Not | Constant) for node in walk(predicate)):
                yield predicate


def test_a_term_is_shown_as_it_can_be_written() -> None:
    """In one test: which lines are terms shows only when they are parsed, and any run lists tests."""
    shown = [(node_text(predicate), predicate) for predicate in terms()]
    assert len(shown) > 100
    assert [text for text, predicate in shown if limited(parse_sql(text, seconds=False)) != predicate] == []


def test_terms_that_sql_does_not_have_are_told() -> None:
    assert node_text(Matches(COLOR, frozen([1, "x"]))) == "a.color matches [1, 'x'] (list)"
    assert node_text(Text(COLOR, Affix.SUFFIX, "ed", fold=True)) == "a.color ends with 'ed', ignoring case"
    assert node_text(Text(COLOR, Affix.WHOLE, "red", fold=False)) == "a.color is 'red'"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (ABSENT, "absent"),
        (None, "null"),
        (Int(7), "7 (integer)"),
        (True, "TRUE (boolean)"),
        (0.5, "0.5 (double)"),
        ("it's", "'it''s' (string)"),
        (Symbol("a"), "'a' (symbol)"),
        (b"\x01\xff", "0x01ff (binary)"),
        (Timestamp(5), "5 (timestamp)"),
        (Decimal64(encoded(Decimal("1.50"), 8)), "1.50 (decimal64)"),
        ([1, ["x"]], "[1, ['x']] (list)"),
        ({"k": 1}, "{'k': 1} (map)"),
        (Array("int", (Int(1), Int(2))), "[1, 2] (array)"),
        (Described(Symbol("d"), 5), "'d': 5 (described)"),
        ("x" * 500, "'" + "x" * 119 + "… (string)"),
    ],
)
def test_values_are_told_with_their_types(value: object, text: str) -> None:
    assert described(value) == text
