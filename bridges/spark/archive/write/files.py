"""Writes rows to Parquet files by address and date, of bounded size, and reports the contents of each file.

Rows are collected for each address and date until they fill a row group. A file is hashed while it is written, and
flushed to disk before it is reported.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bridges.spark.archive.manifest.commits import FilePart
from bridges.spark.archive.write.dates import UNDATED, folder_days
from bridges.spark.archive.write.targets import FileTarget
from bridges.spark.columns.batch_decoder import Int64s

_OPEN: Final = 8
"""Maximum number of open files."""
_BUFFER: Final = 1 << 20
_FOOTER: Final = 32 << 10
"""Approximate size of a file's metadata, in bytes."""
_NO_DATE: Final = "__HIVE_DEFAULT_PARTITION__"
_ESCAPED: Final = frozenset("\"#%'*/:=?\\\x7f{[]^")
"""Characters that Spark and Hive escape in names of folders."""
_EPOCH: Final = date(1970, 1, 1)
_REPEATED: Final = (
    *("properties", "application_properties", "body_kind", "record.headers"),
    *("entries.key_value.key", "entries.key_value.value.type"),
)
"""Columns with many equal values, which are dictionary-encoded; for others, dictionaries cost more than they save."""
WITHOUT_STATISTICS: Final = ("head", "bare_message", "body", "record.value")
"""Columns whose minimum and maximum are useless for pruning."""


class FileReport(NamedTuple):
    """A file that a task has written; `name` is relative to the base of its target."""

    name: str
    address: str
    date: date | None
    bytes: int
    sha256: str
    rows: int
    first_ms: int | None
    last_ms: int | None
    """The first and the last timestamp, in milliseconds since 1970; `None` if no row has one."""
    partitions: tuple[FilePart, ...]


def folder_of(file: FileReport) -> str:
    """The folder of a file in the archive."""
    return folder_name(file.address, file.date)


def folder_name(address: str, day: date | None) -> str:
    """The folder of an address and date, named as by Spark and Hive."""
    return f"address={_escaped(address)}/date={_NO_DATE if day is None else day}"


def _escaped(text: str) -> str:
    return "".join(f"%{ord(each):02X}" if each in _ESCAPED or each < " " else each for each in text) or _NO_DATE


@dataclass(frozen=True)
class FileLimits:
    """Size limits of files, in bytes."""

    file: int = 128 << 20
    row_group: int = 32 << 20
    """Size of a row group in memory; at most twice as much is collected before the largest group is written."""

    def group(self) -> int:
        """The size of a row group: less than that of a file."""
        return max(min(self.row_group, self.file // 2), 1)


class _Slice(NamedTuple):
    """Consecutive rows of one partition."""

    partition: int
    first: int
    rows: pa.RecordBatch


class _ArchiveFile:
    """A Parquet file that is being written."""

    def __init__(self, target: FileTarget, address: str, day: int, schema: pa.Schema) -> None:
        self._address: Final = address
        self._date: Final = None if day == UNDATED else _EPOCH + timedelta(days=day)
        self._file: Final = target.create(folder_name(address, self._date))
        self._stream: Final = pa.BufferedOutputStream(pa.PythonFile(self._file, "w"), _BUFFER)
        self._writer: Final = pq.ParquetWriter(self._stream, schema, **parquet_options(schema, is_sorted=True))
        self._rows = 0
        self._times: tuple[int, int] | None = None
        self._partitions: dict[int, FilePart] = {}
        self._group_bytes = 0

    def room(self, limit: int) -> bool:
        """Whether another row group of the size of the last one fits."""
        return not self._rows or self._stream.tell() + self._group_bytes + _FOOTER <= limit

    def write(self, slices: list[_Slice]) -> None:
        """Write a row group. Raises `OSError`."""
        slices.sort(key=lambda each: each[:2])
        table = pa.Table.from_batches([each.rows for each in slices])
        before = self._stream.tell()
        self._writer.write_table(table, row_group_size=len(table))
        self._group_bytes = max(self._group_bytes, self._stream.tell() - before)
        for each in slices:
            self._count(each)

    def _count(self, some: _Slice) -> None:
        self._rows += len(some.rows)
        last = int(some.rows.column("offset")[-1].as_py())
        before = self._partitions.get(some.partition, FilePart(some.partition, 0, some.first, last))
        rows, first = before.rows + len(some.rows), min(before.first, some.first)
        self._partitions[some.partition] = FilePart(some.partition, rows, first, max(before.last, last))
        times = _times(some.rows)
        if times is not None:
            earlier = self._times or times
            self._times = min(earlier[0], times[0]), max(earlier[1], times[1])

    def close(self) -> FileReport:
        """Write the rest and bring the file to where its target keeps it. Raises `OSError`."""
        self._writer.close()
        self._stream.close()
        self._file.close()
        first, last = self._times or (None, None)
        file, partitions = self._file, tuple(self._partitions[number] for number in sorted(self._partitions))
        return FileReport(
            file.name, self._address, self._date, file.bytes, file.sha256(), self._rows, first, last, partitions
        )

    def abandon(self) -> None:
        """Remove the file."""
        with suppress(OSError, pa.ArrowException):
            self._file.abandon()


def _times(rows: pa.RecordBatch) -> tuple[int, int] | None:
    """The first and last timestamp in milliseconds; exact, because Kafka's timestamps are in milliseconds."""
    column = rows.column("timestamp")
    if column.null_count == len(column):
        return None
    times = column.drop_null().cast(pa.int64()).to_numpy()
    return int(times.min()) // 1000, int(times.max()) // 1000


def parquet_options(schema: pa.Schema, *, is_sorted: bool) -> dict[str, object]:
    """Writer options for files of an archive; `is_sorted`: each row group is sorted by partition and offset."""
    names = _leaf_names(schema)
    return {
        "compression": "zstd",
        "use_dictionary": [path for path in names if path.startswith(_REPEATED)],
        "write_statistics": [path for path in names if path not in WITHOUT_STATISTICS],
        "write_page_checksum": True,
        "store_schema": False,
        "sorting_columns": [pq.SortingColumn(0), pq.SortingColumn(1)] if is_sorted else None,
    }


def _leaf_names(schema: pa.Schema) -> list[str]:
    """The names of Parquet's columns, such as `header.priority` and `record.headers.list.element.key`."""
    return [name for field in schema for name in _leaves(field, field.name)]


def _leaves(field: pa.Field, path: str) -> Iterator[str]:
    kind = field.type
    if pa.types.is_struct(kind):
        for child in kind:
            yield from _leaves(child, f"{path}.{child.name}")
    elif pa.types.is_map(kind):
        yield f"{path}.key_value.key"
        yield from _leaves(kind.item_field, f"{path}.key_value.value")
    elif pa.types.is_list(kind):
        yield from _leaves(kind.value_field, f"{path}.list.element")
    else:
        yield path


class DatedFiles:
    """The files of one task."""

    def __init__(self, target: FileTarget, limits: FileLimits) -> None:
        self._target, self._limits = target, limits
        self._collected: Final[dict[tuple[str, int], list[_Slice]]] = {}
        self._bytes: Final[dict[tuple[str, int], int]] = {}
        self._open: Final[OrderedDict[tuple[str, int], _ArchiveFile]] = OrderedDict()
        self._reports: Final[list[FileReport]] = []

    def add(self, address: str, batch: pa.RecordBatch) -> None:
        """Add rows, in which the offsets of each partition ascend. Raises `OSError`."""
        per_row = batch.nbytes / max(len(batch), 1)
        most = max(int(self._limits.group() / per_row), 1) if per_row else len(batch)
        for day, part in _pieces(_slices(batch), most):
            key = address, day
            self._collected.setdefault(key, []).append(part)
            self._bytes[key] = self._bytes.get(key, 0) + int(per_row * len(part.rows)) + 1
            if self._bytes[key] >= self._limits.group():
                self._write(key)
        while sum(self._bytes.values()) > 2 * self._limits.group():
            self._write(max(self._bytes, key=self._bytes.__getitem__))

    def _write(self, key: tuple[str, int]) -> None:
        """Write the collected rows of an address and day as a row group."""
        slices = self._collected.pop(key)
        del self._bytes[key]
        file = self._open.pop(key, None)
        if file is not None and not file.room(self._limits.file):
            self._reports.append(file.close())
            file = None
        if file is None:
            if len(self._open) >= _OPEN:
                self._reports.append(self._open.popitem(last=False)[1].close())
            file = _ArchiveFile(self._target, *key, slices[0].rows.schema)
        self._open[key] = file
        file.write(slices)

    def close(self) -> tuple[FileReport, ...]:
        """Write the rest; returns a report for each file. Raises `OSError`."""
        for key in sorted(self._collected):
            self._write(key)
        while self._open:
            self._reports.append(self._open.popitem()[1].close())
        return tuple(self._reports)

    def abandon(self) -> None:
        """Remove the files that are still open, because their task has failed."""
        while self._open:
            self._open.popitem()[1].abandon()


def _pieces(slices: Iterator[tuple[int, _Slice]], most: int) -> Iterator[tuple[int, _Slice]]:
    """The slices cut into pieces of limited length, since a batch may be larger than a small file."""
    for day, each in slices:
        offsets = each.rows.column("offset")
        for start in range(0, len(each.rows), most):
            yield day, _Slice(each.partition, int(offsets[start].as_py()), each.rows.slice(start, most))


def _slices(batch: pa.RecordBatch) -> Iterator[tuple[int, _Slice]]:
    """The rows, divided by the day of their folder and by partition."""
    if not len(batch):
        return
    partitions: Int64s = batch.column("partition").to_numpy()
    days = folder_days(batch.column("timestamp"))
    order = np.lexsort((partitions, days))
    if (order[1:] < order[:-1]).any():
        batch, partitions, days = batch.take(pa.array(order)), partitions[order], days[order]
    cuts = np.flatnonzero((np.diff(partitions) != 0) | (np.diff(days) != 0)) + 1
    edges = [0, *cuts.tolist(), len(batch)]
    offsets = batch.column("offset").to_numpy()
    of_one_day = days[0] == days[-1]
    for start, end in pairwise(edges):
        part = batch.slice(start, end - start)
        if not of_one_day and 2 * (end - start) < len(batch):
            part = part.take(pa.array(np.arange(end - start)))  # copied: a slice would keep all days in memory
        yield int(days[start]), _Slice(int(partitions[start]), int(offsets[start]), part)
