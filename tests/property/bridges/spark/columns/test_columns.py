"""Predicates over columns: Arrow against the naive evaluator, on rows made of random messages."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from bridges.spark.columns.arrow import compile_filter, compile_verdict, promote
from bridges.spark.columns.rows import SCHEMA
from gateway.filters.predicate import fields_of
from tests.support.filters import strategies as random
from tests.support.filters.rows import UNANSWERABLE, answerable, batch_of, expected
from tests.support.plugins.examples import examples

MESSAGES = st.lists(random.messages(), min_size=1, max_size=4)


def verdicts(predicate: Any, messages: list[bytes], batch: Any) -> tuple[list[Any], list[Any]]:
    wanted = expected(predicate, messages, batch)
    found = compile_verdict(predicate)(batch).to_pylist()
    shown = [index for index, value in enumerate(wanted) if value is not UNANSWERABLE]
    return [found[index] for index in shown], [wanted[index] for index in shown]


@settings(max_examples=examples(500), deadline=None)
@given(random.LEAVES, MESSAGES)
def test_terms_over_a_batch_say_what_the_naive_evaluator_says(predicate: Any, messages: list[bytes]) -> None:
    assume(answerable(predicate))
    found, wanted = verdicts(predicate, messages, batch_of(messages))
    assert found == wanted


@settings(max_examples=examples(500), deadline=None)
@given(random.PREDICATES, MESSAGES)
def test_predicates_over_a_batch_say_what_the_naive_evaluator_says(predicate: Any, messages: list[bytes]) -> None:
    assume(answerable(predicate))
    found, wanted = verdicts(predicate, messages, batch_of(messages))
    assert found == wanted


@settings(max_examples=examples(300), deadline=None)
@given(random.PREDICATES, MESSAGES)
def test_promoted_columns_change_no_answer(predicate: Any, messages: list[bytes]) -> None:
    assume(answerable(predicate))
    batch = batch_of(messages)
    promoted = promote(batch, fields_of(predicate))
    assert compile_verdict(predicate)(promoted).equals(compile_verdict(predicate)(batch))


@settings(max_examples=examples(200), deadline=None)
@given(random.PREDICATES, MESSAGES)
def test_a_filter_is_never_unknown_and_a_table_is_its_batches(predicate: Any, messages: list[bytes]) -> None:
    assume(answerable(predicate))
    matches = compile_filter(predicate, strict=False)
    batch = batch_of(messages)
    wanted = [value is True for value in expected(predicate, messages, batch)]
    assert matches(batch).to_pylist() == wanted
    table = pa.Table.from_batches([batch, batch.slice(1), batch.slice(0, 1)])
    assert matches(table).to_pylist() == wanted + wanted[1:] + wanted[:1]


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(random.messages() | st.binary(max_size=30), max_size=4))
def test_head_and_bare_message_are_every_byte(messages: list[bytes]) -> None:
    batch = batch_of(messages)
    batch.validate(full=True)
    assert batch.schema == SCHEMA
    rows = batch.to_pylist()
    assert [row["head"] + row["bare_message"] for row in rows] == messages
