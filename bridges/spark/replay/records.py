"""Restores Kafka records from rows of an archive, as columns for the producer.

Rows that were archived over AMQP have no record; they are encoded as the gateway would write them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypedDict

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bridges.kafka.produce.record_columns import BinaryColumn, Header, OutgoingColumns
from bridges.kafka.records.mapping import RecordWriter
from bridges.spark.archive.contents.messages import record_times
from gateway.amqp.message.sections import walk

COLUMNS: Final = ("partition", "offset", "timestamp", "key", "body", "head", "bare_message", "record")
"""The columns of the archive from which a record is restored."""
Record = tuple[bytes | None, bytes | None, list[Header]]


def record_columns(batch: pa.RecordBatch, partition_of: Callable[[int], int]) -> OutgoingColumns:
    """The records of these rows; `partition_of` maps their partitions to those of the target."""
    record = batch.column("record")
    if record.null_count:
        keys, values, headers = _one_by_one(batch)
    else:
        keys, values, headers = batch.column("key"), _values(batch, record), record.field("headers")
    sources = batch.column("partition").to_numpy()
    targets = {int(source): partition_of(int(source)) for source in np.unique(sources)}
    partitions = np.fromiter((targets[source] for source in sources.tolist()), np.int32, len(sources))
    return _columns(partitions, _times(batch, record), keys, values, headers)


def _values(batch: pa.RecordBatch, record: pa.StructArray) -> pa.Array:
    return pc.if_else(record.field("value_in_body"), batch.column("body"), record.field("value"))


def _times(batch: pa.RecordBatch, record: pa.StructArray) -> pa.Int64Array:
    """Kafka's timestamps in milliseconds since 1970; 0 if the archive does not have them.

    librdkafka replaces 0 by the current time, so a real timestamp of 0 is written as 1.
    """
    known = record_times(batch.column("timestamp"), record)
    return pc.fill_null(pc.if_else(pc.equal(known, 0), 1, known), 0)


def _columns(
    partitions: NDArray[np.int32],
    times: pa.Int64Array,
    keys: pa.Array,
    values: pa.Array,
    headers: pa.ListArray,
) -> OutgoingColumns:
    headers = _without_nulls(headers)
    entries = headers.values
    return OutgoingColumns(
        len(partitions),
        pa.py_buffer(partitions),
        pa.py_buffer(times.to_numpy()),
        _binaries(keys),
        _binaries(values),
        headers.buffers()[1],
        headers.offset,
        _binaries(entries.field("key")),
        _binaries(entries.field("value")),
    )


def _without_nulls(headers: pa.ListArray) -> pa.ListArray:
    """Headers without hidden entries: Arrow allows a null list to have entries beneath."""
    return pc.fill_null(headers, pa.scalar([], headers.type)) if headers.null_count else headers


def _binaries(array: pa.Array) -> BinaryColumn:
    array = array.cast(pa.binary())
    valid, ends, data = array.buffers()
    return BinaryColumn(ends or bytes(4), data, valid if array.null_count else None, array.offset)


# -- rows without a record


def _one_by_one(batch: pa.RecordBatch) -> tuple[pa.Array, pa.Array, pa.ListArray]:
    writer = RecordWriter()
    found = [_record(writer, row) for row in batch.select(_present(batch)).to_pylist()]
    keys, values, headers = zip(*found, strict=True) if found else ((), (), ())
    entries = [[{"key": name, "value": value} for name, value in each] for each in headers]
    kind = batch.schema.field("record").type.field("headers").type
    return pa.array(keys, pa.binary()), pa.array(values, pa.binary()), pa.array(entries, kind)


def _present(batch: pa.RecordBatch) -> list[str]:
    return [name for name in ("key", "body", "head", "bare_message", "record") if name in batch.schema.names]


class _ArchivedHeader(TypedDict):
    key: str
    value: bytes | None


class _ArchivedRecord(TypedDict):
    value_in_body: bool
    value: bytes | None
    headers: list[_ArchivedHeader] | None


class _ArchivedRow(TypedDict):
    key: bytes | None
    body: bytes | None
    head: bytes
    bare_message: bytes
    record: _ArchivedRecord | None


def _record(writer: RecordWriter, row: _ArchivedRow) -> Record:
    record = row["record"]
    if record is None:
        data = row["head"] + row["bare_message"]
        key, value, headers = writer.record(data, walk(data))
        return key, value, list(headers or ())
    value = row["body"] if record["value_in_body"] else record["value"]
    return row["key"], value, [(header["key"], header["value"]) for header in record["headers"] or ()]
