"""The job of the archive: it adds commits until the manifest has reached the end of the logs (docs/pipeline.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bridges.spark.archive.contents.audit import Counts, gaps, partition_name, row_differences, with_row_counts
from bridges.spark.archive.contents.ranges import Range, Refused, check_identities, next_ranges
from bridges.spark.archive.contents.token import Token
from bridges.spark.archive.maintenance.compaction import place_due
from bridges.spark.archive.manifest.history import History
from bridges.spark.archive.monitoring.outages import Outages, is_outage
from bridges.spark.archive.monitoring.progress import ArchiveObserver, MeteredOrigin, ProgressMeter
from bridges.spark.archive.store import Archive, Commit, File
from bridges.spark.archive.write.check import check_apart, file_differences, row_counts, unknown_rows, unreported
from bridges.spark.archive.write.chunks import Chunk, chunks
from bridges.spark.archive.write.files import FileLimits, FileReport, folder_of
from bridges.spark.archive.write.origin import ArchiveOrigin
from bridges.spark.archive.write.sizes import offsets_within, record_bytes, sampled
from bridges.spark.archive.write.targets import FileTarget
from bridges.spark.archive.write.task import TaskReport, WriteTask
from bridges.spark.errors import PipelineError, failure, sentence
from gateway.plural import counted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class LogBounds:
    """Limits of a commit, and the conditions that end the job."""

    offsets: int = 500_000
    """Maximum number of offsets in one commit."""
    file_bytes: int = 128 * 1024 * 1024
    """Approximate maximum size of a file."""
    fail_on_loss: bool = True
    fail_on_unknown: bool = False
    """Whether a record of an unknown mapping ends the job; otherwise it is archived and counted."""
    commit_bytes: int = 1 << 30
    """Approximate maximum size of the events of a commit, estimated from the commits before it."""


def commit_next(spark: SparkSession, archive: Archive, origin: ArchiveOrigin, bounds: LogBounds) -> Commit | None:
    """Add one commit of new events within the bounds; `None` if there are none. Call it within `archive.writing()`.

    Raises `PipelineError`, which leaves the archive unchanged.
    """
    history = archive.history()
    try:
        ranges, sizes = _next(history, origin, bounds)
    except Refused as error:
        raise PipelineError(str(error)) from None
    if not ranges:
        return None
    number = history.number + 1
    staging = archive.stage(number)
    target = archive.writer.target(staging)
    try:
        parts = chunks(_present(ranges), spark.sparkContext.defaultParallelism, sizes)
        reports = _write(spark, archive, origin, parts, target, bounds.file_bytes)
        unknown = unknown_rows(reports)
        if unknown and bounds.fail_on_unknown:
            what = counted(unknown, "record has", "records have")
            raise PipelineError(f"{what} a mapping of a newer version: update scopegate")
        counts = row_counts(reports)
        ranges = with_row_counts(ranges, counts)
        _compare(origin, ranges, counts)
        check_identities(ranges, origin.identities({each.address for each in ranges}))
        return archive.commit(number, staging, ranges, _placed(number, reports, target), unknown)
    except Refused as error:
        raise PipelineError(str(error)) from None
    except PipelineError:
        raise
    except Exception as error:  # from Spark, Java or the disk
        raise failure(f"commit {number}", error) from error


def _next(history: History, origin: ArchiveOrigin, bounds: LogBounds) -> tuple[list[Range], Mapping[str, float]]:
    """The ranges of the next commit, and bytes per offset by address. Raises `Refused` and `PipelineError`."""
    logs = list(origin.logs())
    ranges = next_ranges(history.ends, logs, bounds.offsets, fail_on_loss=bounds.fail_on_loss)
    present, known = _present(ranges), record_bytes(history)
    known |= sampled(origin.source(), present, known)
    offsets = offsets_within(present, known, bounds.commit_bytes)
    if offsets < sum(each.end - each.start for each in present):
        ranges = next_ranges(history.ends, logs, offsets, fail_on_loss=bounds.fail_on_loss)
    return ranges, known


def _present(ranges: Sequence[Range]) -> list[Range]:
    """The ranges with offsets that can be read."""
    return [each for each in ranges if each.start < each.end and not each.gap_reason]


def _write(
    spark: SparkSession, archive: Archive, origin: ArchiveOrigin, parts: Sequence[Chunk], target: FileTarget,
    file_bytes: int,
) -> list[TaskReport]:
    """Write the events of these ranges, divided among tasks; returns the tasks' reports, which agree with the files.

    Raises `PipelineError` if they do not.
    """
    if not parts:
        return []
    target.begin()
    task = WriteTask(origin.source(), target, Token.left(target.token), FileLimits(file_bytes))
    try:
        reports: list[TaskReport] = spark.sparkContext.parallelize(parts, len(parts)).mapPartitions(task).collect()
    finally:
        target.release()
    check_apart(reports, archive.path)
    if different := unreported(parts, reports) + file_differences(reports, target.base):
        raise PipelineError(
            f"{archive.path.absolute()} lacks some of what was written, nothing is committed: {'; '.join(different)}"
        )
    return reports


def _compare(origin: ArchiveOrigin, ranges: Sequence[Range], counts: Counts) -> None:
    """Raise `PipelineError` unless the rows are those of the ranges, and the log has no event between them."""
    if different := row_differences(ranges, counts):
        raise PipelineError(f"the tasks did not write what was requested: {'; '.join(different)}")
    if missed := list(origin.holding(gaps(ranges, counts))):
        text = "; ".join(f"{partition_name((each.address, each.partition))}: offset {each.start}" for each in missed)
        raise PipelineError(f"the tasks skipped events that the log has, nothing is committed: {text}")


def _placed(number: int, reports: Sequence[TaskReport], target: FileTarget) -> list[tuple[Path | None, File]]:
    """The files that were written, with their final paths."""
    files = [file for report in reports for file in report.files]
    files.sort(key=lambda file: (file.address, str(file.date)))
    places = (target.place(file.name, folder_of(file), number, index) for index, file in enumerate(files))
    return [(source, _file(place, file)) for (source, place), file in zip(places, files, strict=True)]


def _file(place: str, file: FileReport) -> File:
    return File(place, file.bytes, file.sha256, file.partitions, file.first_ms, file.last_ms)


def run(
    spark: SparkSession, archive: Archive, origin: ArchiveOrigin, bounds: LogBounds,
    *,
    observer: ArchiveObserver, meter: ProgressMeter, outages: Outages,
    over: Callable[[], bool], stopped: Callable[[], bool],
    follow: Callable[[], None] = lambda: None, watch: Callable[[], None] = lambda: None,
) -> bool:  # fmt: skip
    """Archive until `over` (called when there is nothing new) or `stopped` (called before each commit) returns true.

    `follow` is called at the start and after each commit; `watch` after each step, which has found that the logs
    continue the archive. Outages are waited out. Returns whether the end of the logs was reached. Raises
    `PipelineError` if the logs cannot be continued, Spark has died, or an outage lasts too long.
    """
    metered = MeteredOrigin(origin, meter)
    with archive.writing():
        while not stopped():
            try:
                meter.begin()
                commit = _step(spark, archive, metered, bounds, follow)
                if commit is not None:
                    observer.committed(meter.measured(commit, archive.history().ends))
                watch()
            except PipelineError as error:
                if stopped() and is_outage(error):  # the signal has reached Spark as well; nothing is committed
                    break
                if not is_outage(error) or not is_alive(spark) or not outages.wait(error):
                    raise
                with suppress(OSError, PipelineError):
                    archive.tidy()
                continue
            outages.over()
            if commit is None:
                observer.idle()
                if over():
                    return True
        return False


def _step(
    spark: SparkSession, archive: Archive, origin: ArchiveOrigin, bounds: LogBounds, follow: Callable[[], None]
) -> Commit | None:
    try:
        follow()
        for _ in place_due(archive):
            follow()
        commit = commit_next(spark, archive, origin, bounds)
        if commit is not None:
            follow()
    except OSError as error:  # from the archive's storage
        raise PipelineError(sentence(error)) from error
    return commit


def is_alive(spark: SparkSession) -> bool:
    """Whether the session can still run jobs."""
    try:
        return not spark.sparkContext._jsc.sc().isStopped()
    except Exception:  # its Java process has died
        return False
