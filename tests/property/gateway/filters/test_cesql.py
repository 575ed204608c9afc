"""CESQL: the closures agree with a naive evaluator, never raise, and the index is told nothing that is not true."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.amqp.codec.codec import Value
from gateway.errors import AmqpError
from gateway.filters.cesql import Expression, compile_cesql, compile_condition, necessary, parse_cesql
from gateway.filters.cesql.nodes import CesqlValue
from gateway.filters.cesql.values import Failed
from gateway.filters.evaluate.access import ABSENT
from gateway.filters.evaluate.compile import truth
from gateway.filters.parse.limits import FilterLimits
from gateway.filters.predicate import FieldReference, MessageSection
from tests.support.filters import cesql_reference as naive
from tests.support.plugins.examples import examples

WIDE = FilterLimits(length=1 << 20, tokens=1 << 20)
TEXTS = st.dictionaries(st.sampled_from(naive.NAMES[:3]), st.sampled_from(naive.TEXTS))
VALUES = st.booleans() | st.integers(-(1 << 31), (1 << 31) - 1) | st.sampled_from(naive.TEXTS)
WORDS = ("AND", "or", "NOT", "LIKE", "IN", "EXISTS", "a", "7", "-", "'x'", '"', "'", "\\", "(", ")", ",", "=", "<>",
         "INT(", "%", "TRUE", ".", "_", "\n", "ü", "9" * 20)  # fmt: skip


@pytest.mark.row("CE-3.2.3-7")
@settings(max_examples=examples(600), deadline=None)
@given(naive.expressions(), st.dictionaries(st.sampled_from(naive.NAMES[:3]), VALUES))
def test_closures_agree_with_the_naive_evaluator(expression: Expression, event: dict[str, CesqlValue]) -> None:
    result = compile_cesql(expression)(event)
    try:
        expected: Any = naive.evaluate(expression, event)
    except naive.Wrong:
        assert isinstance(result, Failed)
        assert not compile_condition(expression)(event)
    else:
        assert (type(result), result) == (type(expected), expected)


@settings(max_examples=examples(300), deadline=None)
@given(naive.expressions())
def test_an_expression_is_read_as_it_is_written(expression: Expression) -> None:
    assert parse_cesql(naive.written(expression), limits=WIDE) == expression


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join) | st.text(max_size=30))
def test_any_text_is_an_expression_or_an_error_with_its_place(text: str) -> None:
    found: Expression | str
    try:
        found = parse_cesql(text)
    except AmqpError as error:
        found = error.description
    if isinstance(found, str):
        assert found.startswith("line ")
    else:
        compile_cesql(found)({})


@settings(max_examples=examples(600), deadline=None)
@given(naive.expressions() | naive.terms(), TEXTS)
def test_what_is_necessary_holds_whenever_the_expression_does(expression: Expression, event: dict[str, str]) -> None:
    found = necessary(expression, lambda name: FieldReference(MessageSection.APPLICATION_PROPERTIES, name))
    slots = {(MessageSection.APPLICATION_PROPERTIES, name): at for at, name in enumerate(naive.NAMES)}
    values: list[Value] = [event.get(name, ABSENT) for name in naive.NAMES]
    holds, needed = compile_condition(expression)(event), bool(truth(found.predicate, slots)(values))
    assert needed or not holds
    if found.sufficient:
        assert holds == needed
