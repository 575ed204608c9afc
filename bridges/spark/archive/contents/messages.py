"""The messages of archived rows; for rows with a Kafka record, they are encoded again from the record.

In files, `head` and `bare_message` are null where there is a `record`: they were made from it, together with `key`,
`partition`, `offset` and `timestamp` (docs/decisions/0044-columns-of-files.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, TypedDict

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bridges.kafka.records.envelope import Header
from bridges.kafka.records.mapping import RecordReader
from bridges.spark.columns.rows import message_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MESSAGE_COLUMNS: Final = ("head", "bare_message")
SOURCES: Final = ("partition", "offset", "timestamp", "key", "body", "record")
"""The columns that messages are made from."""


def record_times(times: pa.Array, record: pa.StructArray) -> pa.Int64Array:
    """Kafka's timestamps in milliseconds since 1970; null where the archive does not have them, as in old files."""
    known = times.cast(pa.timestamp("ms", times.type.tz), safe=False).cast(pa.int64())
    if record.type.get_field_index("timestamp_ms") >= 0:
        known = pc.coalesce(pc.struct_field(record, "timestamp_ms"), known)
    return known


def with_messages(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows with `head` and `bare_message` filled in; `rows` need the columns `SOURCES` where these are missing."""
    found = {name: rows.column(name) for name in rows.schema.names}
    head, bare = (found.get(name, pa.nulls(len(rows), pa.binary())) for name in MESSAGE_COLUMNS)
    lacking = pc.and_(bare.is_null(), head.is_null())
    if lacking.true_count:
        made = message_columns(list(_encoded(rows.filter(lacking))), MESSAGE_COLUMNS)
        places = np.full(len(rows), -1, np.int64)
        places[lacking.to_numpy(zero_copy_only=False)] = np.arange(lacking.true_count)
        index = pa.array(places, mask=places < 0)
        head, bare = (
            pc.coalesce(own.cast(pa.binary()), made[name].take(index))
            for name, own in zip(MESSAGE_COLUMNS, (head, bare), strict=True)
        )
    found |= {"head": head, "bare_message": bare}
    return pa.RecordBatch.from_arrays(list(found.values()), names=list(found))


def _encoded(rows: pa.RecordBatch) -> Iterator[bytes]:
    reader, times = RecordReader(), record_times(rows.column("timestamp"), rows.column("record")).to_pylist()
    for row, time in zip(rows.select(["partition", "offset", "key", "body", "record"]).to_pylist(), times, strict=True):
        yield _message(reader, row, 0 if time is None else time)


class _HeaderColumns(TypedDict):
    key: str
    value: bytes | None


class _RecordColumns(TypedDict):
    timestamp_type: int
    value_in_body: bool
    value: bytes | None
    headers: list[_HeaderColumns] | None


class _SourceRow(TypedDict):
    partition: int
    offset: int
    key: bytes | None
    body: bytes | None
    record: _RecordColumns | None


def _message(reader: RecordReader, row: _SourceRow, time: int) -> bytes:
    record = row["record"]
    if record is None:
        return b""
    value = row["body"] if record["value_in_body"] else record["value"]
    headers = record["headers"]
    pairs: list[Header] | None = None if headers is None else [(each["key"], each["value"]) for each in headers]
    return reader.encode(
        row["key"], value, pairs, row["partition"], row["offset"], record["timestamp_type"], time
    )


def messages_of(frame: DataFrame) -> DataFrame:
    """A frame with the columns of docs/columns.md and `record`, with the messages of all rows added; runs Python."""

    def made(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield with_messages(batch)

    return frame.mapInArrow(made, frame.schema)
