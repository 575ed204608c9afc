"""The columns of an archive, as schemas of Spark and of Arrow.

AMQP sections are decoded once, when a topic is archived. No filter runs in Python, and readers of the archive get
decoded columns (docs/decisions/0013).
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from bridges.spark.columns import schema
from bridges.spark.columns.rows import SCHEMA

_HEADERS: Final = "array<struct<key:string,value:binary>>"
RECORD: Final = f"struct<timestamp_type:int,value_in_body:boolean,value:binary,headers:{_HEADERS},timestamp_ms:bigint>"
DDL: Final = f"`address` string, `date` date, {schema.DDL}, `record` {RECORD}"
"""Columns of the archive: docs/columns.md, the address and UTC date that folders are named by, and the Kafka record.

`record`, together with the row's `key`, has the record byte for byte; its `value` is null where it is the row's `body`.
`record` is null in rows that came over AMQP. `timestamp_ms` has times of records outside the years 1 to 9999.
"""

HEADERS: Final = pa.list_(
    pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
)
"""The type of the headers of a record."""
KAFKA_RECORD: Final = pa.struct(
    [
        pa.field("timestamp_type", pa.int32()),
        pa.field("value_in_body", pa.bool_()),
        pa.field("value", pa.binary()),
        pa.field("headers", HEADERS),
        pa.field("timestamp_ms", pa.int64()),
    ]
)
FILE: Final = pa.schema([*SCHEMA, pa.field("record", KAFKA_RECORD)])
"""The columns of docs/columns.md with the Kafka record; files have them as `file_layout.STORED`."""
ARCHIVE: Final = pa.schema([pa.field("address", pa.string()), pa.field("date", pa.date32()), *FILE])
"""`FILE` with the columns that the folders' names give."""


def with_record(decoded: pa.RecordBatch, record: pa.Array | None = None) -> pa.RecordBatch:
    """Rows of `FILE`: the rows of `columns.rows` with their Kafka records."""
    if record is None:
        record = pa.nulls(len(decoded), KAFKA_RECORD)
    return pa.RecordBatch.from_arrays([*decoded.columns, record], schema=FILE)


def archived(decoded: pa.RecordBatch, addresses: pa.Array) -> pa.RecordBatch:
    """Rows of `ARCHIVE` without Kafka records."""
    date = decoded.column("timestamp").cast(pa.date32())
    return pa.RecordBatch.from_arrays([addresses, date, *with_record(decoded).columns], schema=ARCHIVE)
