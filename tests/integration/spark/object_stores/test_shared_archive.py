"""Jobs that share an archive in an object store: none deletes what another one has written meanwhile."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import date
from pathlib import Path
from unittest.mock import patch

import pytest

from bridges.spark.archive.maintenance import compaction, removal
from bridges.spark.archive.manifest.commits import File
from bridges.spark.archive.storage.paths import storage_path
from bridges.spark.archive.storage.s3 import ObjectPath
from bridges.spark.archive.store import Archive
from bridges.spark.archive.verification import verify
from bridges.spark.archive.writers.objects import ObjectWriter
from bridges.spark.errors import PipelineError
from tests.support.servers.object_store import ObjectStore
from tests.support.spark.archives import added, commit, object_files, objects
from tests.support.spark.pipeline import here

SIZE = 1 << 28
Maintenance = Callable[[Archive], object]


def compacted(archive: Archive, grace: float = 0.0) -> None:
    for task in compaction.plan(archive.readable(), date.max, SIZE):
        compaction.compact(archive, task, SIZE, grace)


def erased(archive: Archive) -> None:
    list(removal.erase(archive, b"k", list(removal.plan_erasure(archive, b"k"))))


def expired(archive: Archive) -> None:
    list(removal.expire(archive, removal.plan_expiry(archive, date.max)))


def placed(archive: Archive) -> None:
    list(compaction.place_due(archive, at_once=True))


@contextmanager
def before_deletions(happens: Callable[[], object]) -> Iterator[None]:
    """Something happens just before a job deletes the files that it has replaced, once."""
    real, left = ObjectWriter.remove_replaced, [happens]

    def remove(writer: ObjectWriter, *what: object) -> None:
        while left:
            left.pop()()
        real(writer, *what)  # type: ignore[arg-type]

    with patch.object(ObjectWriter, "remove_replaced", remove):
        yield


@pytest.mark.parametrize(("maintain", "rows"), [(compacted, 30), (placed, 30), (erased, 10), (expired, 10)])
def test_events_that_come_meanwhile_stay(object_store: ObjectStore, maintain: Maintenance, rows: int) -> None:
    """The archive job adds events of the same date between the commit of another job and its deletions."""
    path = object_store.path()
    archiving, other = Archive(path), Archive(path)
    with archiving.writing():
        commit(archiving, 0, 10)
        commit(archiving, 10, 20)
        if maintain is placed:
            compacted(other, grace=3600)
        with before_deletions(lambda: commit(archiving, 20, 30)):
            maintain(other)
    verdict = verify(Archive(path))
    assert (verdict.rows, verdict.problems) == (rows, ())


class Killed(BaseException):
    """The end of a job in the middle of its work."""


@pytest.mark.parametrize("maintain", [compacted, erased, expired])
@pytest.mark.parametrize("later", ["maintenance", "archiving"])
def test_what_a_killed_job_has_replaced_is_deleted(
    object_store: ObjectStore, maintain: Maintenance, later: str
) -> None:
    """Its commit is written, its files are not deleted; then come other commits and other jobs."""

    def killed() -> None:
        raise Killed

    path = object_store.path()
    archiving, other = Archive(path), Archive(path)
    with archiving.writing():
        commit(archiving, 0, 10)
        replaced = set(objects(archiving) + [each.path for each in commit(archiving, 10, 20).files])
        with before_deletions(killed), pytest.raises(Killed):
            maintain(other)
        commit(archiving, 20, 30)
    assert replaced < set(objects(archiving))
    with Archive(path).writer.maintaining() if later == "maintenance" else Archive(path).writing():
        assert not replaced & set(objects(archiving))
    assert verify(Archive(path)).problems == ()
    assert not list((path / "_staging").glob("*.removing"))


@pytest.mark.parametrize("later", ["maintenance", "archiving"])
@pytest.mark.parametrize("grace", [0.0, 3600.0])
def test_files_of_a_killed_compaction_may_have_erased_events_for_a_day(
    object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch, grace: float, later: str
) -> None:
    """It may be under way as well: nobody can tell."""
    archive = Archive(object_store.path())
    with archive.writing():
        commit(archive, 0, 10)
        commit(archive, 10, 20)
    with patch.object(compaction, "committed", side_effect=Killed), pytest.raises(Killed):
        compacted(archive, grace)
    erased(archive)
    assert len(list(archive.path.glob("*/*/*.parquet")) + list(archive.path.glob("*/*/*/*/*.parquet"))) == 1
    assert verify(archive).problems == ()
    monkeypatch.setattr("bridges.spark.archive.writers.objects.FORGOTTEN", -1.0)
    monkeypatch.setattr(compaction, "FORGOTTEN", -1.0)
    with Archive(archive.path).writing():
        if later == "maintenance":
            compaction.remove_leftovers(archive, 0)
    assert [path for path in archive.path.below() if path.name.endswith(".parquet")] == []


def test_it_is_told_that_a_bucket_keeps_what_is_erased(object_store: ObjectStore) -> None:
    """What is deleted there becomes a version that is not current."""
    with object_store.in_environment():
        for versions, said in ((False, ""), (True, "the bucket keeps versions of objects: the noncurrent ones ")):
            bucket = object_store.create_bucket(versions=versions)
            for call in (("erase", "--key", "k"), ("expire", "--before", "2026-01-01")):
                archive = Archive(storage_path(f"s3://{bucket}/{call[0]}"))
                with archive.writing():
                    commit(archive, 0, 10)
                what, *options = call
                done = here(what, archive.path, *options, "--yes")
                assert (done.returncode, done.stderr.startswith(said), bool(done.stderr)) == (0, True, versions)


def test_nothing_is_left_of_a_task_that_is_killed(
    object_store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    archive = Archive(object_store.path())
    file = archive.writer.target(archive.stage(1)).create("address=o/date=1970-01-01")
    file.write(b"rows")
    assert list(tmp_path.iterdir()) == []
    file.close()
    assert (archive.path / file.name).read_bytes() == b"rows"


def test_what_a_job_is_about_to_replace_stays(object_store: ObjectStore) -> None:
    """Another job begins when it has announced what it will delete, and has not committed yet."""
    path = object_store.path()
    archiving, other = Archive(path), Archive(path)
    with archiving.writing():
        commit(archiving, 0, 10)
    real = ObjectWriter.write

    def write(writer: ObjectWriter, *what: object) -> None:
        if writer is other.writer:
            with Archive(path).writer.maintaining():
                assert len(objects(archiving)) == 1
            raise Killed
        real(writer, *what)  # type: ignore[arg-type]

    with patch.object(ObjectWriter, "write", write), pytest.raises(Killed):
        expired(other)
    assert (verify(archiving).rows, verify(archiving).problems) == (10, ())
    assert len(list((path / "_staging").glob("*.removing"))) == 1


def test_a_job_that_hangs_removes_nothing_of_its_successor(object_store: ObjectStore) -> None:
    """It cleans up after a failed step, and hangs while it lists; the successor uploads and commits meanwhile."""
    path = object_store.path()
    hanging, successor = Archive(path), Archive(path)
    real, left = ObjectPath.below, [True]

    def below(where: ObjectPath) -> Iterator[ObjectPath]:
        if where.name == "_staging" and left:
            left.clear()
            stack.enter_context(successor.writing())
            commit(successor, 10, 15)
            parts.append(object_files(successor, 15, 20))
            yield from real(where)
            added(successor, *parts[0], 15, 20)
            return
        yield from real(where)

    parts: list[tuple[str, list[tuple[None, File]]]] = []
    with ExitStack() as stack, hanging.writing():
        commit(hanging, 0, 10)
        object_files(hanging, 10, 20)
        with patch.object(ObjectPath, "below", below), pytest.raises(PipelineError, match="another job has begun"):
            hanging.tidy()
    assert (verify(successor).rows, verify(successor).problems) == (20, ())


def test_a_job_without_an_answer_does_not_end_its_successor(object_store: ObjectStore) -> None:
    """What became of its request is unknown, so it opens the archive again; but it is not its archive any more."""
    path = object_store.path()
    older, newer = Archive(path), Archive(path)
    with older.writing():
        commit(older, 0, 10)
        name, files = object_files(older, 10, 20)
        away = patch.object(ObjectPath, "create", side_effect=OSError(5, "the object store cannot be reached"))
        with away, pytest.raises(OSError, match="cannot be reached"):
            added(older, name, files, 10, 20)
        with newer.writing():
            with pytest.raises(PipelineError, match="another job has begun"):
                older.tidy()
            commit(newer, 10, 20)
    assert (verify(newer).rows, verify(newer).problems) == (20, ())
