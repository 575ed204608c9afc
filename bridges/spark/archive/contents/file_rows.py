"""The rows of a file in batches of bounded size."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from bridges.spark.archive.contents.file_layout import stored
from bridges.spark.archive.storage.paths import StoragePath, readable, unreadable
from bridges.spark.errors import PipelineError

Keep = Callable[[pa.RecordBatch], pa.BooleanArray]
"""The rows of a batch that remain."""
BATCH: Final = 8 * 1024 * 1024
"""Approximate size of a batch, in bytes."""
_FIRST: Final = 16
_MOST_ROWS: Final = 8192
"""Maximum number of rows in a batch: a dictionary-encoded value, stored once, may occur in each of them."""


def batches(path: StoragePath, keep: Keep | None = None) -> Iterator[pa.RecordBatch]:
    """The rows of a file in today's layout, with times as UTC microseconds. Raises `PipelineError`."""
    try:
        with pq.ParquetFile(
            readable(path), pre_buffer=False, page_checksum_verification=True, coerce_int96_timestamp_unit="us"
        ) as file:
            schema = in_utc(file.schema_arrow)
            for group in range(file.num_row_groups):
                for batch in _of_group(file, group):
                    found = pa.RecordBatch.from_arrays(batch.columns, names=batch.schema.names).cast(schema)
                    yield stored(found if keep is None else found.filter(keep(found)))
    except FileNotFoundError:
        raise PipelineError(f"{path} is missing, the manifest has it: scopegate pipeline verify") from None
    except (pa.ArrowException, OSError) as error:
        raise unreadable(path, error) from None


def _of_group(file: pq.ParquetFile, group: int) -> Iterator[pa.RecordBatch]:
    """The rows of a row group; the size of the first rows determines the length of later batches."""
    size, done = _FIRST, 0
    while True:
        skip, larger = done, 0
        for batch in file.iter_batches(size, row_groups=[group], use_threads=False):
            rest = batch.slice(min(skip, len(batch)))
            skip -= len(batch) - len(rest)
            if not len(rest):
                continue
            done += len(rest)
            yield rest
            larger = min(_MOST_ROWS, BATCH * len(rest) // max(rest.nbytes, 1))
            if larger > 4 * size:
                break
        else:
            return
        size = larger


def in_utc(schema: pa.Schema) -> pa.Schema:
    """The schema with all times as UTC microseconds, the meaning of Spark's INT96."""
    return pa.schema([each.with_type(_in_utc(each.type)).remove_metadata() for each in schema])


def _in_utc(found: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(found):
        return pa.timestamp("us", "UTC")
    if pa.types.is_struct(found):
        return pa.struct([each.with_type(_in_utc(each.type)) for each in found])
    if pa.types.is_map(found):
        return pa.map_(found.key_field, found.item_field.with_type(_in_utc(found.item_type)))
    if pa.types.is_list(found):
        return pa.list_(found.value_field.with_type(_in_utc(found.value_type)))
    return found
