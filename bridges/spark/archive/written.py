"""Checks that the tasks of a commit write to the archive's folder, and counts the rows that they write.

The driver only sees its own file system. A worker with another folder at the archive's path would write there, and no
file would be missing. So the driver leaves a token in the folder. A task that does not find it writes no row and
reports where it runs; any other task counts the rows for the writer. The reports come back in an accumulator with the
results of the tasks, so failed attempts count nothing.
"""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa
from pyspark.accumulators import AccumulatorParam

from bridges.spark.archive.audit import Counts, partition_name
from bridges.spark.errors import PipelineError

if TYPE_CHECKING:
    from pyspark import Accumulator
    from pyspark.sql import SparkSession


_NUMBERS: Final = ("count", "min", "max")


class WrittenCount(NamedTuple):
    """Rows of one address and partition that were handed to the writers."""

    rows: int
    first: int
    last: int


class WriteReport(NamedTuple):
    """The tasks' report: rows by address and partition, and where tasks ran that did not find the token."""

    written: Mapping[tuple[str, int], WrittenCount]
    apart: frozenset[str] = frozenset()


class _Sum(AccumulatorParam[WriteReport]):
    def zero(self, value: WriteReport) -> WriteReport:
        return WriteReport({})

    def addInPlace(self, value1: WriteReport, value2: WriteReport) -> WriteReport:
        found = dict(value1.written)
        for place, more in value2.written.items():
            before = found.get(place)
            found[place] = more if before is None else _sum_counts(before, more)
        return WriteReport(found, value1.apart | value2.apart)


def _sum_counts(one: WrittenCount, other: WrittenCount) -> WrittenCount:
    return WrittenCount(one.rows + other.rows, min(one.first, other.first), max(one.last, other.last))


class Token(NamedTuple):
    """A file in the archive's folder, and its content."""

    path: str
    text: str

    @classmethod
    def left(cls, path: Path) -> Token:
        """Write a new token. Raises `OSError`."""
        token = cls(str(path.absolute()), secrets.token_hex(16))
        path.write_text(token.text)
        return token

    @classmethod
    def shared(cls, path: Path) -> Token:
        """The token that exists, or a new one; processes that ask at the same time get the same. Raises `OSError`."""
        token = cls(str(path.absolute()), secrets.token_hex(16))
        mine = path.with_name(f"{path.name}-{token.text}")
        try:
            mine.write_text(token.text)
            _link(mine, path)
            return cls(token.path, path.read_text())
        finally:
            mine.unlink(missing_ok=True)

    def seen(self) -> bool:
        """Whether this process sees the token."""
        try:
            return Path(self.path).read_text() == self.text
        except OSError:
            return False


def _link(mine: Path, path: Path) -> None:
    """Create `path` with its whole content, unless it exists."""
    try:
        os.link(mine, path)
    except FileExistsError:
        return
    except OSError:  # the file system has no hard links
        if not path.exists():
            mine.replace(path)


class WriteMonitor:
    """Counts the rows of one commit within its tasks."""

    def __init__(self, spark: SparkSession, token: Token) -> None:
        self._token: Final = token
        self._reports: Accumulator[WriteReport] = spark.sparkContext.accumulator(WriteReport({}), _Sum())

    def monitored(self, batches: Iterator[pa.RecordBatch], address: str | None = None) -> Iterator[pa.RecordBatch]:
        """Pass on and count a task's batches; none without the token. Without `address`, they have that column."""
        if not self._token.seen():
            self._reports.add(WriteReport({}, frozenset({f"{socket.gethostname()}, working directory {os.getcwd()}"})))
            return
        for batch in batches:
            self._reports.add(WriteReport(_counted(batch, address)))
            yield batch

    def report(self) -> WriteReport:
        """The report of all tasks, for the driver after the job."""
        return self._reports.value


def _counted(batch: pa.RecordBatch, address: str | None) -> Mapping[tuple[str, int], WrittenCount]:
    keys = ["partition"] if address else ["address", "partition"]
    table = pa.Table.from_batches([batch.select([*keys, "offset"])])
    found = table.group_by(keys).aggregate([("offset", each) for each in _NUMBERS])
    return {
        (address or row["address"], row["partition"]): WrittenCount(*(row[f"offset_{each}"] for each in _NUMBERS))
        for row in found.to_pylist()
    }


def check_apart(report: WriteReport, folder: Path) -> None:
    """Raise `PipelineError` if a task did not find the token in the archive's folder."""
    for place in sorted(report.apart):
        raise PipelineError(
            f"a worker of Spark cannot reach the archive: for the one at {place}, {folder.absolute()} is another "
            f"folder or none; every machine of the job needs the same folder at this path"
        )


def differences(report: WriteReport, counts: Counts) -> list[str]:
    """How the files differ from what the tasks wrote."""
    found = []
    for place in sorted({*report.written, *counts}):
        wrote = report.written.get(place, WrittenCount(0, -1, -1))
        counted = counts.get(place)
        in_files = WrittenCount(0, -1, -1)
        if counted is not None:
            in_files = WrittenCount(counted.rows, counted.first, counted.last)
        if wrote != in_files:
            counts_text = f"the tasks wrote {_describe(wrote)}, the files have {_describe(in_files)}"
            found.append(f"{partition_name(place)}: {counts_text}")
    return found


def _describe(some: WrittenCount) -> str:
    return f"{some.rows} events (offsets {some.first} to {some.last})" if some.rows else "no event"
