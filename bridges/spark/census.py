"""What Parquet files of the archive hold: offsets per address and partition, counted from the files themselves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bridges.spark.errors import PipelineError
from bridges.spark.ranges import Range

Counts = Mapping[tuple[str, int], tuple[int, int, int, int]]
"""Per address and partition: rows, different offsets, the first, the last."""


def census(files: Iterable[tuple[str, Path]]) -> Counts:
    """Count what is in files of these addresses; raises `PipelineError` for one that cannot be read."""
    tables: dict[str, list[Any]] = {}
    for address, path in files:
        tables.setdefault(address, []).append(_offsets(path))
    found = {}
    for address, parts in tables.items():
        groups = pa.concat_tables(parts).group_by("partition")
        wanted = [("offset", "count"), ("offset", "count_distinct"), ("offset", "min"), ("offset", "max")]
        for row in groups.aggregate(wanted).to_pylist():
            numbers = row["offset_count"], row["offset_count_distinct"], row["offset_min"], row["offset_max"]
            found[address, row["partition"]] = numbers
    return found


def _offsets(path: Path) -> Any:
    try:
        with pq.ParquetFile(path) as file:
            return file.read(columns=["partition", "offset"])
    except FileNotFoundError:
        raise PipelineError(f"{path} is missing") from None
    except (pa.ArrowException, OSError, ValueError) as error:
        raise PipelineError(f"{path} cannot be read as Parquet: {str(error).splitlines()[0]}") from None


def counted(ranges: Sequence[Range], counts: Counts) -> list[Range]:
    """The ranges with their rows."""

    def rows(each: Range) -> int:
        return 0 if each.fate else counts.get((each.address, each.partition), (0,))[0]

    return [replace(each, rows=rows(each)) for each in ranges]


def mistakes(ranges: Sequence[Range], counts: Counts) -> list[str]:
    """Where rows are not what the ranges say: twice, outside, too many or too few. `ranges` are those of one commit."""
    expected = {(each.address, each.partition): each for each in ranges if not each.fate}
    found = []
    for place in sorted({*expected, *counts}):
        rows, distinct, first, last = counts.get(place, (0, 0, -1, -1))
        wanted = expected.get(place)
        name = f"{place[0]}, partition {place[1]}"
        if wanted is None:
            found.append(f"{name}: {rows} rows that no range of the commit speaks of")
            continue
        if rows != wanted.rows:
            found.append(f"{name}: {rows} rows in the files, {wanted.rows} in the manifest")
        if rows != distinct:
            found.append(f"{name}: {rows - distinct} offsets are there more than once")
        if rows and (first < wanted.start or last >= wanted.end):
            found.append(f"{name}: offsets {first} to {last} are outside of {wanted.start} to {wanted.end - 1}")
    return found
