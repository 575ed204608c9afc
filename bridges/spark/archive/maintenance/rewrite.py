"""Rewrites Parquet files in batches of bounded size, and compares the result with the sources."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bridges.spark.archive.contents.file_rows import Keep, batches
from bridges.spark.archive.manifest.commits import File, FilePart
from bridges.spark.archive.storage.paths import StoragePath, digest, sync_folder
from bridges.spark.archive.write.files import parquet_options
from bridges.spark.errors import PipelineError
from gateway.plural import counted

ROW_GROUP: Final = 32 * 1024 * 1024
"""Size of the rows in a row group before encoding, in bytes."""


class _Part:
    """Rows of one partition in a file that is being written."""

    def __init__(self) -> None:
        self.rows, self.first, self.last = 0, 2**63, -1

    def add(self, rows: int, first: int, last: int) -> None:
        self.rows, self.first, self.last = self.rows + rows, min(self.first, first), max(self.last, last)


class RewrittenFile:
    """A file that is being written."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self.path: Final = path
        self.schema: Final = schema
        self._stream: BinaryIO = path.open("wb")
        self._writer: Final = pq.ParquetWriter(
            self._stream, schema, **parquet_options(schema, is_sorted=False)
        )
        self._pending: list[pa.RecordBatch] = []
        self._size = 0
        self._parts: Final[dict[int, _Part]] = {}
        self._times: Final[list[int]] = []

    def write(self, batch: pa.RecordBatch) -> int:
        """Add rows; returns the number of bytes written to disk."""
        self._pending.append(batch)
        self._size += batch.nbytes
        table = pa.Table.from_batches([batch.select(["partition", "offset"])])
        found = table.group_by("partition").aggregate([("offset", each) for each in ("count", "min", "max")])
        for row in found.to_pylist():
            part = self._parts.setdefault(row["partition"], _Part())
            part.add(row["offset_count"], row["offset_min"], row["offset_max"])
        times = pc.min_max(batch.column("timestamp").cast(pa.int64())).as_py()
        self._times.extend(time for time in times.values() if time is not None)
        if self._size >= ROW_GROUP:
            self._flush()
        return self._stream.tell()

    def _flush(self) -> None:
        if self._pending:
            self._writer.write_table(pa.Table.from_batches(self._pending), row_group_size=2**31)
        self._pending, self._size = [], 0
        self._times[:] = [min(self._times), max(self._times)] if self._times else []

    def close(self, place: str) -> File:
        """Finish the file; `place` is its path in the archive."""
        self._flush()
        self._writer.close()
        self._stream.close()
        parts = tuple(
            FilePart(number, each.rows, each.first, each.last) for number, each in sorted(self._parts.items())
        )
        earliest, latest = (self._times[0] // 1000, self._times[-1] // 1000) if self._times else (None, None)
        own = digest(self.path, sync=True)
        return File(place, self.path.stat().st_size, own, parts, earliest, latest)

    def abandon(self) -> None:
        """Close it without finishing."""
        self._stream.close()


def rewrite(
    sources: Sequence[StoragePath], target: Path, folder: str, file_bytes: int, keep: Keep | None = None
) -> list[tuple[Path, File]]:
    """Write the rows to keep, in their order, to files of about this size in the folder `target`.

    Each file gets a path in `folder` of the archive, with a number that `Archive.add` replaces. The new files are
    read back and compared with the sources, row by row. Raises `PipelineError` and `OSError`.
    """
    target.mkdir(parents=True)
    found: list[tuple[Path, File]] = []
    file: RewrittenFile | None = None

    def close(written: RewrittenFile) -> None:
        found.append((written.path, written.close(f"{folder}/{0:08}-{len(found):04}.parquet")))

    try:
        for batch in _all(sources, keep):
            if file is not None and file.schema != batch.schema:
                close(file)
                file = None
            if file is None:
                file = RewrittenFile(target / f"{len(found):04}.parquet", batch.schema)
            if file.write(batch) >= file_bytes:
                close(file)
                file = None
        if file is not None:
            close(file)
    except BaseException:
        if file is not None:
            file.abandon()
        raise
    sync_folder(target)
    compare(_all(sources, keep), _all([path for path, _ in found]), folder)
    return found


def _all(sources: Iterable[StoragePath], keep: Keep | None = None) -> Iterator[pa.RecordBatch]:
    return (batch for path in sources for batch in batches(path, keep) if len(batch))


def compare(before: Iterator[pa.RecordBatch], after: Iterator[pa.RecordBatch], name: str) -> None:
    """Raise `PipelineError` unless both have the same rows in the same order."""
    rows = 0
    one, other = next(before, None), next(after, None)
    while one is not None and other is not None:
        count = min(len(one), len(other))
        if not _same(one.slice(0, count), other.slice(0, count)):
            raise PipelineError(f"{name}: what was written differs within the rows {rows} to {rows + count - 1}")
        rows += count
        one = one.slice(count) if len(one) > count else next(before, None)
        other = other.slice(count) if len(other) > count else next(after, None)
    if one is not None or other is not None:
        than = f"{'fewer' if one is not None else 'more'} than {counted(rows, 'row')}"
        raise PipelineError(f"{name}: what was written has {than}")


def _same(one: pa.RecordBatch, other: pa.RecordBatch) -> bool:
    if one.schema == other.schema and one.equals(other):
        return True
    return repr(one.to_pylist()) == repr(other.to_pylist())  # NaN is not equal to itself
