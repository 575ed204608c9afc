"""Predicates as Spark Columns: many random ones in one job each, against the naive evaluator, ANSI on and off."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from bridges.spark.column import column, verdict
from bridges.spark.columns import schema
from tests.support.filters import strategies as random
from tests.support.filters.rows import UNANSWERABLE, answerable, batch_of, expected
from tests.support.plugins.examples import draw_examples, examples

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

pytestmark = pytest.mark.usefixtures("compiled")


def answers(frame: DataFrame, asked: list[Column]) -> list[list[Any]]:
    """For each of `asked` what it says of each row, from one job."""
    named = [each.alias(f"c{index}") for index, each in enumerate(asked)]
    rows = frame.coalesce(1).select(*named).collect()
    return [[row[index] for row in rows] for index in range(len(asked))]


def test_terms_as_columns(spark: SparkSession) -> None:
    for _ in range(examples(1)):  # a job costs seconds, so it answers for all of them
        check(spark, draw_examples(random.LEAVES.filter(answerable), 160), draw_examples(random.messages(), 60))


def test_predicates_as_columns(spark: SparkSession) -> None:
    for _ in range(examples(1)):
        check(spark, draw_examples(random.PREDICATES.filter(answerable), 80), draw_examples(random.messages(), 60))


def check(spark: SparkSession, predicates: list[Any], messages: list[bytes]) -> None:
    """Ask them with ANSI and without; Spark makes expressions of the same Columns again each time.

    The whole stage is compiled with ANSI, which is the default; the expressions always are.
    """
    batch = batch_of(messages)
    frame = spark.createDataFrame(pa.Table.from_batches([batch]), schema=schema.DDL)
    asked = [verdict(predicate) for predicate in predicates]
    asked += [column(predicate, strict=False) for predicate in predicates[::4]]
    wanted = [expected(predicate, messages, batch) for predicate in predicates]
    try:
        for ansi in ("true", "false"):
            spark.conf.set("spark.sql.ansi.enabled", ansi)
            spark.conf.set("spark.sql.codegen.wholeStage", ansi)
            compare(predicates, wanted, answers(frame, asked))
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")


def compare(predicates: list[Any], wanted: list[list[Any]], found: list[list[Any]]) -> None:
    """Check the verdict of each predicate, and the match of every fourth."""
    for predicate, values, right in zip(predicates, found, wanted, strict=False):
        shown = [UNANSWERABLE if each is UNANSWERABLE else value for each, value in zip(right, values, strict=True)]
        assert shown == right, predicate
    for predicate, matches, right in zip(predicates[::4], found[len(predicates) :], wanted[::4], strict=True):
        assert matches == [each is True for each in right], predicate
