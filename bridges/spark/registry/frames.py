"""Payloads with a schema registry as columns of DataFrames and views of Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from bridges.spark.archive.read import ArchiveSelection, read_archive
from bridges.spark.archive.storage.paths import StoragePath
from bridges.spark.archive.store import Archive
from bridges.spark.registry.client import RegistryOptions, SchemaRegistry
from bridges.spark.registry.payload import PayloadDecoder, check_libraries
from bridges.spark.views.json_type import NULL, merged, type_of
from bridges.spark.views.views import with_json

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ADDED: Final = pa.schema([
    pa.field("schema_id", pa.int64()), pa.field("payload", pa.string()), pa.field("payload_mistake", pa.string()),
])  # fmt: skip
_KEPT: Final = ("partition", "offset", "timestamp", "date", "key", "application_properties", "properties", "body")


def with_payload(frame: DataFrame, options: RegistryOptions, column: str = "body") -> DataFrame:
    """The DataFrame with `schema_id`, `payload` (JSON text), and `payload_mistake`, the reason if there is no payload.

    Tasks fetch each schema once. Raises `PipelineError` if the formats' libraries are not installed.
    """
    check_libraries()

    def decoded(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        decoder = PayloadDecoder(SchemaRegistry(options))
        for batch in batches:
            found = [decoder.decode(each) for each in batch.column(column).to_pylist()]
            parts = zip(*found, strict=True) if found else ((), (), ())
            columns = [pa.array(part, each.type) for part, each in zip(parts, _ADDED, strict=True)]
            names = [*batch.schema.names, *_ADDED.names]
            yield pa.RecordBatch.from_arrays([*batch.columns, *columns], names=names)

    from pyspark.sql import types as T

    texts = [T.StructField(name, T.StringType()) for name in _ADDED.names[1:]]
    added = [T.StructField("schema_id", T.LongType()), *texts]
    return frame.mapInArrow(decoded, T.StructType([*frame.schema.fields, *added]))


def create_payload_view(
    spark: SparkSession, path: StoragePath, address: str, options: RegistryOptions, name: str, sample: int = 1000
) -> DataFrame:
    """A temporary view of an address with payloads as columns of `json`, typed by the first `sample` events.

    Values of other types are null, and `json_mistake` is true. Raises `PipelineError`.
    """
    events = read_archive(spark, Archive(path), ArchiveSelection((address,))).select(*_KEPT)
    frame = with_payload(events, options)
    kind = NULL
    for row in frame.select("payload").where("payload IS NOT NULL").limit(sample).collect():
        found = type_of(json.loads(row.payload))
        kind = merged(kind, found) if found.kind == "struct" else kind
    shown = with_json(frame, kind, "payload") if kind.kind == "struct" else frame
    shown.createOrReplaceTempView(name)
    return shown
