"""Compares the tasks' reports with the ranges of their commit, and with the files that the driver sees."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from bridges.spark.archive.contents.audit import Count, Counts, partition_name
from bridges.spark.archive.storage.paths import StoragePath, is_of_storage, readable
from bridges.spark.archive.write.chunks import Chunk
from bridges.spark.archive.write.files import FileReport
from bridges.spark.archive.write.task import RangeReport, TaskReport, longest
from bridges.spark.errors import PipelineError
from gateway.plural import counted


def check_apart(reports: Iterable[TaskReport], folder: StoragePath) -> None:
    """Raise `PipelineError` if a task did not find the token in the archive's folder."""
    for place in sorted({each.apart for each in reports if each.apart}):
        same = "every machine of the job needs the same folder at this path"
        if not isinstance(folder, Path):
            same = "every machine of the job needs the same endpoint, and credentials that may write there"
        raise PipelineError(
            f"a worker of Spark cannot reach the archive: for the one at {place}, {folder.absolute()} is another "
            f"folder or none; {same}"
        )


def row_counts(reports: Iterable[TaskReport]) -> Counts:
    """The number of rows that the tasks have written, by address and partition."""
    by_partition: dict[tuple[str, int], list[RangeReport]] = {}
    for each in (each for report in reports for each in report.ranges if each.rows):
        by_partition.setdefault((each.address, each.partition), []).append(each)
    return {key: _joined(sorted(parts, key=lambda each: each.start)) for key, parts in by_partition.items()}


def _joined(parts: Sequence[RangeReport]) -> Count:
    rows = sum(each.rows for each in parts)
    between = [(one.last + 1, other.first) for one, other in pairwise(parts)]
    gaps = [gap for each in parts for gap in each.gaps] + [gap for gap in between if gap[0] < gap[1]]
    return Count(rows, rows, parts[0].first, parts[-1].last, longest(gaps))


def unreported(chunks: Iterable[Chunk], reports: Iterable[TaskReport]) -> list[str]:
    """Errors for ranges that are not both requested and reported exactly once."""
    requested = Counter((each.address, each.partition, each.start, each.end) for chunk in chunks for each in chunk)
    reported = Counter(each[:4] for report in reports for each in report.ranges)
    counts = {key: (requested[key], reported[key]) for key in sorted({*requested, *reported})}
    return [
        f"{partition_name(key[:2])}: offsets {key[2]} to {key[3] - 1} are {_times(*times)}"
        for key, times in counts.items()
        if times != (1, 1)
    ]


def _times(requested: int, reported: int) -> str:
    asked = "" if requested == 1 else f"requested {requested} times and "
    return f"{asked}reported {reported} times"


def file_differences(reports: Iterable[TaskReport], base: StoragePath) -> list[str]:
    """Differences between the files that the driver finds and the tasks' reports. Raises `OSError`."""
    found: list[str] = []
    for report in reports:
        found += _rows_in_no_file(report)
        for file in report.files:
            found += _differences(base / file.name, file)
    return found


def _rows_in_no_file(report: TaskReport) -> list[str]:
    """Errors for partitions of a task whose rows are not all in its files."""
    in_files: dict[tuple[str, int], int] = {}
    for file in report.files:
        for each in file.partitions:
            key = file.address, each.partition
            in_files[key] = in_files.get(key, 0) + each.rows
    read = {(each.address, each.partition): each.rows for each in report.ranges if each.rows}
    return [
        f"{partition_name(key)}: events read: {read.get(key, 0)}, in files: {in_files.get(key, 0)}"
        for key in sorted({*read, *in_files})
        if read.get(key, 0) != in_files.get(key, 0)
    ]


def _differences(path: StoragePath, file: FileReport) -> list[str]:
    """Differences between a file and its report. Raises `OSError` if the storage fails."""
    where = f"{file.address}, a file of {counted(file.rows, 'event')} and {file.bytes} bytes"
    try:
        size = path.stat().st_size
        metadata = pq.read_metadata(readable(path))
    except FileNotFoundError:
        return [f"{where} is missing"]
    except (OSError, pa.ArrowException) as error:
        if is_of_storage(error):
            raise
        return [f"{where} cannot be read: {str(error).splitlines()[0]}"]
    if (size, metadata.num_rows) != (file.bytes, file.rows):
        return [f"{where} has {counted(metadata.num_rows, 'event')} and {size} bytes"]
    bounds = min(each.first for each in file.partitions), max(each.last for each in file.partitions)
    if (stored := _offsets(metadata)) != bounds:
        return [f"{where} has offsets {stored[0]} to {stored[1]}, not {bounds[0]} to {bounds[1]}"]
    return []


def _offsets(metadata: pq.FileMetaData) -> tuple[int, int]:
    """The smallest and the largest offset in a file, from its footer."""
    index = metadata.schema.names.index("offset")
    statistics = [metadata.row_group(each).column(index).statistics for each in range(metadata.num_row_groups)]
    return min(each.min for each in statistics), max(each.max for each in statistics)


def unknown_rows(reports: Iterable[TaskReport]) -> int:
    """The number of rows with an unknown record mapping."""
    return sum(each.unknown for each in reports)
