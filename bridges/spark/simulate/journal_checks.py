"""Checks of the rows of a journal, by Spark: records that are no rows, and counts that no gateway writes."""

from __future__ import annotations

import operator
from functools import reduce
from typing import TYPE_CHECKING, Final

from bridges.spark.errors import PipelineError
from gateway.journal.rows import VERSION
from gateway.plural import counted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

BAD: Final = "_bad"
"""The column with a record that could not be parsed."""
_LAST_MS: Final = 253_402_300_799_999
"""The end of the year 9999, in milliseconds since 1970."""
MOST_COUNTED: Final = 2**53
"""The largest count of a row: a journal has room for a thousand of them in sums of Spark."""
_COUNTS: Final = ("attached", "messages", "bytes", "count", "links", "scanned", "matched", "older")
_COUNTS_BY_NAME: Final = ("outcomes", "refused", "causes", "latency", "events")


def check(rows: DataFrame, *, skip_bad: bool) -> int:
    """The number of rows that the gateway reports as lost.

    Raises `PipelineError` for records that are not journal rows, or whose version is unknown.
    """
    from pyspark.sql import functions as F

    newer, false = F.when(F.col("v") > VERSION, F.col("v")), _has_false_counts()
    lost = F.when(~false & (F.col("kind") == "lost"), F.col("count"))
    found = rows.agg(
        F.count_if(_is_bad()).alias("bad"), F.max(newer).alias("newer"), F.sum(lost).alias("lost"),
        F.count_if(false).alias("false"),
    ).first()  # fmt: skip
    assert found is not None  # an aggregate without groups always has one row
    if found["newer"] is not None:
        versions = f"version {found['newer']}, and this scopegate reads version {VERSION}"
        raise PipelineError(f"the journal has rows of {versions}: update scopegate")
    if found["bad"] and not skip_bad:
        what = counted(found["bad"], "record is no row", "records are no rows")
        raise PipelineError(f"{what} of a journal (docs/journal.md); see --skip-bad")
    if found["false"]:
        what = counted(found["false"], "row has a count", "rows have counts")
        raise PipelineError(f"{what} that no gateway writes: below 0, or above 2^53")
    return int(found["lost"] or 0)


def sound(rows: DataFrame) -> DataFrame:
    """The rows without those that `check` reports, for callers that skip them."""
    return rows.where(~_is_bad())


def _is_bad() -> Column:
    """Whether a record is no row: no such JSON object, or without what each row of its kind has (docs/journal.md)."""
    from pyspark.sql import functions as F

    timed = F.col("from_ms").between(0, _LAST_MS) & F.col("to_ms").between(0, _LAST_MS)
    asked = F.col("scope").isNotNull() & F.col("action").isin("send", "receive")
    whole = F.col("v").isNotNull() & timed & (asked | ~F.col("kind").isin("link", "message", "reading"))
    return F.col(BAD).isNotNull() | ~F.coalesce(whole, F.lit(False))


def _has_false_counts() -> Column:
    """Whether a count of a row is none; for aggregates: a filter on so many columns takes Spark minutes to plan."""
    from pyspark.sql import functions as F

    counts = [F.array(*_COUNTS), *map(F.map_values, _COUNTS_BY_NAME)]
    return reduce(operator.or_, (F.coalesce(F.exists(each, _is_no_count), F.lit(False)) for each in counts))


def _is_no_count(value: Column) -> Column:
    return ~value.between(0, MOST_COUNTED)


def between(rows: DataFrame, since: int | None, until: int | None) -> DataFrame:
    """The rows whose period ends after `since` and begins before `until`, in milliseconds since 1970."""
    from pyspark.sql import functions as F

    untimed = F.col("to_ms").isNull()  # invalid rows are always reported
    rows = rows if since is None else rows.where(untimed | (F.col("to_ms") >= since))
    return rows if until is None else rows.where(untimed | (F.col("from_ms") < until))
