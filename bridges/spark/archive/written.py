"""What the tasks of a commit write, counted by the tasks themselves, and whether they reach the archive's folder.

The driver only sees its own file system: a machine where the archive's folder is another one writes there, and no file
says that anything is missing. So the driver leaves a token in the folder. A task that does not find it hands no row on
and reports where it runs; any other task counts what it hands to the writer. The reports come back with the results of
the tasks (as an accumulator), so an attempt that failed counts nothing.
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

from bridges.spark.archive.audit import Counts, place_name
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
    """What tasks say: the rows by address and partition, and the places of tasks that did not find the token."""

    written: Mapping[tuple[str, int], WrittenCount]
    apart: frozenset[str] = frozenset()


class _Sum(AccumulatorParam[WriteReport]):
    def zero(self, value: WriteReport) -> WriteReport:
        return WriteReport({})

    def addInPlace(self, value1: WriteReport, value2: WriteReport) -> WriteReport:
        found = dict(value1.written)
        for place, more in value2.written.items():
            before = found.get(place)
            found[place] = more if before is None else _both(before, more)
        return WriteReport(found, value1.apart | value2.apart)


def _both(one: WrittenCount, other: WrittenCount) -> WrittenCount:
    return WrittenCount(one.rows + other.rows, min(one.first, other.first), max(one.last, other.last))


class Token(NamedTuple):
    """A file in the archive's folder, and what it says."""

    path: str
    text: str

    @classmethod
    def left(cls, path: Path) -> Token:
        """Write a new one; raises `OSError`."""
        token = cls(str(path.absolute()), secrets.token_hex(16))
        path.write_text(token.text)
        return token

    @classmethod
    def shared(cls, path: Path) -> Token:
        """The one that is there, or a new one, for all who ask at once; raises `OSError`."""
        token = cls(str(path.absolute()), secrets.token_hex(16))
        mine = path.with_name(f"{path.name}-{token.text}")
        try:
            mine.write_text(token.text)
            _link(mine, path)
            return cls(token.path, path.read_text())
        finally:
            mine.unlink(missing_ok=True)

    def seen(self) -> bool:
        """Whether it is there, for the process that asks."""
        try:
            return Path(self.path).read_text() == self.text
        except OSError:
            return False


def _link(mine: Path, path: Path) -> None:
    """Have `path` whole or not at all, and leave it where it is there."""
    try:
        os.link(mine, path)
    except FileExistsError:
        return
    except OSError:  # of a file system without hard links
        if not path.exists():
            mine.replace(path)


class WriteMonitor:
    """Handed to the tasks of one commit."""

    def __init__(self, spark: SparkSession, token: Token) -> None:
        self._token: Final = token
        self._reports: Accumulator[WriteReport] = spark.sparkContext.accumulator(WriteReport({}), _Sum())

    def monitored(self, batches: Iterator[pa.RecordBatch], address: str | None = None) -> Iterator[pa.RecordBatch]:
        """The record batches of a task, counted; none without the token. Without `address` they have a column of it."""
        if not self._token.seen():
            self._reports.add(WriteReport({}, frozenset({f"{socket.gethostname()}, working directory {os.getcwd()}"})))
            return
        for batch in batches:
            self._reports.add(WriteReport(_counted(batch, address)))
            yield batch

    def report(self) -> WriteReport:
        """What all tasks said; for the driver, behind the job."""
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
    """Raise `PipelineError` where a task did not find the token in the archive's folder."""
    for place in sorted(report.apart):
        raise PipelineError(
            f"a worker of Spark cannot reach the archive: for the one at {place}, {folder.absolute()} is another "
            f"folder or none; every machine of the job needs the same folder at this path"
        )


def differences(report: WriteReport, counts: Counts) -> list[str]:
    """Where the files that were found hold something else than the tasks wrote."""
    found = []
    for place in sorted({*report.written, *counts}):
        wrote = report.written.get(place, WrittenCount(0, -1, -1))
        there = counts.get(place)
        held = WrittenCount(0, -1, -1) if there is None else WrittenCount(there.rows, there.first, there.last)
        if wrote != held:
            found.append(f"{place_name(place)}: the tasks wrote {_said(wrote)}, the files have {_said(held)}")
    return found


def _said(some: WrittenCount) -> str:
    return f"{some.rows} events (offsets {some.first} to {some.last})" if some.rows else "no event"
