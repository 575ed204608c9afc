"""The truth table of the filters: front ends, the closure back end and the naive evaluator for each line."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest

from gateway.amqp.message.sections import walk
from gateway.errors import INVALID_FIELD, NOT_IMPLEMENTED, RESOURCE_LIMIT_EXCEEDED, AmqpError
from gateway.filters.evaluate.access import MessageAccess
from gateway.filters.evaluate.compile import compile_filter, extraction, verdict
from gateway.filters.predicate import fields_of
from tests.support.filters import naive_filter as naive
from tests.support.filters.truth import TruthCase, cases, messages
from tests.support.project.tables import Lines

ACCESS = MessageAccess()


def _parts(refused: bool) -> list[Any]:
    """The lines that show the same rows of the conformance matrix."""
    found: dict[tuple[str, ...], list[TruthCase]] = defaultdict(list)
    for case in cases():
        if case.refused is refused:
            found[case.rows].append(case)
    return [
        pytest.param(part, id="+".join(rows) or "no row", marks=[pytest.mark.row(*rows)] if rows else [])
        for rows, part in found.items()
    ]


@pytest.mark.parametrize("part", _parts(refused=False))
def test_lines_of_the_table(part: list[TruthCase]) -> None:
    lines = Lines()
    for case in part:
        with lines.line(case):
            answers(case)
    lines.check()


def answers(case: TruthCase) -> None:
    """Check what a line says of messages."""
    predicate = case.predicate()
    slots, read = extraction(fields_of(predicate), ACCESS)
    says, matches = verdict(predicate, slots), compile_filter(predicate, ACCESS)
    for name, expected in case.expected.items():
        data = messages()[name]
        source = (data, walk(data))
        assert says(read(source)) is expected, name
        assert matches(source) is (expected is True), name
        assert naive.evaluate(predicate, naive.message_fields(data)) is expected, name


@pytest.mark.parametrize("part", _parts(refused=True))
def test_refused_lines_name_the_filter(part: list[TruthCase]) -> None:
    lines = Lines()
    for case in part:
        with lines.line(case):
            refused(case)
    lines.check()


def refused(case: TruthCase) -> None:
    """Check that a line is refused, and how."""
    with pytest.raises(AmqpError) as refusal:
        case.predicate()
    assert refusal.value.condition in (INVALID_FIELD, NOT_IMPLEMENTED, RESOURCE_LIMIT_EXCEEDED)
    assert refusal.value.info == {"filter": "filter"}
    assert refusal.value.description


def test_the_table_is_large_and_says_nothing_twice() -> None:
    lines = [(case.language, case.text, *case.expected) for case in cases()]
    assert len(set(lines)) == len(lines) >= 600
