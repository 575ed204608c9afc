"""Commits in an object store: one job appends, nothing is counted twice, and what a killed job left is removed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import pytest

from bridges.spark.archive.contents.file_rows import batches
from bridges.spark.archive.contents.ranges import Range
from bridges.spark.archive.maintenance import removal
from bridges.spark.archive.manifest import history as histories
from bridges.spark.archive.manifest.commits import APPEND, OPEN, Commit
from bridges.spark.archive.storage import s3
from bridges.spark.archive.storage.s3 import ObjectPath, S3Settings
from bridges.spark.archive.store import Archive
from bridges.spark.archive.verification import verify
from bridges.spark.errors import PipelineError
from tests.support.gateway.process import free_port
from tests.support.servers.object_store import BUCKET, ObjectStore
from tests.support.spark.archives import added, commit, object_files, objects


def test_what_is_committed_is_verified(object_store: ObjectStore) -> None:
    archive = Archive(object_store.path())
    with archive.writing():
        commit(archive, 0, 10)
        commit(archive, 10, 15)
    verdict = verify(archive)
    assert (verdict.rows, verdict.files, verdict.problems) == (15, 2, ())
    assert [each.kind for each in archive.commits()] == [OPEN, APPEND, APPEND]
    with archive.writing():
        assert archive.history().ends["o", 0].end == 15
    assert not list((archive.path / "_staging").glob("*"))


def test_a_job_that_begins_ends_the_one_before(object_store: ObjectStore) -> None:
    path = object_store.path()
    older, newer = Archive(path), Archive(path)
    with older.writing():
        commit(older, 0, 10)
        name, files = object_files(older, 10, 20)
        with newer.writing():
            with pytest.raises(PipelineError, match=r"another job has begun to write to .*, which ends this one"):
                added(older, name, files, 10, 20)
            commit(newer, 10, 12)
    assert (verify(newer).rows, verify(newer).problems) == (12, ())


def test_of_two_that_commit_at_once_one_wins(object_store: ObjectStore) -> None:
    """Both have looked at the archive, then both ask for the same number."""
    path = object_store.path()
    older, newer = Archive(path), Archive(path)
    with older.writing():
        commit(older, 0, 10)
        name, files = object_files(older, 10, 20)
        with older.changing() as history:
            with newer.writing():
                commit(newer, 10, 20)
            ranges = (Range("o", 0, 10, 20, 10, "id"),)
            with pytest.raises(PipelineError, match="another job has begun"):
                older.put(history, Commit(0, name, ranges, tuple(file for _, file in files)), [None])
    assert (verify(newer).rows, verify(newer).problems) == (20, ())
    assert len(objects(newer)) == 2, "what the older one left is removed"


def test_what_a_killed_job_left_is_no_mistake_and_is_removed(object_store: ObjectStore) -> None:
    path = object_store.path()
    killed, later = Archive(path), Archive(path)
    with killed.writing():
        commit(killed, 0, 10)
        object_files(killed, 10, 20)
        killed.writer.tidy = lambda: None  # type: ignore[method-assign]  # a killed job does not
    assert len(objects(later)) == 2
    assert verify(later).problems == ()
    with later.writing():
        assert len(objects(later)) == 1
        commit(later, 10, 20)
    assert (verify(later).rows, verify(later).problems) == (20, ())


def test_an_object_of_no_job_is_reported(object_store: ObjectStore) -> None:
    archive = Archive(object_store.path())
    with archive.writing():
        (file,) = commit(archive, 0, 10).files
    assert isinstance(archive.path, ObjectPath)
    (archive.path / file.path).copy_to(archive.path / f"{file.folder}/00000001-abcdefab-12345678.parquet")
    (problem,) = verify(archive).problems
    assert problem.endswith("00000001-abcdefab-12345678.parquet: in no commit")
    (archive.path / f"{file.folder}/00000001-abcdefab-12345678.parquet").unlink()
    names = [
        "_manifest/2.json", f"{file.folder}/_a.parquet", f"{file.folder}/sub/a.parquet", f"{file.folder}/zzz",
        "address=o/zzz.parquet", "other/a.parquet", "zzz",
    ]  # fmt: skip
    for name in (*names, "_x/a.parquet", f"{file.folder}/_SUCCESS"):
        (archive.path / file.path).copy_to(archive.path / name)
    for name in ("", "/address=o", "/empty"):
        object_store.create_folder(f"{archive.path.key}{name}")
    assert verify(archive).problems == tuple(f"{archive.path / name}: in no commit" for name in names)
    (archive.path / file.path).unlink()
    assert any(each.endswith("is missing") for each in verify(archive).problems)


@contextmanager
def lost_answers(*, stored: bool) -> Iterator[None]:
    """Requests for manifests end in an error; whether they arrive is another question."""
    real = ObjectPath.create

    def create(path: ObjectPath, data: bytes) -> None:
        if stored:
            real(path, data)
        raise OSError(5, "the object store cannot be reached", str(path))

    with patch.object(ObjectPath, "create", create):
        yield


@pytest.mark.parametrize("stored", [True, False])
def test_a_lost_answer_neither_loses_nor_doubles(object_store: ObjectStore, stored: bool) -> None:
    archive = Archive(object_store.path())
    with archive.writing():
        commit(archive, 0, 10)
        name, files = object_files(archive, 10, 20)
        with lost_answers(stored=stored), pytest.raises(OSError, match="cannot be reached"):
            added(archive, name, files, 10, 20)
        archive.tidy()
        end = archive.history().ends["o", 0].end
        assert end == (20 if stored else 10)
        commit(archive, end, 25)
    assert (verify(archive).rows, verify(archive).problems) == (25, ())


def test_missing_credentials_are_no_outage(object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client asks the machine for a role, where nothing answers: that is not the store."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(s3, "_stores", {})  # a client of another test has found some
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", f"http://127.0.0.1:{free_port()}")
    path = ObjectPath(BUCKET, "none", S3Settings(object_store.endpoint, "us-east-1"))
    with pytest.raises(PermissionError, match="no credentials for the object store: set AWS_ACCESS_KEY_ID and so on"):
        path.read_bytes()


def test_a_store_that_fails_is_not_taken_for_a_damaged_archive(object_store: ObjectStore) -> None:
    archive = Archive(object_store.path())
    with archive.writing():
        (file,) = commit(archive, 0, 10).files
    path = archive.path / file.path
    gone = OSError(5, "the object store answers 503", "s3://b/a")
    with patch.object(ObjectPath, "read_range", side_effect=gone):
        for read in (lambda: list(batches(path)), lambda: list(removal.plan_erasure(archive, b"k"))):
            with pytest.raises(PipelineError, match=r"^s3://b/a: the object store answers 503$"):
                read()
        with pytest.raises(OSError, match="the object store answers 503"):
            verify(archive)
    with (
        patch.object(ObjectPath, "read_bytes", side_effect=gone),
        pytest.raises(PipelineError, match=r"^s3://b/a: the object store answers 503$"),
    ):
        archive.history()


def test_a_refusal_because_of_another_request_may_pass(object_store: ObjectStore) -> None:
    """The store answers 409 or 412 to a conditional request, and has no such object."""
    archive = Archive(object_store.path())
    with archive.writing():
        name, files = object_files(archive, 0, 10)
        refused = patch.object(ObjectPath, "create", side_effect=FileExistsError(17, "File exists"))
        with refused, pytest.raises(OSError, match="refuses to write it, because of another request: try again"):
            added(archive, name, files, 0, 10)
        archive.tidy()
        commit(archive, 0, 10)
    assert (verify(archive).rows, verify(archive).problems) == (10, ())


def test_a_request_that_arrives_after_all_is_refused(object_store: ObjectStore) -> None:
    """What it would commit has been removed by then."""
    archive, sent = Archive(object_store.path()), list[tuple[ObjectPath, bytes]]()

    def create(path: ObjectPath, data: bytes) -> None:
        sent.append((path, data))
        raise OSError(5, "the object store cannot be reached", str(path))

    with archive.writing():
        commit(archive, 0, 10)
        name, files = object_files(archive, 10, 20)
        with patch.object(ObjectPath, "create", create), pytest.raises(OSError, match="cannot be reached"):
            added(archive, name, files, 10, 20)
        archive.tidy()
        assert len(objects(archive)) == 1
        ((path, data),) = sent
        with pytest.raises(FileExistsError):
            path.create(data)
    assert (verify(archive).rows, verify(archive).problems) == (10, ())


def test_a_request_that_arrives_late_does_not_double(object_store: ObjectStore) -> None:
    """It was sent, got no answer, and is there after the next commit was prepared."""
    archive = Archive(object_store.path())
    with archive.writing():
        commit(archive, 0, 10)
        first, second = object_files(archive, 10, 20), object_files(archive, 10, 20)
        added(archive, *first, 10, 20)
        with pytest.raises(PipelineError, match="the archive has gone on to offset 20 meanwhile"):
            added(archive, *second, 10, 20)
    assert (verify(archive).rows, verify(archive).problems) == (20, ())


def test_checkpoints_stand_for_commits(object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(histories, "COMMITS_PER_CHECKPOINT", 4)
    archive = Archive(object_store.path())
    with archive.writing():
        for first in range(0, 70, 10):
            commit(archive, first, first + 10)
    assert archive.history().checkpoint.number == 8
    assert (verify(archive).rows, verify(archive).problems) == (70, ())
    with archive.writing():
        commit(archive, 70, 80)
    assert (verify(archive).rows, verify(archive).problems) == (80, ())
    assert archive.history().summary.writer == archive.writer._name  # type: ignore[attr-defined]
