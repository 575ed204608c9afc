"""The truth table of the filters over columns: Arrow line by line, all lines as Spark Columns in one job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from bridges.spark.column import verdict
from bridges.spark.columns import schema
from bridges.spark.columns.arrow import compile_filter, compile_verdict
from gateway.errors import NOT_IMPLEMENTED, AmqpError
from tests.support.filters.rows import answerable, batch_of
from tests.support.filters.truth import TruthCase, cases, messages

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAMES = list(messages())
READ = [(case, case.predicate()) for case in cases() if not case.refused]
ANSWERED = [(case, predicate) for case, predicate in READ if answerable(predicate)]
UNANSWERED = [(case, predicate) for case, predicate in READ if not answerable(predicate)]
PER_JOB = 250


@pytest.fixture(scope="module")
def batch() -> Any:
    return batch_of(list(messages().values()))


def expected_answers(case: TruthCase, values: list[Any]) -> dict[str, Any]:
    """The answers for the messages that a line is about."""
    return {name: value for name, value in zip(NAMES, values, strict=True) if name in case.expected}


@pytest.mark.parametrize(("case", "predicate"), ANSWERED, ids=[str(case) for case, _ in ANSWERED])
def test_a_line_over_a_batch(case: TruthCase, predicate: Any, batch: Any) -> None:
    assert expected_answers(case, compile_verdict(predicate)(batch).to_pylist()) == case.expected
    matches = expected_answers(case, compile_filter(predicate)(batch).to_pylist())
    assert matches == {name: value is True for name, value in case.expected.items()}


@pytest.mark.parametrize("first", range(0, len(ANSWERED), PER_JOB))
def test_lines_as_columns(first: int, spark: SparkSession, batch: Any) -> None:
    asked = ANSWERED[first : first + PER_JOB]
    frame = spark.createDataFrame(pa.Table.from_batches([batch]), schema=schema.DDL).coalesce(1)
    named = [verdict(predicate).alias(f"c{index}") for index, (_, predicate) in enumerate(asked)]
    rows = frame.select(*named).collect()
    wrong = {
        str(case): (found, case.expected)
        for index, (case, _) in enumerate(asked)
        if (found := expected_answers(case, [row[index] for row in rows])) != case.expected
    }
    assert wrong == {}


@pytest.mark.parametrize(("case", "predicate"), UNANSWERED, ids=[str(case) for case, _ in UNANSWERED])
def test_what_columns_cannot_answer_is_refused_when_it_is_compiled(case: TruthCase, predicate: Any) -> None:
    for compiled in (compile_filter, verdict):
        with pytest.raises(AmqpError) as refusal:
            compiled(predicate)
        assert refusal.value.condition == NOT_IMPLEMENTED
        assert "gateway" in refusal.value.description


def test_few_lines_are_beyond_columns() -> None:
    assert len(UNANSWERED) * 50 < len(ANSWERED)
