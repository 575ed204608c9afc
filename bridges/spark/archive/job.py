"""The job of the archive: it adds commits until the manifest has reached the end of the logs (docs/pipeline.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from bridges.spark.archive.audit import Counts, count_files, gaps, partition_name, row_differences, with_row_counts
from bridges.spark.archive.decode import count_unknown
from bridges.spark.archive.manifest.history import History
from bridges.spark.archive.ranges import Log, Range, Refused, next_ranges
from bridges.spark.archive.store import Archive, Commit, file_url
from bridges.spark.errors import PipelineError, sentence

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from bridges.spark.archive.written import WriteMonitor, WriteReport

_FIRST_FILE: Final = 100_000
"""Rows of a file while the size of rows is unknown."""
_LEAST_ROWS: Final = 100


class ArchiveOrigin(Protocol):
    """Source of the events of an archive."""

    def logs(self) -> Iterable[Log]:
        """The logs as they are now."""

    def rows(self, spark: SparkSession, ranges: Sequence[Range], monitor: WriteMonitor | None = None) -> DataFrame:
        """The events of these ranges; `monitor` sees each batch of them in the task that writes it."""

    def holding(self, gaps: Sequence[Range]) -> Iterable[Range]:
        """Those of these ranges without written events in which the log has an event; asks the log again."""


@dataclass(frozen=True)
class LogBounds:
    """Limits of a commit, and what ends the job."""

    offsets: int = 500_000
    """Maximum number of offsets in one commit."""
    file_bytes: int = 128 * 1024 * 1024
    """Approximate maximum size of a file, estimated from the rows archived so far."""
    fail_on_loss: bool = True
    fail_on_unknown: bool = False
    """Whether a record of an unknown mapping ends the job; otherwise it is archived and counted."""


def commit_next(spark: SparkSession, archive: Archive, origin: ArchiveOrigin, bounds: LogBounds) -> Commit | None:
    """Add one commit of new events within the bounds; `None` if there are none. Call it within `archive.writing()`.

    Raises `PipelineError`, which leaves the archive unchanged.
    """
    history = archive.history()
    try:
        ranges = next_ranges(history.ends, origin.logs(), bounds.offsets, fail_on_loss=bounds.fail_on_loss)
    except Refused as error:
        raise PipelineError(str(error)) from None
    if not ranges:
        return None
    number = history.number + 1
    staging = archive.stage(number)
    try:
        report, unknown = _write(spark, origin, ranges, staging, _rows_per_file(history, bounds.file_bytes))
        if unknown and bounds.fail_on_unknown:
            raise PipelineError(f"{unknown} records have a mapping of a newer version: update scopegate")
        files = archive.staged(staging, number)
        counts = count_files((file.address, source) for source, file in files)
        ranges = with_row_counts(ranges, counts)
        _compare(archive, origin, ranges, report, counts)
        return archive.commit(number, staging, ranges, files, unknown)
    except PipelineError:
        raise
    except Exception as error:  # of Spark, of Java, of the disk
        raise PipelineError(f"commit {number}: {sentence(error)}") from error


def _write(
    spark: SparkSession, origin: ArchiveOrigin, ranges: Sequence[Range], staging: Path, rows: int
) -> tuple[WriteReport, int]:
    """Write the rows of these ranges; returns the tasks' report and the number of rows of an unknown mapping."""
    from pyspark.sql import Observation

    from bridges.spark.archive.written import Token, WriteMonitor, WriteReport

    present = [each for each in ranges if each.start < each.end and not each.gap_reason]
    if not present:
        return WriteReport({}), 0
    seen, place = Observation("archive"), staging.with_suffix(".token")
    monitor = WriteMonitor(spark, Token.left(place))
    frame = origin.rows(spark, present, monitor).observe(seen, count_unknown().alias("unknown"))
    frame = frame.sortWithinPartitions("address", "date", "partition", "offset")
    writer = frame.write.partitionBy("address", "date").option("maxRecordsPerFile", rows)
    try:
        writer.parquet(file_url(staging))
    finally:
        place.unlink(missing_ok=True)
    return monitor.report(), int(seen.get["unknown"])


def _compare(
    archive: Archive, origin: ArchiveOrigin, ranges: Sequence[Range], report: WriteReport, counts: Counts
) -> None:
    """Raise `PipelineError` unless the tasks' report, the files and the log agree."""
    from bridges.spark.archive.written import check_apart, differences

    check_apart(report, archive.path)
    if different := differences(report, counts):
        raise PipelineError(
            f"{archive.path.absolute()} lacks some of what was written, nothing is committed: {'; '.join(different)}"
        )
    if different := row_differences(ranges, counts):
        raise PipelineError(f"Spark did not write what was requested: {'; '.join(different)}")
    if missed := list(origin.holding(gaps(ranges, counts))):
        text = "; ".join(f"{partition_name((each.address, each.partition))}: offset {each.start}" for each in missed)
        raise PipelineError(f"Spark skipped events that the log has, nothing is committed: {text}")


def _rows_per_file(history: History, size: int) -> int:
    latest = history.recent[-8:]
    rows = sum(commit.rows for commit in latest)
    stored = sum(file.bytes for commit in latest for file in commit.files)
    if not stored:
        rows, stored = history.summary.totals.rows, history.summary.totals.bytes
    return max(size * rows // stored, _LEAST_ROWS) if rows and stored else _FIRST_FILE


def run(
    spark: SparkSession,
    archive: Archive,
    origin: ArchiveOrigin,
    bounds: LogBounds,
    *,
    on_progress: Callable[[Commit], None],
    over: Callable[[], bool],
    stopped: Callable[[], bool],
    follow: Callable[[], None] = lambda: None,
) -> bool:
    """Archive until `over` returns true, asked when nothing is new, or `stopped`, asked before each commit.

    `follow` is called at the start and after each commit. Returns whether the end of the logs was reached.
    """
    with archive.writing():
        follow()
        while not stopped():
            commit = commit_next(spark, archive, origin, bounds)
            if commit is not None:
                follow()
                on_progress(commit)
            elif over():
                return True
        return False
