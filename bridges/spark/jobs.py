"""The pipeline's jobs as functions, for the command line and for Python: everything they need is an argument."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from bridges.kafka.admin.offsets import Offsets
from bridges.kafka.produce.replayer import ReplayTarget, fence
from bridges.spark.archive import job, topic_audit, verification
from bridges.spark.archive.bounded_source import SnapshotOrigin
from bridges.spark.archive.delta import CONF, DeltaLog, is_table
from bridges.spark.archive.job import ArchiveOrigin, LogBounds
from bridges.spark.archive.kafka_origin import KafkaOrigin, Start
from bridges.spark.archive.read import ArchiveSelection
from bridges.spark.archive.store import Archive, Commit
from bridges.spark.archive.topic_audit import TopicVerdict
from bridges.spark.archive.verification import VerifyVerdict
from bridges.spark.errors import PipelineError, Stopped, sentence
from bridges.spark.jars import DELTA, JarSet, fetch, find_jars
from bridges.spark.kafka_settings import portable_settings
from bridges.spark.replay import job as replaying
from bridges.spark.replay.pace import Pace
from bridges.spark.session import check_java, open_session
from gateway.errors import AmqpError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "ArchiveSelection",
    "LogBounds",
    "PipelineError",
    "SparkEngine",
    "Stopped",
    "archive_node",
    "archive_topics",
    "compare_topics",
    "fetch_jars",
    "replay_to_address",
    "replay_to_topic",
    "sentence",
    "verify",
]

Format = Literal["parquet", "delta"]
"""`delta`: also a Delta table. `None`: the archive's present format, `parquet` for a new one."""
DEFAULT: Final = LogBounds()
REPLAYS: Final = "_replays"
"""The folder of an archive with the progress of replays to AMQP addresses."""
_NEVER: Final = 3600.0


@dataclass(frozen=True)
class SparkEngine:
    """Which Spark runs a job."""

    master: str = "local[*]"
    conf: Mapping[str, str] = field(default_factory=dict)
    jars: Path | None = None
    """A folder with the jars that pyspark lacks; default: `jars.find_jars`."""
    say: Callable[[str], None] = lambda _: None
    """Called with a message when Spark starts, which takes some seconds."""


def fetch_jars(folder: Path | None = None) -> list[Path]:
    """Fetch the jars of Delta Lake into a folder or the cache. Raises `PipelineError`."""
    return fetch(DELTA, folder)


@contextmanager
def _running(
    name: str, engine: SparkEngine, jar_sets: Sequence[JarSet] = ()
) -> Iterator[tuple[SparkSession, threading.Event]]:
    """A session, and the event that SIGTERM and Ctrl-C set: a job stops after its current commit or batch."""
    check_java()
    jars = find_jars(jar_sets, engine.jars)
    conf = {**(CONF if DELTA in jar_sets else {}), **engine.conf}
    engine.say(f"starting Spark with master {engine.master}")
    with _stopping() as (stop, listen):
        spark = open_session(name, master=engine.master, jars=jars, conf=conf)
        listen()  # Spark has installed its own handler of Ctrl-C
        try:
            yield spark, stop
        finally:
            with suppress(Exception):  # if its Java has died, the job has reported it
                spark.stop()


@contextmanager
def _stopping() -> Iterator[tuple[threading.Event, Callable[[], None]]]:
    """The event that SIGTERM and Ctrl-C set, and a function that installs its handlers (again).

    A second signal ends the process at once.
    """
    stop = threading.Event()

    def on_signal(*_: object) -> None:
        if stop.is_set():
            os._exit(1)  # unfinished work is in no commit and in no committed transaction
        stop.set()

    def listen() -> None:
        for each in before:
            signal.signal(each, on_signal)

    main = threading.current_thread() is threading.main_thread()
    before = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)} if main else {}
    listen()
    try:
        yield stop, listen
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def archive_topics(
    path: Path,
    settings: Mapping[str, str],
    topics: Mapping[str, str],
    *,
    start: Start = "earliest",
    bounds: LogBounds = DEFAULT,
    every: float | None = None,
    format: Format | None = None,
    engine: SparkEngine = SparkEngine(),
    on_progress: Callable[[Commit], None] = lambda _: None,
) -> None:
    """Archive topics (topic: address) of the cluster that librdkafka's `settings` lead to.

    Ends at the end of the topics, or, with `every` (seconds between checks), at SIGTERM. Raises `PipelineError`, and
    its subclass `Stopped` if SIGTERM came before the end.
    """
    archive = Archive(path)
    jar_sets = _jar_sets(archive, format)
    find_jars(jar_sets, engine.jars)
    _archive(archive, KafkaOrigin(settings, topics, start), bounds, every, engine, on_progress, jar_sets)


def archive_node(
    path: Path,
    options: Mapping[str, str],
    name: str | None = None,
    *,
    bounds: LogBounds = DEFAULT,
    every: float | None = None,
    format: Format | None = None,
    engine: SparkEngine = SparkEngine(),
    on_progress: Callable[[Commit], None] = lambda _: None,
) -> None:
    """Archive an event-stream node: `options` are those of `format("scopegate")`, `name` the address in the archive."""
    from bridges.spark.archive.amqp_origin import AmqpOrigin

    origin = AmqpOrigin(options, name or options.get("address", ""))
    archive = Archive(path)
    _archive(archive, origin, bounds, every, engine, on_progress, _jar_sets(archive, format))


def _jar_sets(archive: Archive, format: Format | None) -> list[JarSet]:
    if format == "parquet" and is_table(archive):
        raise PipelineError(f"{archive.path} is a Delta table: use --format delta")
    return [DELTA] if format == "delta" or is_table(archive) else []


def _archive(
    archive: Archive,
    origin: ArchiveOrigin,
    bounds: LogBounds,
    every: float | None,
    engine: SparkEngine,
    on_progress: Callable[[Commit], None],
    jar_sets: Sequence[JarSet],
) -> None:
    if every is None:
        origin = SnapshotOrigin(origin)  # or a growing topic has no end
    for _ in origin.logs():
        pass  # errors there are reported before Spark starts
    with _running("archive", engine, jar_sets) as (spark, stop):
        follow = DeltaLog(spark, archive).follow if DELTA in jar_sets else lambda: None

        def over() -> bool:
            return every is None or stop.wait(every)

        done = job.run(
            spark, archive, origin, bounds, on_progress=on_progress, over=over, stopped=stop.is_set, follow=follow
        )
    if every is None and not done:
        raise Stopped("stopped before the end of the logs: the same command continues")


def verify(path: Path) -> VerifyVerdict:
    """Check an archive; needs no Spark. Raises `PipelineError` if there is none."""
    return verification.verify(Archive(path))


def compare_topics(
    path: Path, settings: Mapping[str, str], topics: Mapping[str, str], sample: int
) -> Iterator[TopicVerdict]:
    """Compare an archive with its topics (topic: address); needs no Spark. Raises `PipelineError`."""
    return topic_audit.compare_topics(Archive(path), settings, topics, sample)


def replay_to_topic(
    path: Path,
    selection: ArchiveSelection,
    settings: Mapping[str, str],
    topic: str,
    *,
    name: str | None = None,
    rate: float | None = None,
    dry_run: bool = False,
    engine: SparkEngine = SparkEngine(),
    on_progress: Callable[[int], None] = lambda _: None,
) -> int:
    """Write archived events to a topic, each once even if the job of this name is killed and started again.

    Returns the number of events written now. Raises `PipelineError`.
    """
    archive = Archive(path)
    replaying.check(archive, selection)
    if dry_run:
        return replaying.count(archive, selection)
    try:
        target = replay_target(settings, topic, name or replay_name(path, selection, topic))
        fence(target)  # errors there are reported before Spark starts
    except AmqpError as error:
        raise PipelineError(error.description) from None
    with _running("replay", engine) as (spark, stop):
        sent = replaying.write_records(
            spark, archive, selection, target, rate=rate, stop=stop, on_progress=on_progress
        )
    _check_stopped(stop, sent)
    return sent


def replay_target(settings: Mapping[str, str], topic: str, name: str) -> ReplayTarget:
    """The topic that a replay of this name writes to. Raises `AmqpError` and `PipelineError`."""
    found = Offsets(settings).topic(topic)
    return ReplayTarget(portable_settings(settings), topic, found.partitions, found.max_bytes, name)


def replay_to_address(
    path: Path,
    selection: ArchiveSelection,
    options: Mapping[str, str],
    *,
    name: str | None = None,
    rate: float | None = None,
    dry_run: bool = False,
    on_progress: Callable[[int], None] = lambda _: None,
) -> int:
    """Send archived events to an AMQP address (`options` as of the data source), each accepted before it counts.

    Needs no Spark. Events in flight when a run is killed may be sent twice. Returns the number of events sent now.
    Raises `PipelineError`.
    """
    from bridges.spark.datasource.options import read_options
    from bridges.spark.replay.amqp_target import AmqpTarget

    read = read_options(options)
    called = name or replay_name(path, selection, f"{read.endpoint} {read.address}")
    archive = Archive(path)
    replaying.check(archive, selection)
    if dry_run:
        return replaying.count(archive, selection)
    target = AmqpTarget(read, path / REPLAYS / f"{called}.json")
    with _stopping() as (stop, _):
        pace = Pace(rate, time.monotonic, lambda seconds: _pause(stop, seconds), stop.is_set)
        sent = replaying.send_messages(archive, selection, target, pace, on_progress)
    _check_stopped(stop, sent)
    return sent


def _check_stopped(stop: threading.Event, sent: int) -> None:
    if stop.is_set():
        raise Stopped(f"stopped after {sent} events: the same command continues")


def _pause(stop: threading.Event, seconds: float) -> None:
    stop.wait(min(seconds, _NEVER))


def replay_name(path: Path, selection: ArchiveSelection, target: str) -> str:
    """The default name of a replay: the same for the same archive, selection and target."""
    identity = [str(path.resolve()), repr(selection), target]
    return hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:12]
