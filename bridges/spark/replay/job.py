"""Replay: archived events sent again, in the order they had in each partition (docs/pipeline.md).

Spark selects and sorts one commit of the archive at a time; the driver sends, so that the rate has one limit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from bridges.kafka.produce.replayer import Replayed, Replayer
from bridges.kafka.records.mapping import RecordWriter
from bridges.spark.archive.read import ArchiveSelection, check_offsets, read_commits
from bridges.spark.archive.store import Archive, Commit
from bridges.spark.errors import PipelineError, sentence
from gateway.amqp.message.sections import walk
from gateway.errors import AmqpError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

_BATCH: Final = 5000
_COLUMNS: Final = ("partition", "offset", "timestamp", "key", "body", "head", "bare_message", "record")


class ReplayTarget(Protocol):
    """The target of a replay: writes rows, and knows what earlier runs of the same name wrote."""

    @property
    def progress(self) -> Mapping[int, int]: ...
    def write(self, rows: list[Row]) -> None: ...
    def close(self) -> None: ...


@dataclass(frozen=True)
class Pace:
    """The rate of a replay, and when it stops."""

    rate: float | None
    """Events a second."""
    clock: Callable[[], float]
    sleep: Callable[[float], None]
    stopped: Callable[[], bool]


def replay(
    spark: SparkSession,
    archive: Archive,
    selection: ArchiveSelection,
    target: ReplayTarget | None,
    pace: Pace,
    on_progress: Callable[[int], None],
) -> int:
    """Send the selected events that were not sent before; returns their number. Without a target, only count them.

    Raises `PipelineError`; a later run of the same name continues.
    """
    commits = check(archive, selection)
    try:
        if target is None:
            return read_commits(spark, archive, commits, selection).count()
        sender = _Sender(target, pace, on_progress)
        for commit in commits:
            if pace.stopped():
                break
            sender.send(_rows(read_commits(spark, archive, [commit], selection), target.progress))
        return sender.sent
    except AmqpError as error:
        raise PipelineError(error.description) from None
    except PipelineError:
        raise
    except Exception as error:  # of Spark and Java
        raise PipelineError(sentence(error)) from error


def check(archive: Archive, selection: ArchiveSelection) -> list[Commit]:
    """The commits with the selected events. Raises `PipelineError` if the archive has none."""
    if len(selection.addresses) != 1:
        raise PipelineError("name the one address of the archive to replay (--from)")
    commits = [commit for commit in archive.placed() if _has(commit, selection.addresses[0])]
    if not commits:
        raise PipelineError(f"the archive has no events of {selection.addresses[0]} ({_addresses(archive)})")
    check_offsets(archive.placed(), selection.addresses[0], selection.offsets)
    return commits


def _has(commit: Commit, address: str) -> bool:
    return any(each.address == address and each.rows for each in commit.ranges)


def _addresses(archive: Archive) -> str:
    known = sorted({each.address for commit in archive.placed() for each in commit.ranges})
    return f"it has: {', '.join(known)}" if known else "it is empty"


def _rows(frame: DataFrame, progress: Mapping[int, int]) -> Iterator[Row]:
    from pyspark.sql import functions as F

    for partition, offset in progress.items():
        frame = frame.where((F.col("partition") != partition) | (F.col("offset") >= offset))
    millis = F.coalesce(F.unix_millis("timestamp"), F.lit(0)).alias("timestamp")
    wanted = [millis if name == "timestamp" else F.col(name) for name in _COLUMNS]
    return frame.orderBy("partition", "offset").select(*wanted).toLocalIterator()


class _Sender:
    def __init__(self, target: ReplayTarget, pace: Pace, on_progress: Callable[[int], None]) -> None:
        self._target, self._pace, self._on_progress = target, pace, on_progress
        self._size = _BATCH if pace.rate is None else max(1, min(_BATCH, int(pace.rate)))
        self._began = pace.clock()
        self.sent = 0

    def send(self, rows: Iterable[Row]) -> None:
        batch: list[Row] = []
        for row in rows:
            batch.append(row)
            if len(batch) == self._size:
                self._flush(batch)
                batch = []
                if self._pace.stopped():
                    return
        if batch:
            self._flush(batch)

    def _flush(self, batch: list[Row]) -> None:
        if self._pace.rate is not None:
            early = self._began + self.sent / self._pace.rate - self._pace.clock()
            if early > 0:
                self._pace.sleep(early)
        self._target.write(batch)
        self.sent += len(batch)
        self._on_progress(self.sent)


class TopicTarget:
    """Writes the original records to a topic, to the partition of the same number modulo their count."""

    def __init__(self, replayer: Replayer, partitions: int) -> None:
        self._replayer: Final = replayer
        self._partitions: Final = partitions
        self._writer: Final = RecordWriter()

    @property
    def progress(self) -> Mapping[int, int]:
        """The next offset per partition of the archive."""
        return self._replayer.progress

    def write(self, rows: list[Row]) -> None:
        """Write the rows in one transaction."""
        self._replayer.write(map(self._replayed, rows))

    def _replayed(self, row: Row) -> Replayed:
        record = row.record
        if record is None:  # archived over AMQP: encoded as the gateway would
            data = bytes(row.head) + bytes(row.bare_message)
            key, value, headers = self._writer.record(data, walk(data))
        else:
            stored = row.body if record.value_in_body else record.value
            key, value = _bytes(row.key), _bytes(stored)
            headers = [(header.key, _bytes(header.value)) for header in record.headers or ()]
        place = row.partition % self._partitions
        return Replayed(row.partition, row.offset, place, key, value, headers, max(row.timestamp, 0))

    def close(self) -> None:
        """Close the client."""
        self._replayer.close()


def _bytes(value: bytearray | None) -> bytes | None:
    return None if value is None else bytes(value)
