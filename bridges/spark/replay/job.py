"""Replay: archived events sent again, in the order they had in each partition (docs/pipeline.md).

To a topic, the tasks of one Spark job read the files and write to Kafka (`task`); the driver plans, reports progress
and stops the tasks. To an AMQP address, the driver reads and sends, and no Spark is needed.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

import pyarrow as pa

from bridges.kafka.produce.replayer import ProgressReader, ReplayTarget, StopRequest
from bridges.spark.archive.contents.messages import MESSAGE_COLUMNS, SOURCES, with_messages
from bridges.spark.archive.read import ArchiveSelection, check_offsets
from bridges.spark.archive.store import Archive, Commit
from bridges.spark.errors import PipelineError, sentence
from bridges.spark.replay.pace import Pace
from bridges.spark.replay.plan import Layer, TaskShare, layers, share, source_files
from bridges.spark.replay.selection import RowSelection
from bridges.spark.replay.task import ReplayJob, run_all, selected_rows
from gateway.errors import AmqpError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOOK: Final = 1.0
"""Interval of progress reports, in seconds."""
_MESSAGE: Final = (*SOURCES, *MESSAGE_COLUMNS)


class ReplayAddress(Protocol):
    """An AMQP target: writes rows, and has the progress of earlier runs of the same name."""

    @property
    def progress(self) -> Mapping[int, int]: ...
    def write(self, rows: pa.RecordBatch, stopped: Callable[[], bool], on_progress: Callable[[int], None]) -> int: ...


def check(archive: Archive, selection: ArchiveSelection) -> list[Layer]:
    """The files with the selected events. Raises `PipelineError` if the archive has none, or for an invalid filter."""
    RowSelection(selection, {})  # an invalid filter is told before Spark starts
    if len(selection.addresses) != 1:
        raise PipelineError("name one address of the archive to replay (--from)")
    (address,), commits = selection.addresses, archive.placed()
    if not any(each.address == address and each.rows for commit in commits for each in commit.ranges):
        raise PipelineError(f"the archive has no events of {address} ({_addresses(commits)})")
    check_offsets(commits, address, selection.offsets)
    return layers(source_files(commits, address, selection.dates(), selection.offsets))


def source_of(archive: Archive, selection: ArchiveSelection) -> str:
    """A name of the log whose events are selected; a replay of another log has other progress."""
    (address,) = selection.addresses
    logs = {end.identity for (name, _), end in archive.readable().ends.items() if name == address and end.identity}
    return f"{address} ({', '.join(sorted(logs))})" if logs else address


def _addresses(commits: list[Commit]) -> str:
    known = sorted({each.address for commit in commits for each in commit.ranges})
    return f"it has: {', '.join(known)}" if known else "it is empty"


def count(archive: Archive, selection: ArchiveSelection) -> int:
    """The number of selected events. Raises `PipelineError`."""
    found = check(archive, selection)
    return sum(map(len, selected_rows(archive.path, found, selection, {}, ())))


def send_messages(
    archive: Archive,
    selection: ArchiveSelection,
    target: ReplayAddress,
    pace: Pace,
    on_progress: Callable[[int], None],
) -> int:
    """Send the selected messages that were not sent by earlier runs; returns their number.

    `on_progress` is called with the number so far. Raises `PipelineError`.
    """
    sent = 0
    found = check(archive, selection)
    for batch in selected_rows(archive.path, found, selection, target.progress, _MESSAGE):
        for first in range(0, len(batch), pace.batch):
            if not pace.wait(sent):
                return sent
            rows = with_messages(batch.slice(first, pace.batch))
            sent += target.write(rows, pace.stopped, partial(_add, on_progress, sent))
    return sent


def _add(on_progress: Callable[[int], None], before: int, sent: int) -> None:
    on_progress(before + sent)


def write_records(
    spark: SparkSession,
    archive: Archive,
    selection: ArchiveSelection,
    target: ReplayTarget,
    *,
    rate: float | None,
    stop: threading.Event,
    on_progress: Callable[[int], None],
) -> int:
    """Write the selected events that were not written by earlier runs to a topic; returns their number.

    Call `fence` first. Raises `PipelineError`; a later run of the same name continues.
    """
    found = check(archive, selection)
    reader = ProgressReader(target)
    try:
        before = reader.read()
        shares = share(found, target.writer_of, before.next_offsets, spark.sparkContext.defaultParallelism)
        job = ReplayJob(archive.path.absolute(), selection, target, uuid.uuid4().hex, rate)
        _run(spark, job, shares, stop, partial(_report, reader, before.written, on_progress))
        return reader.read().written - before.written
    except AmqpError as error:
        raise PipelineError(error.description) from None
    finally:
        reader.close()


def _report(reader: ProgressReader, before: int, on_progress: Callable[[int], None]) -> None:
    if written := reader.read().written - before:
        on_progress(written)


def _run(
    spark: SparkSession, job: ReplayJob, shares: list[TaskShare], stop: threading.Event, report: Callable[[], None]
) -> None:
    """Run the tasks, and report the progress until they have ended. Raises `PipelineError`."""
    if not shares:
        return
    running = _Running(spark, job, shares)
    asked = False
    while not running.over.wait(_LOOK):
        report()
        if stop.is_set() and not asked:
            asked = True
            _ask(job)
    report()
    if running.error is not None:
        raise PipelineError(sentence(running.error)) from running.error


def _ask(job: ReplayJob) -> None:
    request = StopRequest(job.target, job.run)
    try:
        request.ask()
    finally:
        request.close()


class _Running:
    """The Spark job in a separate thread, so that the main thread handles signals."""

    def __init__(self, spark: SparkSession, job: ReplayJob, shares: list[TaskShare]) -> None:
        from pyspark import InheritableThread

        self.over: Final = threading.Event()
        self.error: Exception | None = None
        self._spark, self._job, self._shares = spark, job, shares
        InheritableThread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        try:
            tasks = self._spark.sparkContext.parallelize(self._shares, len(self._shares))
            tasks.mapPartitions(partial(run_all, self._job)).collect()
        except Exception as error:  # from Spark or Java, for the main thread
            self.error = error
        finally:
            self.over.set()
