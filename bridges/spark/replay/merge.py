"""Reads and merges archived files so that the offsets of each partition ascend, in bounded memory.

The rows of most files are already in this order. Any other file is sorted in memory as a whole.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from bridges.spark.archive.contents.file_layout import read_columns, restored
from bridges.spark.archive.storage.paths import StoragePath, is_of_storage, readable
from bridges.spark.errors import PipelineError, sentence
from bridges.spark.replay.plan import OffsetSpan, SourceFile, layers

Key = tuple[int, int]
"""Partition and offset."""
_ORDER: Final = [("partition", "ascending"), ("offset", "ascending")]
_BUDGET: Final = 16 * 1024 * 1024
"""Approximate size of the rows of all files in memory, in bytes."""
_MOST_ROWS: Final = 4096
"""Maximum number of rows in a batch: a dictionary-encoded value, stored once, may occur in every row."""
_SAMPLE: Final = 16
_MESSAGE: Final = ("head", "bare_message")
_RECORD: Final = "record.timestamp_type"


class ArchiveFile:
    """One file and the rows of some partitions in it. Raises `PipelineError` if it cannot be read."""

    def __init__(self, path: StoragePath, partitions: Collection[int], columns: Collection[str]) -> None:
        self._path: Final = path
        self._wanted: Final = pa.array(sorted(partitions), pa.int32())
        places = _FileSpans()
        with _named(path):
            self._file: Final = pq.ParquetFile(
                readable(path),
                pre_buffer=False,
                buffer_size=1 << 20,
                page_checksum_verification=True,
                coerce_int96_timestamp_unit="us",
            )
            groups = range(self._file.num_row_groups)
            self._groups: Final = [number for number in groups if self._look(number, places)]
        present = self._file.schema_arrow.names
        self._shown: Final = columns
        self._columns: Final = [name for name in read_columns(columns) if name in present]
        self._ordered: Final = places.ordered
        self.ascending: Final = places.ascending
        """Whether the offsets of each partition ascend."""
        spans = sorted(places.spans.items())
        parts = tuple(OffsetSpan(partition, first, last + 1) for partition, (first, last) in spans)
        self.source: Final = SourceFile(str(path), parts)
        """The wanted partitions and offsets that the file has."""

    @property
    def first(self) -> Key:
        """The first key of the wanted rows, if there are any."""
        part = self.source.parts[0]
        return part.partition, part.start

    def _look(self, number: int, places: _FileSpans) -> bool:
        """Record the positions of a row group's rows. Returns false if none of them is wanted."""
        found = self._file.read_row_group(number, columns=["partition", "offset"])
        found = found.filter(pc.is_in(found.column("partition"), self._wanted))
        if len(found):
            places.add(found.column("partition").to_numpy(), found.column("offset").to_numpy())
        return len(found) > 0

    def batches(self, budget: int, *, by_key: bool) -> Iterator[pa.RecordBatch]:
        """The wanted rows in batches of about this size: sorted by key, or at least with ascending offsets."""
        with _named(self._path):
            if self._ordered or (self.ascending and not by_key):
                for group in self._groups:
                    yield from self._of_group(group, budget)
                return
            rows = [batch for group in self._groups for batch in self._of_group(group, budget)]
            yield from pa.Table.from_batches(rows).sort_by(_ORDER).combine_chunks().to_batches()

    def _of_group(self, index: int, budget: int) -> Iterator[pa.RecordBatch]:
        columns, size, done = self._columns_of(index), _SAMPLE, 0
        if self._file.metadata.row_group(index).total_byte_size > _SAMPLE * budget:
            size = 1
        while True:
            skip, larger = done, 0
            for batch in self._file.iter_batches(size, row_groups=[index], columns=columns, use_threads=False):
                if skip >= len(batch):
                    skip -= len(batch)
                    continue
                batch = batch.slice(skip)
                done, skip = done + len(batch), 0
                kept = batch.filter(pc.is_in(batch.column("partition"), self._wanted))
                if len(kept):
                    yield restored(kept, self._shown)
                larger = min(_MOST_ROWS, budget * len(batch) // max(batch.nbytes, 1))
                if larger > 4 * size:
                    break
            else:
                return
            size = larger

    def _columns_of(self, index: int) -> list[str]:
        """The columns to read; messages are needed only for rows without a Kafka record."""
        group = self._file.metadata.row_group(index)
        for number in range(group.num_columns):
            column = group.column(number)
            if column.path_in_schema == _RECORD:
                statistics = column.statistics
                if statistics is not None and statistics.has_null_count and statistics.null_count == 0:
                    return [name for name in self._columns if name not in _MESSAGE]
        return self._columns


class _FileSpans:
    """The offsets of each partition in a file, and whether they are sorted."""

    def __init__(self) -> None:
        self.spans: Final[dict[int, Key]] = {}
        """First and last offset by partition."""
        self.ordered = True
        self.ascending = True
        self._last: Key = (-1, -1)

    def add(self, partitions: NDArray[np.int64], offsets: NDArray[np.int64]) -> None:
        """Add the next rows."""
        steps = np.diff(partitions)
        first = int(partitions[0]), int(offsets[0])
        within = bool(((steps > 0) | ((steps == 0) & (np.diff(offsets) > 0))).all())
        self.ordered = self.ordered and within and first > self._last
        self._last = int(partitions[-1]), int(offsets[-1])
        for partition in np.unique(partitions).tolist():
            own = offsets[partitions == partition]
            before = self.spans.get(partition, (int(own.min()), -1))
            ascend = bool((np.diff(own) > 0).all()) and int(own[0]) > before[1]
            self.ascending = self.ascending and ascend
            self.spans[partition] = min(before[0], int(own.min())), max(before[1], int(own.max()))


class _named:
    """A context manager that turns errors of reading a file into errors that name it."""

    def __init__(self, path: StoragePath) -> None:
        self._path = path

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, FileNotFoundError):
            raise PipelineError(f"{self._path} is missing, the manifest has it: scopegate pipeline verify") from None
        if isinstance(error, (OSError, pa.ArrowException)):
            unreadable = f"{self._path} cannot be read as Parquet"
            raise PipelineError(sentence(error) if is_of_storage(error) else unreadable) from error


class _Cursor:
    """The loaded rows of a file that were not taken yet."""

    def __init__(self, file: ArchiveFile, budget: int) -> None:
        self._batches: Final = file.batches(budget, by_key=True)
        self._rows: pa.RecordBatch | None = None
        self._partitions: NDArray[np.int64] = np.empty(0, np.int64)
        self._offsets: NDArray[np.int64] = np.empty(0, np.int64)
        self.last: Key = (-1, -1)
        """The key of the last loaded row."""
        self.load()

    def load(self) -> None:
        """Load the next batch; there are no rows after the last one."""
        self._rows = next(self._batches, None)
        if self._rows is not None:
            self._partitions = self._rows.column("partition").to_numpy().astype(np.int64)
            self._offsets = self._rows.column("offset").to_numpy()
            self.last = int(self._partitions[-1]), int(self._offsets[-1])

    @property
    def over(self) -> bool:
        """Whether the file has no further rows."""
        return self._rows is None

    def take(self, end: Key) -> pa.RecordBatch:
        """The loaded rows up to this key, inclusive."""
        assert self._rows is not None
        partition, offset = end
        inside = (self._partitions < partition) | ((self._partitions == partition) & (self._offsets <= offset))
        count = int(inside.sum())
        found = self._rows.slice(0, count)
        self._rows = self._rows.slice(count)
        self._partitions, self._offsets = self._partitions[count:], self._offsets[count:]
        if not len(self._partitions):
            self.load()
        return found


def merged(files: Sequence[ArchiveFile], budget: int = _BUDGET) -> Iterator[pa.RecordBatch]:
    """The wanted rows of all files, each partition in the order of its offsets. Raises `PipelineError`."""
    by_path = {file.source.path: file for file in files if file.source.parts}
    for layer in layers(by_path[path].source for path in sorted(by_path)):
        own = [by_path[source.path] for source in layer]
        yield from own[0].batches(budget, by_key=False) if len(own) == 1 else _merged(own, budget)


def _merged(files: Sequence[ArchiveFile], budget: int) -> Iterator[pa.RecordBatch]:
    """The rows of overlapping files, sorted by partition and offset."""
    waiting = sorted(files, key=lambda file: file.first, reverse=True)
    share = max(budget // len(waiting), 1 << 16)
    active: list[_Cursor] = []
    while waiting or active:
        if not active:
            active.append(_Cursor(waiting.pop(), share))
        horizon = min(each.last for each in active)
        while waiting and waiting[-1].first <= horizon:
            active.append(_Cursor(waiting.pop(), share))
            horizon = min(horizon, active[-1].last)
        taken = [found for each in active if len(found := each.take(horizon))]
        active = [each for each in active if not each.over]
        yield from taken if len(taken) == 1 else _sorted(taken)


def _sorted(batches: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    tables = [pa.Table.from_batches([each]) for each in batches]
    table = pa.concat_tables(tables, promote_options="permissive")  # columns missing in some become null
    yield from table.sort_by(_ORDER).combine_chunks().to_batches()
