"""A task of a replay: reads its part of the archive with pyarrow and writes it to the topic (decision 38).

A task has some writers of the replay. Several attempts may run, in sequence or at once: the later one fences the
writers of the earlier one, and continues after their last transactions.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from bridges.kafka.produce.replayer import ReplayTarget, ReplayWriter, StopRequest
from bridges.spark.archive.read import ArchiveSelection
from bridges.spark.archive.storage.paths import StoragePath
from bridges.spark.errors import PipelineError
from bridges.spark.replay.merge import ArchiveFile, merged
from bridges.spark.replay.pace import Pace
from bridges.spark.replay.plan import Layer, TaskShare
from bridges.spark.replay.records import COLUMNS, record_columns
from bridges.spark.replay.selection import RowSelection
from gateway.errors import AmqpError

_BYTES: Final = 16 * 1024 * 1024
"""Approximate size of a transaction, in bytes."""
_ASK: Final = 1.0
"""Seconds between two checks in Kafka whether to stop."""


@dataclass(frozen=True)
class ReplayJob:
    """The settings that all tasks of a run share; sent to them."""

    archive: StoragePath
    selection: ArchiveSelection
    target: ReplayTarget
    run: str
    """The identity of the run."""
    rate: float | None
    """Events per second, of all tasks together."""


def selected_rows(
    archive: StoragePath, layers: Iterable[Layer], selection: ArchiveSelection, next_offsets: Mapping[int, int],
    columns: Iterable[str] = COLUMNS,
) -> Iterator[pa.RecordBatch]:  # fmt: skip
    """The selected rows, each partition in its order. Raises `PipelineError`."""
    rows = RowSelection(selection, next_offsets)
    wanted = rows.columns | frozenset(columns)
    for layer in layers:
        files = [ArchiveFile(archive / file.path, {part.partition for part in file.parts}, wanted) for file in layer]
        for batch in merged(files):
            if len(found := rows.rows(batch)):
                yield found


class _Queue:
    """The rows that wait for the next transaction of one writer."""

    def __init__(self, writer: ReplayWriter) -> None:
        self.writer: Final = writer
        self.batches: list[pa.RecordBatch] = []
        self.rows = 0
        self.bytes = 0

    def add(self, batch: pa.RecordBatch) -> None:
        self.batches.append(batch)
        self.rows += len(batch)
        self.bytes += batch.nbytes

    def take(self, most: int) -> list[pa.RecordBatch]:
        """The next rows for a transaction."""
        found: list[pa.RecordBatch] = []
        rows = size = 0
        while self.batches and rows < most and (not found or size < _BYTES):
            batch = self.batches.pop(0)
            if rows + len(batch) > most:
                self.batches.insert(0, batch.slice(most - rows))
                batch = batch.slice(0, most - rows)
            rows, size = rows + len(batch), size + batch.nbytes
            found.append(batch)
        self.rows -= rows
        self.bytes = sum(batch.nbytes for batch in self.batches)
        return found


class _Run:
    def __init__(self, job: ReplayJob, share: TaskShare, pace: Pace, queues: Mapping[int, _Queue]) -> None:
        self._job, self._share, self._pace, self._queues = job, share, pace, queues
        self._sent = 0

    def run(self) -> int:
        """Send all events, unless the run is stopped; returns the number sent."""
        next_offsets: dict[int, int] = {}
        for queue in self._queues.values():
            next_offsets |= queue.writer.progress  # each writer read the progress of all; the last read is the latest
        for batch in selected_rows(self._job.archive, self._share.layers, self._job.selection, next_offsets):
            for number, rows in self._by_writer(batch):
                self._queues[number].add(rows)
                if not self._drain(self._queues[number], whole=False):
                    return self._sent
        for queue in self._queues.values():
            if not self._drain(queue, whole=True):
                break
        return self._sent

    def _by_writer(self, batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
        partitions = pc.unique(batch.column("partition")).to_pylist()
        writers = {partition: self._job.target.writer_of(partition) for partition in partitions}
        if len(set(writers.values())) == 1:
            yield writers[partitions[0]], batch
            return
        for number in sorted(set(writers.values())):
            own = pa.array([each for each in partitions if writers[each] == number], pa.int32())
            yield number, batch.filter(pc.is_in(batch.column("partition"), own))

    def _drain(self, queue: _Queue, *, whole: bool) -> bool:
        """Send full transactions, or everything. Returns false if the run was stopped."""
        while queue.rows >= self._pace.batch or queue.bytes >= _BYTES or (whole and queue.rows):
            if not self._pace.wait(self._sent):
                return False
            self._send(queue.writer, queue.take(self._pace.batch))
        return True

    def _send(self, writer: ReplayWriter, batches: list[pa.RecordBatch]) -> None:
        next_offsets: dict[int, int] = {}
        for batch in batches:
            table = pa.table({name: batch.column(name) for name in ("partition", "offset")})
            for row in table.group_by("partition").aggregate([("offset", "max")]).to_pylist():
                next_offsets[row["partition"]] = row["offset_max"] + 1
        target = self._job.target
        writer.write([record_columns(batch, target.partition_of) for batch in batches], next_offsets)
        self._sent += sum(map(len, batches))


def run(job: ReplayJob, share: TaskShare) -> int:
    """Run a task; returns the number of events that this attempt sent. Raises `PipelineError`."""
    queues: dict[int, _Queue] = {}
    request = StopRequest(job.target, job.run)
    pace = Pace(_share_of(job.rate, share.weight), time.monotonic, time.sleep, _StopPoll(request))
    try:
        for number in share.writers:
            queues[number] = _Queue(ReplayWriter(job.target, number))
        return _Run(job, share, pace, queues).run()
    except AmqpError as error:
        raise PipelineError(error.description) from None
    finally:
        request.close()
        for queue in queues.values():
            queue.writer.close()


def _share_of(rate: float | None, weight: float) -> float | None:
    return None if rate is None else rate * weight


class _StopPoll:
    """Checks in Kafka from time to time whether to stop."""

    def __init__(self, request: StopRequest) -> None:
        self._request = request
        self._due = time.monotonic() + _ASK
        self._stopped = False

    def __call__(self) -> bool:
        if not self._stopped and time.monotonic() >= self._due:
            self._stopped = self._request.asked()
            self._due = time.monotonic() + _ASK
        return self._stopped


def run_all(job: ReplayJob, shares: Iterable[TaskShare]) -> Iterator[int]:
    """Run the one task of a Spark partition."""
    for share in shares:
        yield run(job, share)
