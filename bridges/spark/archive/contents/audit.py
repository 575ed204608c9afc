"""Counts the offsets in Parquet files of the archive, by address and partition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from bridges.spark.archive.contents.ranges import Range
from bridges.spark.archive.storage.paths import StoragePath, is_of_storage, readable, unreadable
from bridges.spark.errors import PipelineError
from gateway.plural import counted

_GAPS: Final = 8
"""Maximum number of gaps of a partition that are checked, longest first; transaction markers make thousands of short
ones."""


class Count(NamedTuple):
    """The rows of one address and partition."""

    rows: int
    distinct: int
    first: int
    last: int
    gaps: tuple[tuple[int, int], ...] = ()
    """The longest runs of offsets without a row between the first and the last: [start, end)."""


Counts = Mapping[tuple[str, int], Count]
"""By address and partition."""


def partition_name(key: tuple[str, int]) -> str:
    """An address and partition, as text for errors."""
    return f"{key[0]}, partition {key[1]}"


def count_files(files: Iterable[tuple[str, StoragePath]]) -> Counts:
    """Count the rows of files, given with their addresses. Raises `PipelineError` for a file that cannot be read."""
    tables: dict[str, list[pa.Table]] = {}
    for address, path in files:
        tables.setdefault(address, []).append(read_offsets(path))
    found = {}
    for address, parts in tables.items():
        table = pa.concat_tables(parts)
        partitions, offsets = (table.column(name).to_numpy() for name in ("partition", "offset"))
        order = np.lexsort((offsets, partitions))
        partitions, offsets = partitions[order], offsets[order]
        numbers, starts = np.unique(partitions, return_index=True)
        for number, of_partition in zip(numbers, np.split(offsets, starts[1:]), strict=True):
            found[address, int(number)] = _count(of_partition)
    return found


def _count(offsets: NDArray[np.int64]) -> Count:
    """Count sorted offsets."""
    steps = np.diff(offsets)
    (positions,) = np.nonzero(steps > 1)
    longest = np.sort(positions[np.argsort(-steps[positions], kind="stable")[:_GAPS]])
    gaps = tuple((int(offsets[index]) + 1, int(offsets[index + 1])) for index in longest)
    return Count(len(offsets), int(np.count_nonzero(steps)) + 1, int(offsets[0]), int(offsets[-1]), gaps)


def read_offsets(path: StoragePath) -> pa.Table:
    """The columns `partition` and `offset` of a file. Raises `PipelineError`, and `OSError` if the storage fails."""
    try:
        with pq.ParquetFile(readable(path)) as file:
            return file.read(columns=["partition", "offset"])
    except FileNotFoundError:
        raise PipelineError(f"{path} is missing") from None
    except (pa.ArrowException, OSError, ValueError) as error:
        if is_of_storage(error):  # it may pass, and says nothing about the file
            raise
        raise unreadable(path, error) from None


def with_row_counts(ranges: Sequence[Range], counts: Counts) -> list[Range]:
    """The ranges with their row counts."""

    def rows(each: Range) -> int:
        count = counts.get((each.address, each.partition))
        return 0 if each.gap_reason or count is None else count.rows

    return [replace(each, rows=rows(each)) for each in ranges]


def gaps(ranges: Sequence[Range], counts: Counts) -> list[Range]:
    """Offsets of ranges without rows, at both ends and the longest in between, to be checked against the log."""
    found = []
    for each in ranges:
        if each.gap_reason or each.start == each.end:
            continue
        count = counts.get((each.address, each.partition))
        if count is None:
            found.append(each)
            continue
        spans = [(each.start, count.first), *count.gaps, (count.last + 1, each.end)]
        found += [replace(each, start=start, end=end, rows=0) for start, end in spans if start < end]
    return found


def repeated(count: Count) -> str:
    """How many rows have the offset of another row."""
    rows = count.rows - count.distinct
    return f"{counted(rows, 'offset occurs', 'offsets occur')} more than once"


def row_differences(ranges: Sequence[Range], counts: Counts) -> list[str]:
    """Differences between the rows and the ranges of one commit: duplicates, rows outside of them, wrong counts."""
    expected = _by_partition(each for each in ranges if not each.gap_reason)
    found = []
    for key in sorted({*expected, *counts}):
        count = counts.get(key, Count(0, 0, -1, -1))
        wanted = expected.get(key)
        name = partition_name(key)
        if wanted is None:
            found.append(f"{name}: {counted(count.rows, 'row')} outside all ranges of the commit")
            continue
        if count.rows != wanted.rows:
            found.append(f"{name}: {counted(count.rows, 'row')} in the files, {wanted.rows} in the manifest")
        if count.rows != count.distinct:
            found.append(f"{name}: {repeated(count)}")
        if count.rows and (count.first < wanted.start or count.last >= wanted.end):
            span = f"{wanted.start} to {wanted.end - 1}"
            found.append(f"{name}: offsets {count.first} to {count.last} are outside {span}")
    return found


def _by_partition(ranges: Iterable[Range]) -> dict[tuple[str, int], Range]:
    """One range for each partition, from its first to its last offset, with the rows of all its ranges."""
    found: dict[tuple[str, int], Range] = {}
    for each in ranges:
        before = found.get((each.address, each.partition), replace(each, rows=0))
        start, end = min(before.start, each.start), max(before.end, each.end)
        found[each.address, each.partition] = replace(each, start=start, end=end, rows=before.rows + each.rows)
    return found
