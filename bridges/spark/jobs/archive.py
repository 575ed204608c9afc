"""The jobs that archive, and the jobs that check an archive."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

from bridges.spark.archive import topic_audit, verification
from bridges.spark.archive.archiving import job
from bridges.spark.archive.archiving.bounded_source import SnapshotOrigin
from bridges.spark.archive.archiving.job import LogBounds
from bridges.spark.archive.archiving.kafka_origin import KafkaOrigin, Start
from bridges.spark.archive.delta import DeltaLog, is_table
from bridges.spark.archive.iceberg import IcebergTable, is_iceberg
from bridges.spark.archive.monitoring.outages import Outages
from bridges.spark.archive.monitoring.progress import ArchiveObserver, ProgressMeter, Silent
from bridges.spark.archive.storage.paths import StoragePath
from bridges.spark.archive.store import Archive
from bridges.spark.archive.topic_audit import TopicVerdict
from bridges.spark.archive.topic_state import TopicWatch
from bridges.spark.archive.verification import VerifyVerdict
from bridges.spark.archive.write.origin import ArchiveOrigin
from bridges.spark.errors import PipelineError, Stopped
from bridges.spark.jars import DELTA, JarSet, fetch, find_jars
from bridges.spark.jobs.running import running
from bridges.spark.session import LOCAL, SparkEngine

Format = Literal["parquet", "delta", "iceberg"]
"""`delta`, `iceberg`: also write such a table. `None`: the archive's present format; `parquet` for a new one."""
DEFAULT: Final = LogBounds()
SILENT: Final = Silent()


def fetch_jars(folder: Path | None = None) -> list[Path]:
    """Fetch the jars of Delta Lake into a folder or the cache. Raises `PipelineError`."""
    return fetch(DELTA, folder)


def archive_topics(
    path: StoragePath,
    settings: Mapping[str, str],
    topics: Mapping[str, str],
    *,
    start: Start = "earliest",
    bounds: LogBounds = DEFAULT,
    every: float | None = None,
    format: Format | None = None,
    engine: SparkEngine = LOCAL,
    observer: ArchiveObserver = SILENT,
    patience: float | None = None,
    groups: Sequence[str] | None = None,
) -> None:
    """Archive topics (topic: address) of the cluster in librdkafka's `settings`.

    Unless `groups` is null, the settings of the topics and the positions of matching groups are archived, too.

    Ends at the end of the topics, or, with `every` (seconds between checks), at SIGTERM. Raises `PipelineError`, and
    its subclass `Stopped` if SIGTERM came before the end. Outages are waited out, for `patience` seconds each.
    """
    archive = Archive(path)
    jar_sets = _jar_sets(archive, format)
    find_jars(jar_sets, engine.jars)
    origin = KafkaOrigin(settings, topics, start)
    watch = None if groups is None else TopicWatch(path, settings, topics, groups, time.monotonic, time.time)
    table = _table(archive, format)
    _archive(archive, origin, bounds, every, engine, observer, patience, jar_sets, watch, table)


def archive_node(
    path: StoragePath,
    options: Mapping[str, str],
    name: str | None = None,
    *,
    bounds: LogBounds = DEFAULT,
    every: float | None = None,
    format: Format | None = None,
    engine: SparkEngine = LOCAL,
    observer: ArchiveObserver = SILENT,
    patience: float | None = None,
) -> None:
    """Archive an event-stream node: `options` are those of `format("scopegate")`, `name` the address in the archive."""
    from bridges.spark.archive.archiving.amqp_origin import AmqpOrigin

    origin = AmqpOrigin(options, name or options.get("address", ""))
    archive = Archive(path)
    jar_sets, table = _jar_sets(archive, format), _table(archive, format)
    _archive(archive, origin, bounds, every, engine, observer, patience, jar_sets, table=table)


def _jar_sets(archive: Archive, format: Format | None) -> list[JarSet]:
    if format == "delta" and not isinstance(archive.path, Path):
        text = "Delta tables are written in folders only; for an object store, use --format iceberg"
        raise PipelineError(f"{archive.path}: {text}")
    if format not in (None, "delta") and is_table(archive):
        raise PipelineError(f"{archive.path} is a Delta table: use --format delta")
    return [DELTA] if format == "delta" or is_table(archive) else []


def _table(archive: Archive, format: Format | None) -> IcebergTable | None:
    """The Iceberg table to write. Raises `PipelineError` if it cannot be written."""
    if is_iceberg(archive) and format not in (None, "iceberg"):
        raise PipelineError(f"{archive.path} is an Iceberg table: use --format iceberg")
    return IcebergTable(archive) if format == "iceberg" or is_iceberg(archive) else None


def _archive(
    archive: Archive,
    origin: ArchiveOrigin,
    bounds: LogBounds,
    every: float | None,
    engine: SparkEngine,
    observer: ArchiveObserver,
    patience: float | None,
    jar_sets: Sequence[JarSet],
    watch: TopicWatch | None = None,
    table: IcebergTable | None = None,
) -> None:
    if every is None:
        origin = SnapshotOrigin(origin)  # otherwise, a growing topic would have no end
    for _ in origin.logs():
        pass  # errors there are reported before Spark starts
    with running("archive", engine, jar_sets) as (spark, stop):
        followers = [DeltaLog(spark, archive).follow] if DELTA in jar_sets else []
        followers += [table.follow] if table else []

        def follow() -> None:
            for each in followers:
                each()

        def over() -> bool:
            return every is None or stop.wait(every)

        outages = Outages(
            observer.outage, clock=time.monotonic, sleep=stop.wait, random=random.random, patience=patience
        )
        done = job.run(
            spark, archive, origin, bounds, observer=observer, meter=ProgressMeter(time.monotonic, time.time),
            outages=outages, over=over, stopped=stop.is_set, follow=follow, watch=watch or (lambda: None),
        )  # fmt: skip
    if every is None and not done:
        raise Stopped("stopped before the end of the logs: run the same command to continue")


def verify(path: StoragePath) -> VerifyVerdict:
    """Check an archive; needs no Spark. Raises `PipelineError` if there is none."""
    return verification.verify(Archive(path))


def compare_topics(
    path: StoragePath, settings: Mapping[str, str], topics: Mapping[str, str], sample: int
) -> Iterator[TopicVerdict]:
    """Compare an archive with its topics (topic: address); needs no Spark. Raises `PipelineError`."""
    return topic_audit.compare_topics(Archive(path), settings, topics, sample)
