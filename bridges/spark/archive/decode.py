"""Decodes Kafka records to rows of the archive, in batches: the only step of the archive that runs in Python.

Spark's functions cannot decode AMQP sections. They are decoded once, when a topic is archived, as record batches
(`mapInArrow`). No filter runs in Python, and readers of the archive get decoded columns (docs/decisions/0013).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from bridges.kafka.records.encode import MESSAGE, SECTIONS
from bridges.kafka.records.envelope import BARE, DATA_VALUE, SECTIONS_VALUE
from bridges.kafka.records.headers import BODY
from bridges.kafka.records.mapping import RecordReader
from bridges.spark.columns import schema
from bridges.spark.columns.rows import SCHEMA, EventRow, record_batch

if TYPE_CHECKING:
    from pyspark.sql import Column

    from bridges.spark.archive.written import WriteMonitor

_HEADERS: Final = "array<struct<key:string,value:binary>>"
RECORD: Final = f"struct<timestamp_type:int,value_in_body:boolean,value:binary,headers:{_HEADERS}>"
DDL: Final = f"`address` string, `date` date, {schema.DDL}, `record` {RECORD}"
"""Columns of the archive: docs/columns.md, the address and UTC date that folders are named by, and the Kafka record.

With the row's `key`, `record` is the record, byte for byte; `value` is null where it is the row's `body`. It is null in
rows that came over AMQP.
"""

_HEADER: Final = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
_RECORD: Final = pa.struct(
    [
        pa.field("timestamp_type", pa.int32()),
        pa.field("value_in_body", pa.bool_()),
        pa.field("value", pa.binary()),
        pa.field("headers", pa.list_(pa.field("element", _HEADER))),
    ]
)
ARCHIVE: Final = pa.schema(
    [pa.field("address", pa.string()), pa.field("date", pa.date32()), *SCHEMA, pa.field("record", _RECORD)]
)
"""The schema of the archive in terms of Arrow."""

KINDS: Final = (bytes((DATA_VALUE,)), bytes((SECTIONS_VALUE,)))
BODIES: Final = (SECTIONS, MESSAGE)


def count_unknown() -> Column:
    """A Column that counts records whose headers name a mapping that `RecordReader` does not know (KM-13).

    `RecordReader` reads such a record like one that no gateway wrote; nothing of the record is lost.
    """
    from pyspark.sql import functions as F

    def unknown(header: Column) -> Column:
        kind = (header.key == BARE) & ~F.substring(header.value, 1, 1).isin(*KINDS)
        return F.coalesce(kind | ((header.key == BODY) & ~header.value.isin(*BODIES)), F.lit(False))

    return F.count_if(F.exists("record.headers", unknown))


Batches: TypeAlias = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def decoder(addresses: Mapping[str, str], monitor: WriteMonitor | None = None) -> Batches:
    """The function for `mapInArrow` on rows of Spark's Kafka source; `addresses` maps topics to addresses.

    `monitor` sees each batch before the writer of the same task.
    """
    names = dict(addresses)

    def decode(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        readers = {topic: RecordReader() for topic in names}
        for batch in batches:
            yield rows(batch, readers, names)

    return decode if monitor is None else lambda batches: monitor.monitored(decode(batches))


def rows(batch: pa.RecordBatch, readers: Mapping[str, RecordReader], names: Mapping[str, str]) -> pa.RecordBatch:
    """One record batch of Kafka's source as rows of the archive."""
    columns_of = {name: batch.column(name) for name in batch.schema.names}
    topics = columns_of["topic"].to_pylist()
    times = [_milliseconds(each) for each in columns_of["timestamp"].cast(pa.int64()).to_pylist()]
    headers = _headers(columns_of["headers"])
    kinds = [kind + 1 for kind in columns_of["timestampType"].to_pylist()]  # Spark counts from none, -1
    keys, values = columns_of["key"].to_pylist(), columns_of["value"].to_pylist()
    places = zip(columns_of["partition"].to_pylist(), columns_of["offset"].to_pylist(), strict=True)
    decoded = record_batch(
        EventRow(partition, offset, time, key, readers[topic].encode(key, value, header, partition, offset, kind, time))
        for topic, time, header, kind, key, value, (partition, offset) in zip(
            topics, times, headers, kinds, keys, values, places, strict=True
        )
    )
    record = _record(columns_of, pa.array(kinds, pa.int32()), decoded.column("body"))
    return archived(decoded, pa.array([names[topic] for topic in topics], pa.string()), record)


def archived(decoded: pa.RecordBatch, addresses: pa.Array, record: pa.Array | None = None) -> pa.RecordBatch:
    """Rows of `SCHEMA` with the archive's own columns."""
    if record is None:
        record = pa.nulls(len(decoded), _RECORD)
    date = decoded.column("timestamp").cast(pa.date32())
    return pa.RecordBatch.from_arrays([addresses, date, *decoded.columns, record], schema=ARCHIVE)


def _milliseconds(microseconds: int | None) -> int:
    return -1 if microseconds is None else microseconds // 1000


def _headers(column: pa.ListArray) -> list[list[tuple[str, bytes | None]] | None]:
    """Headers as the Kafka client returns them; a column without headers is not looked through."""
    if column.null_count == len(column):
        return [None] * len(column)
    return [None if each is None else [(item["key"], item["value"]) for item in each] for each in column.to_pylist()]


def _record(columns_of: Mapping[str, pa.Array], kinds: pa.Array, body: pa.Array) -> pa.StructArray:
    value = columns_of["value"].cast(pa.binary())
    same = pc.fill_null(pc.equal(value, body), False)
    own = pc.if_else(same, pa.scalar(None, pa.binary()), value)
    headers = columns_of["headers"].cast(_RECORD.field("headers").type)
    return pa.StructArray.from_arrays([kinds, same, own, headers], fields=list(_RECORD))
