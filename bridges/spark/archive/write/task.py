"""The task of an archive job: reads its ranges of the log, writes files, and reports both.

The driver sees only its own file system. A worker with another folder at the archive's path would write there without
an error. So the driver writes a token to the folder. A task that does not find it writes nothing and reports where it
runs.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from bridges.spark.archive.contents.audit import partition_name
from bridges.spark.archive.contents.file_layout import stored
from bridges.spark.archive.contents.ranges import Range
from bridges.spark.archive.contents.token import Token
from bridges.spark.archive.write.chunks import Chunk
from bridges.spark.archive.write.files import DatedFiles, FileLimits, FileReport
from bridges.spark.archive.write.targets import FileTarget
from bridges.spark.columns.batch_decoder import Int64s
from bridges.spark.errors import PipelineError, sentence

_GAPS: Final = 8
"""Maximum number of reported gaps of a range, longest first; transaction markers make thousands of short ones."""


class ArchiveBatch(NamedTuple):
    """Rows of one address, in which the offsets of each partition ascend: docs/columns.md, and `record`."""

    address: str
    rows: pa.RecordBatch
    unknown: int = 0
    """The number of rows with an unknown record mapping."""


class RangeSource(Protocol):
    """Reads ranges in a task; it is sent there from the driver."""

    def batches(self, ranges: Sequence[Range]) -> Iterable[ArchiveBatch]:
        """The events of these ranges. Raises `PipelineError`."""


class RangeReport(NamedTuple):
    """The rows of a range: their number, first and last offset, and the longest gaps between them, [start, end)."""

    address: str
    partition: int
    start: int
    end: int
    rows: int = 0
    first: int = -1
    last: int = -1
    gaps: tuple[tuple[int, int], ...] = ()


class TaskReport(NamedTuple):
    """The result of one task."""

    ranges: tuple[RangeReport, ...] = ()
    files: tuple[FileReport, ...] = ()
    unknown: int = 0
    apart: str = ""
    """Where the task ran, if it did not find the token."""


@dataclass(frozen=True)
class WriteTask:
    """The function for `mapPartitions`: a report for each chunk."""

    source: RangeSource
    target: FileTarget
    token: Token
    limits: FileLimits

    def __call__(self, chunks: Iterable[Chunk]) -> Iterator[TaskReport]:
        for chunk in chunks:
            yield self.write(chunk)

    def write(self, chunk: Chunk) -> TaskReport:
        """Write the events of these ranges. Raises `PipelineError`."""
        if (problem := self._problem()) is not None:
            return TaskReport(apart=f"{_here()} ({problem})")
        files, counts = DatedFiles(self.target, self.limits), _RangeCounts(chunk)
        unknown = 0
        try:
            for batch in self.source.batches(chunk):
                counts.add(batch)
                unknown += batch.unknown
                files.add(batch.address, stored(batch.rows))
            return TaskReport(counts.reports(), files.close(), unknown)
        except OSError as error:
            raise PipelineError(sentence(error)) from None
        finally:
            with suppress(OSError):
                files.abandon()

    def _problem(self) -> str | None:
        try:
            return self.token.problem()
        except OSError as error:
            raise PipelineError(f"the worker of Spark at {_here()}: {sentence(error)}") from None


def _here() -> str:
    """Where this task runs."""
    return f"{socket.gethostname()}, working directory {os.getcwd()}"


class _RangeCounts:
    """Counts the rows of each range while they are written."""

    def __init__(self, ranges: Sequence[Range]) -> None:
        self._reports = {
            (each.address, each.partition): RangeReport(each.address, each.partition, each.start, each.end)
            for each in ranges
        }

    def add(self, batch: ArchiveBatch) -> None:
        """Count rows. Raises `PipelineError` for rows outside the ranges or out of order."""
        partitions = batch.rows.column("partition").to_numpy()
        offsets = batch.rows.column("offset").to_numpy()
        cuts = np.flatnonzero(np.diff(partitions)) + 1
        for part in np.split(np.arange(len(partitions)), cuts):
            if len(part):
                self._add((batch.address, int(partitions[part[0]])), offsets[part])

    def _add(self, key: tuple[str, int], offsets: Int64s) -> None:
        before = self._reports.get(key)
        if before is None:
            raise PipelineError(f"{partition_name(key)}: rows that were not requested")
        first, last = int(offsets[0]), int(offsets[-1])
        steps = np.diff(offsets, prepend=before.last if before.rows else first - 1)
        if steps.min() < 1 or first < before.start or last >= before.end:
            requested = f"offsets {before.start} to {before.end - 1}"
            raise PipelineError(f"{partition_name(key)}: rows are repeated or outside of {requested}")
        (places,) = np.nonzero(steps > 1)
        gaps = [(int(offsets[place] - steps[place]) + 1, int(offsets[place])) for place in places.tolist()]
        self._reports[key] = before._replace(
            rows=before.rows + len(offsets),
            first=before.first if before.rows else first,
            last=last,
            gaps=longest((*before.gaps, *gaps)),
        )

    def reports(self) -> tuple[RangeReport, ...]:
        """One report for each range."""
        return tuple(self._reports.values())


def longest(gaps: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """The longest gaps, in the order of their offsets."""
    found = sorted(gaps, key=lambda gap: gap[0] - gap[1])[:_GAPS]
    return tuple(sorted(found))
