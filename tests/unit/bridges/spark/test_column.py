"""The Spark back end on a real session: what an engineer types, refusals, plans that stay small, LIKE at its limits."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from bridges.spark.column import column, verdict
from bridges.spark.columns import schema as columns
from bridges.spark.columns.rows import SCHEMA
from bridges.spark.like import PARTS, expression, like
from gateway.amqp.codec import codec
from gateway.amqp.codec.codec import Symbol
from gateway.amqp.message import sections
from gateway.errors import AmqpError
from gateway.filters import predicate as p
from gateway.filters.like import parts
from tests.support.filters.rows import batch_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.usefixtures("compiled")

AP = p.MessageSection.APPLICATION_PROPERTIES
N, COLOR = p.FieldReference(AP, "n"), p.FieldReference(AP, "color")


def frame(spark: SparkSession, *messages: bytes) -> DataFrame:
    return spark.createDataFrame(pa.Table.from_batches([batch_of(messages)]), schema=columns.DDL)


def message(**properties: Any) -> bytes:
    return sections.section(sections.APPLICATION_PROPERTIES, properties)


def test_spark_reads_the_layout_as_arrow_writes_it(spark: SparkSession) -> None:
    schema = StructType.fromDDL(columns.DDL)
    assert to_arrow_schema(schema, timezone="UTC") == SCHEMA
    assert frame(spark, message(color="red")).schema == schema


def test_what_an_engineer_types(spark: SparkSession) -> None:
    rows = frame(spark, message(color="red", n=codec.Int(7)), message(color="blue"), message(n=codec.Int(2)))
    assert [row.offset for row in rows.where("application_properties['color'].text = 'red'").collect()] == [0]
    assert [row.offset for row in rows.where("application_properties['n'].long < 5").collect()] == [2]
    both = p.And((p.Compare(p.Comparison.EQ, COLOR, p.Literal("red")), p.Compare(p.Comparison.GT, N, p.Literal(5))))
    assert [row.offset for row in rows.where(column(both)).collect()] == [0]
    assert [row.offset for row in rows.where(~column(both)).collect()] == [1, 2]


def test_no_python_runs_in_the_query(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    asked = column(p.Like(COLOR, p.Literal("%r_d%"))).alias("answer")
    frame(spark, message(color="red")).coalesce(1).select(asked).explain()
    plan = capsys.readouterr().out
    assert "Project" in plan
    assert "Python" not in plan


def test_rows_that_do_not_show_what_is_asked_fail_the_query_or_are_left_out(spark: SparkSession) -> None:
    many = {Symbol("x"): [codec.Int(1)] * (columns.ENTRIES_LIMIT + 1)}
    hidden = sections.section(sections.MESSAGE_ANNOTATIONS, many)
    inside = p.Not(p.Exists(p.FieldReference(p.MessageSection.MESSAGE_ANNOTATIONS, "x", (p.Literal(0),))))
    rows = frame(spark, hidden, message(color="red"), b"\x00\x53\x72\xc1\x01")
    with pytest.raises(PySparkException, match="strict=False"):
        rows.where(column(inside)).collect()
    assert [row.offset for row in rows.where(column(inside, strict=False)).collect()] == [1]


@pytest.mark.parametrize("operator", p.Operator)
def test_the_plan_of_nested_terms_stays_small(operator: p.Operator, spark: SparkSession) -> None:
    rows = frame(spark, message(n=codec.Int(1)), message(n=1.0), message(n="x"))
    for grown in (lambda term: p.Arithmetic(operator, term, N), lambda term: p.Arithmetic(operator, N, term)):
        four, eight = (nested(rows, grown, depth) for depth in (4, 8))
        assert plan_size(eight) < 4 * plan_size(four), "sixteen times if each level doubled it"
        assert eight.collect()[2].answer is None


def nested(rows: DataFrame, grown: Callable[[p.ValueExpression], p.ValueExpression], depth: int) -> DataFrame:
    """The answers of a comparison whose left side has so many levels."""
    term: p.ValueExpression = N
    for _ in range(depth):
        term = grown(term)
    return rows.select(verdict(p.Compare(p.Comparison.LT, term, p.Literal(100))).alias("answer"))


def plan_size(frame: DataFrame) -> int:
    """Characters of the analysed plan."""
    plan: Any = frame._jdf.queryExecution().analyzed()  # type: ignore[operator]
    return len(plan.toString())


@pytest.mark.parametrize(
    "pattern", ["%" + "a%" * (PARTS - 2) + "b", "%" + "_" * 500 + "b", "%" + "a" * 4000 + "b%", "a_%" * (PARTS - 1)]
)
def test_like_never_goes_back(pattern: str, spark: SparkSession) -> None:
    texts = spark.createDataFrame([("a" * 64_000,), ("a" * 63_999 + "b",)], "text string").coalesce(1)
    started = time.monotonic()
    found = [row.found for row in texts.select(like(F.col("text"), parts(pattern) or []).alias("found")).collect()]
    assert time.monotonic() - started < 120
    assert found == [pattern == "a_%" * (PARTS - 1), "_%" not in pattern or pattern.startswith("a_")]


@pytest.mark.usefixtures("spark")
def test_more_parts_than_javas_matcher_takes_are_refused() -> None:
    with pytest.raises(AmqpError, match="gateway"):
        like(F.col("text"), parts("a%" * PARTS) or [])


def test_each_part_of_a_pattern_is_a_group_that_is_left_for_good() -> None:
    assert expression(parts("a.%b_c%%d") or []) == r"(?s)\Aa\.(?>.*?b.{1}c).*d\z"
