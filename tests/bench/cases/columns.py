"""Filters over columns: Arrow batches on one core, and Spark Columns against Python UDFs of the same expression."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from bridges.spark.columns import schema
from bridges.spark.columns.arrow import compile_filter, promote
from bridges.spark.columns.rows import EventRow, record_batch
from gateway.filters.parse.sql import parse_sql
from gateway.filters.predicate import fields_of
from tests.bench.cases.filters import BATCH, TWO_TERMS, messages
from tests.bench.figures import Sample
from tests.bench.running import Watch, cpu_seconds

ROWS = 20_000
_WANTED = ("spark.driver.host", "spark.driver.bindAddress")


def batch(rows: int = ROWS, reds: int = 4) -> Any:
    """Rows of messages with six application properties in the same order; one of `reds` is red."""
    sources = [data for first in range(0, rows, BATCH) for data, _ in messages(reds, first)]
    return record_batch(EventRow(0, offset, offset, None, data) for offset, data in enumerate(sources))


def irregular(rows: Any) -> Any:
    """The same rows without any two neighbours that have the same names: every second one lacks its last entry."""
    maps = rows.column("application_properties")
    kept = pa.array(
        [entries[: len(entries) - number % 2] for number, entries in enumerate(maps.to_pylist())], maps.type
    )
    place = rows.schema.get_field_index("application_properties")
    return rows.set_column(place, rows.schema.field(place), kept)


def with_fields(rows: Any) -> Any:
    """The same rows with the fields of the filter promoted."""
    return promote(rows, fields_of(parse_sql(TWO_TERMS)))


def filtering(rows: Any, seconds: float) -> float:
    """Rows a second past the two-term filter: one core, best call."""
    matches = compile_filter(parse_sql(TWO_TERMS))
    return rows.num_rows / _best(lambda: matches(rows), seconds)


def looking_up(rows: Any, seconds: float) -> float:
    """Rows a second of the same with Arrow's own `map_lookup`."""
    maps = rows.column("application_properties")

    def two_terms() -> Any:
        color, number = (pc.map_lookup(maps, name, "first") for name in ("color", "n"))
        return pc.and_kleene(
            pc.equal(pc.struct_field(color, "text"), "red"), pc.greater(pc.struct_field(number, "long"), 5)
        )

    return rows.num_rows / _best(two_terms, seconds)


def converting(seconds: float) -> float:
    """Messages a second into columns."""
    sources = [EventRow(0, offset, offset, None, data) for offset, (data, _) in enumerate(messages(4))]
    return len(sources) / _best(lambda: record_batch(sources), seconds)


def _best(call: Callable[[], object], seconds: float) -> float:
    """Processor time of the fastest call."""
    best, end = float("inf"), time.monotonic() + seconds
    while time.monotonic() < end:
        start = time.process_time_ns()
        call()
        best = min(best, time.process_time_ns() - start)
    return best / 1e9


# -- Spark


@contextmanager
def spark() -> Iterator[Any]:
    """A session of one core, so that neither side has more."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.memory", "3g").config("spark.python.unix.domain.socket.enabled", "true")
    for name in _WANTED:
        builder = builder.config(name, "127.0.0.1")
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    try:
        yield session
    finally:
        session.stop()


def cached(session: Any, copies: int) -> Any:
    """Rows in Spark's memory: the batch, `copies` times."""
    frame = session.createDataFrame(pa.Table.from_batches([batch()]), schema=schema.DDL).coalesce(1)
    frame = frame.select("application_properties", "not_shown").crossJoin(session.range(copies)).drop("id").cache()
    frame.count()
    return frame


def by_column(frame: Any) -> Sample:
    """The filter as Column."""
    from bridges.spark.column import column

    return _job(frame, column(parse_sql(TWO_TERMS)))


def by_udf(frame: Any) -> Sample:
    """The same expression as a Python UDF."""
    from pyspark.sql import functions as F

    def two_terms(properties: Any) -> bool:
        color, number = properties.get("color"), properties.get("n")
        return bool(color and number and color["text"] == "red" and number["long"] is not None and number["long"] > 5)

    return _job(frame, F.udf(two_terms, "boolean")(F.col("application_properties")))


def _job(frame: Any, condition: Any) -> Sample:
    """Rows a second of counting what matches, and processor time of a row in Spark's Java and its Python workers.

    Taken off the processor time is what the same job takes without a filter: starting it and going through the rows.
    """
    java = frame.sparkSession.sparkContext._gateway.proc.pid
    before, rows = _tree_seconds(java), frame.count()
    empty, watch, started, middle = _tree_seconds(java) - before, Watch(), time.monotonic(), _tree_seconds(java)
    frame.where(condition).count()
    seconds, busy = time.monotonic() - started, _tree_seconds(java) - middle
    others = max(watch.others_cores() - busy / seconds, 0.0)
    cpu = max(busy - empty, 0.01) / rows * 1e6
    return {"rate": rows / seconds, "rows": float(rows), "cpu_us": cpu, "others_cores": others}


def _tree_seconds(pid: int) -> float:
    """Processor time of a process and all that it has started and that runs."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parent = int(path.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(path.parent.name))
    found, waiting = 0.0, [pid]
    while waiting:
        each = waiting.pop()
        waiting += children.get(each, [])
        with suppress(OSError):
            found += cpu_seconds(each)
    return found
