"""The truth table of the filters over columns: of Arrow, and as Spark Columns in some jobs."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from bridges.spark.column import verdict
from bridges.spark.columns import schema
from bridges.spark.columns.arrow import compile_filter, compile_verdict
from gateway.errors import NOT_IMPLEMENTED, AmqpError
from gateway.filters.predicate import Predicate
from tests.support.filters.rows import answerable, batch_of
from tests.support.filters.truth import TruthCase, cases, messages
from tests.support.project.tables import Lines
from tests.support.spark.spark import EXPRESSIONS, GENERATED, INTERPRETED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAMES = list(messages())
READABLE = [case for case in cases() if not case.refused]
JOBS = 5
"""Of Spark, each with every fifth predicate."""


@pytest.fixture(scope="module")
def batch() -> Any:
    return batch_of(list(messages().values()))


def expected_answers(case: TruthCase, values: list[Any]) -> dict[str, Any]:
    """The answers for the messages that a line is about."""
    return {name: value for name, value in zip(NAMES, values, strict=True) if name in case.expected}


PARTS = 10
"""Of the lines over a batch, which are a test each."""


@pytest.mark.parametrize("part", range(PARTS))
def test_lines_over_a_batch(part: int, batch: Any) -> None:
    """Predicates are made here and not where the cases are listed, which is done in each run."""
    lines = Lines()
    for case in READABLE[part::PARTS]:
        with lines.line(case):
            over_a_batch(case, batch)
    lines.check()


def over_a_batch(case: TruthCase, batch: Any) -> None:
    """Check what a line says of all messages at once."""
    predicate = case.predicate()
    if not answerable(predicate):
        refused_when_it_is_compiled(predicate)
        return
    assert expected_answers(case, compile_verdict(predicate)(batch).to_pylist()) == case.expected
    matches = expected_answers(case, compile_filter(predicate)(batch).to_pylist())
    assert matches == {name: value is True for name, value in case.expected.items()}


def refused_when_it_is_compiled(predicate: Predicate) -> None:
    """Check what columns cannot answer."""
    for compiled in (compile_filter, verdict):
        with pytest.raises(AmqpError) as refusal:
            compiled(predicate)
        assert refusal.value.condition == NOT_IMPLEMENTED
        assert "gateway" in refusal.value.description


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("job", range(JOBS))
def test_lines_as_columns(job: int, spark: SparkSession, batch: Any) -> None:
    """The first job compiles its whole stage, as in production, the second its expressions, the others nothing.

    So each way in which Spark may compute a Column is tried; the last one is the cheapest.
    """
    spark.conf.set("spark.sql.codegen.wholeStage", str(job == 0).lower())
    spark.conf.set(EXPRESSIONS, GENERATED if job < 2 else INTERPRETED)
    asked = by_predicate()[job::JOBS]
    frame = spark.createDataFrame(pa.Table.from_batches([batch]), schema=schema.DDL).coalesce(1)
    named = [verdict(lines[0].predicate()).alias(f"c{index}") for index, lines in enumerate(asked)]
    rows = frame.select(*named).collect()
    wrong = {
        str(case): (found, case.expected)
        for index, lines in enumerate(asked)
        for case in lines
        if (found := expected_answers(case, [row[index] for row in rows])) != case.expected
    }
    assert wrong == {}


def by_predicate() -> list[list[TruthCase]]:
    """Lines with the same predicate, which every sixth shares with another: each is asked once."""
    found: dict[bytes, list[TruthCase]] = {}
    for case in READABLE:
        if answerable(case.predicate()):
            found.setdefault(pickle.dumps(case.predicate()), []).append(case)  # equal ones may have other types
    return [*found.values()]


def test_few_lines_are_beyond_columns() -> None:
    answered = [answerable(case.predicate()) for case in READABLE]
    assert 0 < answered.count(False) * 50 < answered.count(True)
