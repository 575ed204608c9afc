"""Counts the offsets in Parquet files of the archive, by address and partition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from bridges.spark.archive.ranges import Range
from bridges.spark.errors import PipelineError

_GAPS: Final = 8
"""How many gaps of a partition are checked, the longest first; ends of transactions make thousands of short ones."""


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


def place_name(place: tuple[str, int]) -> str:
    """An address and partition as errors name them."""
    return f"{place[0]}, partition {place[1]}"


def count_files(files: Iterable[tuple[str, Path]]) -> Counts:
    """Count the rows of files, given with their addresses. Raises `PipelineError` for a file that cannot be read."""
    tables: dict[str, list[pa.Table]] = {}
    for address, path in files:
        tables.setdefault(address, []).append(_offsets(path))
    found = {}
    for address, parts in tables.items():
        table = pa.concat_tables(parts)
        partitions, offsets = (table.column(name).to_numpy() for name in ("partition", "offset"))
        order = np.lexsort((offsets, partitions))
        partitions, offsets = partitions[order], offsets[order]
        numbers, starts = np.unique(partitions, return_index=True)
        for number, own in zip(numbers, np.split(offsets, starts[1:]), strict=True):
            found[address, int(number)] = _count(own)
    return found


def _count(offsets: NDArray[np.int64]) -> Count:
    """Count sorted offsets."""
    steps = np.diff(offsets)
    (places,) = np.nonzero(steps > 1)
    longest = np.sort(places[np.argsort(-steps[places], kind="stable")[:_GAPS]])
    gaps = tuple((int(offsets[place]) + 1, int(offsets[place + 1])) for place in longest)
    return Count(len(offsets), int(np.count_nonzero(steps)) + 1, int(offsets[0]), int(offsets[-1]), gaps)


def _offsets(path: Path) -> pa.Table:
    try:
        with pq.ParquetFile(path) as file:
            return file.read(columns=["partition", "offset"])
    except FileNotFoundError:
        raise PipelineError(f"{path} is missing") from None
    except (pa.ArrowException, OSError, ValueError) as error:
        raise PipelineError(f"{path} cannot be read as Parquet: {str(error).splitlines()[0]}") from None


def with_row_counts(ranges: Sequence[Range], counts: Counts) -> list[Range]:
    """The ranges with the number of their rows."""

    def rows(each: Range) -> int:
        held = counts.get((each.address, each.partition))
        return 0 if each.gap_reason or held is None else held.rows

    return [replace(each, rows=rows(each)) for each in ranges]


def gaps(ranges: Sequence[Range], counts: Counts) -> list[Range]:
    """Offsets of ranges without rows, at both ends and the longest in between: the log has to be asked about them."""
    found = []
    for each in ranges:
        if each.gap_reason or each.start == each.end:
            continue
        held = counts.get((each.address, each.partition))
        if held is None:
            found.append(each)
            continue
        spans = [(each.start, held.first), *held.gaps, (held.last + 1, each.end)]
        found += [replace(each, start=start, end=end, rows=0) for start, end in spans if start < end]
    return found


def row_mistakes(ranges: Sequence[Range], counts: Counts) -> list[str]:
    """How the rows differ from the ranges of one commit: duplicates, rows outside of them, too many, too few."""
    expected = {(each.address, each.partition): each for each in ranges if not each.gap_reason}
    found = []
    for place in sorted({*expected, *counts}):
        held = counts.get(place, Count(0, 0, -1, -1))
        wanted = expected.get(place)
        name = place_name(place)
        if wanted is None:
            found.append(f"{name}: {held.rows} rows that no range of the commit speaks of")
            continue
        if held.rows != wanted.rows:
            found.append(f"{name}: {held.rows} rows in the files, {wanted.rows} in the manifest")
        if held.rows != held.distinct:
            found.append(f"{name}: {held.rows - held.distinct} offsets are there more than once")
        if held.rows and (held.first < wanted.start or held.last >= wanted.end):
            span = f"{wanted.start} to {wanted.end - 1}"
            found.append(f"{name}: offsets {held.first} to {held.last} are outside of {span}")
    return found
