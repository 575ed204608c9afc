"""The truth table of the filters, line by line: front ends, the closure back end and the naive evaluator."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.amqp.message.sections import walk
from gateway.errors import INVALID_FIELD, NOT_IMPLEMENTED, RESOURCE_LIMIT_EXCEEDED, AmqpError
from gateway.filters.evaluate.access import MessageAccess
from gateway.filters.evaluate.compile import compile_filter, extraction, verdict
from gateway.filters.predicate import fields_of
from tests.support.filters import naive_filter as naive
from tests.support.filters.truth import TruthCase, cases, messages

ACCESS = MessageAccess()


def _lines(refused: bool) -> list[Any]:
    """Each with the rows of the conformance matrix that its section shows."""
    found = [case for case in cases() if case.refused is refused]
    return [
        pytest.param(case, id=str(case), marks=[pytest.mark.row(*case.rows)] if case.rows else []) for case in found
    ]


@pytest.mark.parametrize("case", _lines(refused=False))
def test_a_line_of_the_table(case: TruthCase) -> None:
    predicate = case.predicate()
    slots, read = extraction(fields_of(predicate), ACCESS)
    says, matches = verdict(predicate, slots), compile_filter(predicate, ACCESS)
    for name, expected in case.expected.items():
        data = messages()[name]
        source = (data, walk(data))
        assert says(read(source)) is expected, name
        assert matches(source) is (expected is True), name
        assert naive.evaluate(predicate, naive.message_fields(data)) is expected, name


@pytest.mark.parametrize("case", _lines(refused=True))
def test_a_refused_line_names_the_filter(case: TruthCase) -> None:
    with pytest.raises(AmqpError) as refusal:
        case.predicate()
    assert refusal.value.condition in (INVALID_FIELD, NOT_IMPLEMENTED, RESOURCE_LIMIT_EXCEEDED)
    assert refusal.value.info == {"filter": "filter"}
    assert refusal.value.description


def test_the_table_is_large_and_says_nothing_twice() -> None:
    lines = [(case.language, case.text, *case.expected) for case in cases()]
    assert len(set(lines)) == len(lines) >= 600
