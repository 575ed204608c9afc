"""A record from the columns of an archive is the record that Kafka had: every key, value, header and time."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridges.kafka.produce.record_columns import OutgoingColumns
from bridges.spark.replay.records import record_columns

BYTES = st.none() | st.binary(max_size=12)
HEADERS = st.none() | st.lists(st.tuples(st.text(max_size=4), BYTES), max_size=4)
ROW = st.tuples(st.integers(0, 9), BYTES, BYTES, st.booleans(), HEADERS, st.integers(-(2**40), 2**40))
HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
RECORD = pa.struct([
    ("timestamp_type", pa.int32()), ("value_in_body", pa.bool_()), ("value", pa.binary()),
    ("headers", pa.list_(pa.field("element", HEADER))),
])  # fmt: skip
Row = tuple[int, bytes | None, bytes | None, bool, list[tuple[str, bytes | None]] | None, int]


def batch(rows: list[Row], *, exact: bool) -> pa.RecordBatch:
    """Rows of an archive; `exact`: with the time of the record as Kafka had it."""
    kind = pa.struct([*RECORD, pa.field("timestamp_ms", pa.int64())]) if exact else RECORD
    records = [
        {
            "timestamp_type": 1,
            "value_in_body": in_body,
            "value": None if in_body else value,
            "headers": None if headers is None else [{"key": name, "value": content} for name, content in headers],
            **({"timestamp_ms": time} if exact else {}),
        }
        for _, _, value, in_body, headers, time in rows
    ]
    return pa.RecordBatch.from_arrays(
        [
            pa.array([row[0] for row in rows], pa.int32()),
            pa.array([None if exact else 1000 * row[5] for row in rows], pa.timestamp("us", "UTC")),
            pa.array([row[1] for row in rows], pa.binary()),
            pa.array([row[2] if row[3] else b"other" for row in rows], pa.binary()),
            pa.array(records, kind),
        ],
        names=["partition", "timestamp", "key", "body", "record"],
    )


def expected(rows: list[Row]) -> Iterator[tuple[object, ...]]:
    for source, key, value, _, headers, time in rows:
        yield source % 3, time or 1, key, value, headers or []


def produced(columns: OutgoingColumns) -> list[tuple[object, ...]]:
    return list(columns.rows())


@given(st.lists(ROW, max_size=12), st.integers(0, 4), st.booleans())
def test_every_record_is_as_it_was(rows: list[Row], first: int, exact: bool) -> None:
    given = batch(rows, exact=exact).slice(first)  # a slice has the buffers of the whole
    assert produced(record_columns(given, lambda source: source % 3)) == list(expected(rows[first:]))


@pytest.mark.parametrize("exact", [True, False])
def test_a_time_that_is_unknown_is_left_to_kafka(exact: bool) -> None:
    rows = batch([(0, None, b"v", True, None, 5)], exact=exact)
    unknown = pa.nulls(1, pa.timestamp("us", "UTC"))
    rows = rows.set_column(1, "timestamp", unknown)
    assert [row[1] for row in produced(record_columns(rows, lambda source: source))] == [5 if exact else 0]
