"""Outages are waited out with growing pauses and a line each; what was refused ends the job."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bridges.spark.archive.archiving import job
from bridges.spark.archive.archiving.job import LogBounds, run
from bridges.spark.archive.contents.ranges import Log, Range
from bridges.spark.archive.monitoring.outages import Outages, is_outage
from bridges.spark.archive.monitoring.progress import ArchiveProgress, ProgressMeter
from bridges.spark.archive.store import MANIFEST, Archive
from bridges.spark.errors import PipelineError, failure
from gateway.errors import INTERNAL_ERROR, NOT_FOUND, AmqpError

GONE = AmqpError(INTERNAL_ERROR, "Kafka at k:9092 does not answer")


class Clock:
    """A clock that only pauses move."""

    def __init__(self) -> None:
        self.time = 100.0
        self.pauses: list[float] = []
        self.said: list[str] = []

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.time += seconds

    def outages(self, patience: float | None = None, random: float = 1.0) -> Outages:
        return Outages(
            self.said.append, clock=lambda: self.time, sleep=self.sleep, random=lambda: random, patience=patience
        )


def error(cause: BaseException | None, *, hidden: bool = False) -> PipelineError:
    """As the job raises it: for another error, from it or in its place."""
    try:
        try:
            if cause is not None:
                raise cause
        except BaseException as other:
            raise PipelineError("text") from (None if hidden else other)
        raise PipelineError("text")
    except PipelineError as made:
        return made


@pytest.mark.parametrize(
    ("cause", "passes"),
    [
        (GONE, True),
        (OSError("No space left on device"), True),
        (RuntimeError("a task failed"), True),
        (error(GONE, hidden=True), True),
        (AmqpError(NOT_FOUND, "Kafka has no topic t"), False),
        (failure("commit 1", RuntimeError("ModuleNotFoundError: No module named 'x'")), False),
        (None, False),
    ],
)
@pytest.mark.parametrize("hidden", [False, True])
def test_what_may_pass(cause: BaseException | None, passes: bool, hidden: bool) -> None:
    assert is_outage(error(cause, hidden=hidden)) is passes


def written(folder: Path) -> Archive:
    archive = Archive(folder)
    with archive.writing():
        archive.commit(1, archive.stage(1), [Range("orders", 0, 0, 5, 0, "id")], [])
    return archive


@pytest.mark.parametrize("name", ["00000001.json", "checkpoint-00000001.json", "segments/00000001-00000001.parquet"])
@pytest.mark.parametrize("content", [b"{", b"{}", b""])
def test_what_is_broken_does_not_pass(tmp_path: Path, name: str, content: bytes) -> None:
    """A job that had started before would have waited for ever."""
    history = written(tmp_path).history()
    if name != "00000001.json":
        history.write_checkpoint()
    (tmp_path / MANIFEST / name).write_bytes(content)
    with pytest.raises(PipelineError) as broken:
        list(Archive(tmp_path).history().commits())
    assert not is_outage(broken.value)
    assert not is_outage(error(broken.value, hidden=True))


def test_a_storage_that_does_not_let_a_manifest_be_read_may_pass(tmp_path: Path) -> None:
    manifest = tmp_path / MANIFEST / "00000001.json"
    archive = written(tmp_path)
    manifest.unlink()
    manifest.mkdir()  # EISDIR, an error of the file system
    with pytest.raises(PipelineError) as failed:
        archive.history()
    assert is_outage(failed.value)


def test_pauses_grow_to_a_minute_and_there_are_two_lines() -> None:
    clock = Clock()
    outages = clock.outages()
    outages.over()
    for _ in range(9):
        assert outages.wait(PipelineError("Kafka does not answer"))
    assert clock.pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    outages.over()
    outages.over()
    assert clock.said == ["Kafka does not answer; waiting for it to pass", "the job goes on after 243 s"]
    assert (outages.count, outages.lasting) == (1, False)
    outages.wait(PipelineError("again"))
    assert clock.pauses[-1] == 1


def test_pauses_are_at_random_below_their_bound() -> None:
    clock = Clock()
    outages = clock.outages(random=0.25)
    for _ in range(3):
        outages.wait(PipelineError("text"))
    assert clock.pauses == [0.25, 0.5, 1]


@pytest.mark.parametrize(("patience", "pauses"), [(0, []), (10, [1, 2, 4, 3])])
def test_patience_has_an_end(patience: float, pauses: list[float]) -> None:
    clock = Clock()
    outages = clock.outages(patience)
    while outages.wait(PipelineError("text")):
        pass
    assert clock.pauses == pauses
    assert len(clock.said) == (patience > 0)


class Watcher:
    """An observer that remembers."""

    def __init__(self) -> None:
        self.idles = 0

    def committed(self, progress: ArchiveProgress) -> None: ...

    def idle(self) -> None:
        self.idles += 1

    def outage(self, text: str) -> None: ...


class Origin:
    """An empty log, behind errors that come first."""

    def __init__(self, *errors: Callable[[], BaseException]) -> None:
        self.errors = list(errors)

    def logs(self) -> Iterator[Log]:
        if self.errors:
            raise self.errors.pop(0)()
        yield Log("orders", "id", {0: (0, 5)})

    def source(self) -> None: ...

    def holding(self, gaps: Sequence[Range]) -> list[Range]:
        return []


def alive(stopped: bool = False) -> Any:
    """What the loop asks a Spark session before it waits."""
    java = SimpleNamespace(sc=lambda: SimpleNamespace(isStopped=lambda: stopped))
    return SimpleNamespace(sparkContext=SimpleNamespace(_jsc=java))


def run_once(
    folder: Path, origin: Any, clock: Clock, spark: Any, patience: float | None = None,
    stopped: Callable[[], bool] = lambda: False,
) -> bool:  # fmt: skip
    archive = written(folder)
    return run(
        spark, archive, origin, LogBounds(), observer=Watcher(), meter=ProgressMeter(lambda: 0.0, lambda: 0.0),
        outages=clock.outages(patience), over=lambda: True, stopped=stopped,
    )  # fmt: skip


def test_the_job_goes_on_after_an_outage(tmp_path: Path) -> None:
    clock = Clock()
    assert run_once(tmp_path, Origin(*[lambda: error(GONE, hidden=True)] * 3), clock, alive())
    assert clock.said == ["text; waiting for it to pass", "the job goes on after 7 s"]


@pytest.mark.parametrize("work", ["place_due", "commit_next"])
def test_a_storage_that_fails_at_any_work_is_an_outage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, work: str
) -> None:
    clock, left = Clock(), [OSError(5, "the object store answers 503", "s3://b/a")]
    real = getattr(job, work)

    def fails_once(*what: Any) -> Any:
        if left:
            raise left.pop()
        return real(*what)

    monkeypatch.setattr(job, work, fails_once)
    assert run_once(tmp_path, Origin(), clock, alive())
    said = "s3://b/a: the object store answers 503; waiting for it to pass"
    assert clock.said == [said, "the job goes on after 1 s"]


def test_a_signal_that_has_ended_spark_as_well_stops_the_job_like_any_other(tmp_path: Path) -> None:
    """`timeout`, a terminal and systemd send it to all processes of the job; the step under way is not committed."""
    clock, came = Clock(), list[bool]()

    def ended() -> BaseException:
        came.append(True)
        return error(GONE)

    assert run_once(tmp_path, Origin(ended), clock, None, stopped=lambda: bool(came)) is False
    assert (clock.said, came, [each.number for each in Archive(tmp_path).commits()]) == ([], [True], [1])


def test_the_job_ends_where_it_was_refused_or_spark_is_gone(tmp_path: Path) -> None:
    class Recreated(Origin):
        def logs(self) -> Iterator[Log]:
            yield Log("orders", "another", {0: (0, 5)})

    clock = Clock()
    with pytest.raises(PipelineError, match="the topic was recreated"):
        run_once(tmp_path / "a", Recreated(), clock, alive())
    for spark in (alive(stopped=True), None):
        with pytest.raises(PipelineError, match="text"):
            run_once(tmp_path / f"b{spark is None}", Origin(lambda: error(GONE)), clock, spark)
    assert (clock.said, clock.pauses) == ([], [])
    with pytest.raises(PipelineError, match="text"):
        run_once(tmp_path / "c", Origin(*[lambda: error(GONE)] * 9), clock, alive(), 5)
    assert clock.pauses == [1, 2, 2]
