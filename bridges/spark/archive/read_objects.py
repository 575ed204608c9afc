"""Archived objects as a DataFrame: tasks read them with pyarrow, so that Spark needs no file system of its own.

Spark cannot prune these files: the files to open are chosen before, by address, date and times.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

import pyarrow as pa

from bridges.spark.archive.contents.dates import date_of
from bridges.spark.archive.contents.decode import ARCHIVE, DDL, FILE
from bridges.spark.archive.contents.file_layout import restored
from bridges.spark.archive.contents.file_rows import batches
from bridges.spark.archive.manifest.commits import File
from bridges.spark.archive.storage.s3 import ObjectPath

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def object_frame(spark: SparkSession, archive: ObjectPath, files: Sequence[File]) -> DataFrame:
    """All rows of these files, with the columns of `decode.DDL`."""
    named = [(file.path, file.address, date_of(file.path)) for file in files]
    tasks = min(len(named), spark.sparkContext.defaultParallelism)
    return spark.range(0, len(named), 1, tasks).mapInArrow(_ObjectFiles(archive, named), DDL)


@dataclass(frozen=True)
class _ObjectFiles:
    """The function for `mapInArrow`: yields the rows of the files with the given numbers."""

    archive: ObjectPath
    files: Sequence[tuple[str, str, date | None]]

    def __call__(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                path, address, day = self.files[number]
                for rows in batches(self.archive / path):
                    yield _with_folder(restored(rows), address, day)


def _with_folder(rows: pa.RecordBatch, address: str, day: date | None) -> pa.RecordBatch:
    folder = [pa.array([address] * len(rows), pa.string()), pa.array([day] * len(rows), pa.date32())]
    columns = [rows.column(each.name).cast(each.type) for each in FILE]
    return pa.RecordBatch.from_arrays([*folder, *columns], schema=ARCHIVE)
