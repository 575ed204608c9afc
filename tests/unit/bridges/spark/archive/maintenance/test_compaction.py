"""Compaction: the same rows in fewer files, for every reader at every moment, whatever is killed."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bridges.spark.archive.maintenance import rewrite
from bridges.spark.archive.maintenance.compaction import compact, place_due, plan, remove_leftovers
from bridges.spark.archive.maintenance.lock import maintaining
from bridges.spark.archive.manifest.commits import APPEND, COMPACT, PLACE
from bridges.spark.archive.store import Archive
from bridges.spark.archive.verification import verify
from bridges.spark.columns.rows import EventRow
from bridges.spark.errors import PipelineError
from bridges.spark.views.views import views_sql
from tests.support.amqp.messages import message
from tests.support.spark import aged, archives

DAY = 86_400_000
SIZE = 1 << 20
BEFORE = date(1970, 1, 3)
Place = tuple[str, int, int]


def events(number: int) -> list[EventRow]:
    """Those of a commit: three dates, two partitions."""
    first = number * 6
    return [
        EventRow(each % 2, first + each // 2, (each % 3) * DAY + first, b"k%d" % (each % 4), message(b"v%d" % each))
        for each in range(12)
    ]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "archive"
    archive = archives.written(path, {"orders/eu": events(0), "other": events(0)})
    with archive.writing():
        for number in range(1, 5):
            archives.append(archive, {"orders/eu": events(number), "other": events(number)})
    return path


@pytest.fixture
def archive(model: Path, tmp_path: Path) -> Archive:
    shutil.copytree(model, tmp_path / "archive")
    return Archive(tmp_path / "archive")


def rows(paths: Iterator[tuple[str, Path]]) -> list[Any]:
    found = []
    for address, path in paths:
        table = pq.ParquetFile(path).read(columns=["partition", "offset", "key", "body"])
        found += [(address, *row.values()) for row in table.to_pylist()]
    return sorted(found)


def by_manifest(archive: Archive) -> list[Any]:
    return rows((file.address, archive.path / file.path) for _, file in archive.readable().live_files())


def by_folder(archive: Archive) -> list[Any]:
    """What a reader of Parquet folders sees, who knows no manifest."""
    found = sorted(archive.path.glob("address=*/date=*/*.parquet"))
    return rows((path.parts[-3].removeprefix("address=").replace("%2F", "/"), path) for path in found)


def compact_all(archive: Archive, grace: float) -> None:
    for task in plan(archive.readable(), BEFORE, SIZE):
        compact(archive, task, SIZE, grace)


def finish(archive: Archive) -> None:
    """An hour later."""
    with maintaining(archive):
        assert list(place_due(archive, time.time() + 3700)) is not None
        remove_leftovers(archive, 0)


def test_all_readers_see_the_same_rows_at_each_step(archive: Archive) -> None:
    expected = by_manifest(archive)
    assert len(expected) == 120 == len(set(expected))
    began = [archive.path / file.path for _, file in archive.readable().live_files()]
    tasks = plan(archive.readable(), BEFORE, SIZE)
    assert [(each.folder, len(each.files)) for each in tasks] == [
        (f"address={address}/date=1970-01-0{day}", 5) for day in (1, 2) for address in ("orders%2Feu", "other")
    ]
    compact_all(archive, 3600)
    assert plan(archive.readable(), BEFORE, SIZE) == []
    assert by_manifest(archive) == expected == by_folder(archive)
    assert all(path.exists() for path in began)
    between = [archive.path / file.path for _, file in archive.readable().live_files()]
    verdict = verify(archive)
    assert (verdict.files, verdict.rows, verdict.problems) == (4 + 10, 120, ())

    with maintaining(archive):
        assert list(place_due(archive)) == []  # the grace time is not over
        assert [each.kind for each in place_due(archive, time.time() + 3700)] == [PLACE] * 4
        remove_leftovers(archive, 3600)
    assert by_manifest(archive) == expected == by_folder(archive)
    assert all(path.exists() for path in between)  # reads that began before go on
    assert len(list(archive.path.glob("address=*/date=*/*.parquet"))) == 14
    assert (verify(archive).rows, verify(archive).problems) == (120, ())
    remove_leftovers(archive, 3600, time.time() + 3700)
    assert not (archive.path / "_compacted").exists()
    assert by_manifest(archive) == expected == by_folder(archive)
    assert (verify(archive).rows, verify(archive).problems) == (120, ())


def test_views_that_are_written_meanwhile_have_all_events(archive: Archive) -> None:
    """They had those of one compacted date, and none when its files were in place."""
    for task in plan(archive.readable(), date.max, SIZE):
        compact(archive, task, SIZE, 3600)
    connection = duckdb.connect()
    connection.execute(views_sql(archive.path, "duckdb"))
    for _ in range(2):
        assert connection.execute("SELECT count(*) FROM orders_eu").fetchall() == [(60,)]
        finish(archive)


def test_without_grace_the_old_files_go_at_once(archive: Archive) -> None:
    expected = by_manifest(archive)
    compact_all(archive, 0)
    assert by_manifest(archive) == expected == by_folder(archive)
    assert (verify(archive).files, verify(archive).problems) == (14, ())
    assert not any((archive.path / name).exists() for name in ("_compacted", "_rewriting", "_staging"))
    for _, file in archive.readable().live_files(lambda folder: folder.endswith("01")):
        assert [(part.rows, part.first) for part in file.parts] == [(10, 0), (10, 1)]
        assert (file.earliest, file.latest) == (0, 24)


@pytest.mark.parametrize("changes", aged.KILLS)
@pytest.mark.parametrize("grace", [0, 3600])
def test_kill_at_each_moment_loses_and_doubles_nothing(tmp_path: Path, grace: int, changes: range) -> None:
    path, model = tmp_path / "archive", tmp_path / "model"
    archive = archives.written(model, {"orders/eu": events(0)})
    with archive.writing():
        archives.append(archive, {"orders/eu": events(1)})
    expected, seen = by_manifest(archive), set()

    def renew() -> None:
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(model, path)

    def work() -> None:
        archive = Archive(path)
        finish(archive)
        for task in plan(archive.readable(), date(1970, 1, 2), SIZE):
            compact(archive, task, SIZE, grace)
        finish(archive)

    for at in aged.deaths(work, renew, changes):
        archive = Archive(path)
        assert (by_manifest(archive), verify(archive).problems) == (expected, ()), at
        seen.add(archive.readable().number)
        work()
        assert by_manifest(archive) == expected == by_folder(archive), at
    assert verify(archive).problems == ()
    assert seen == ({2, 3} if grace == 0 else {2, 3, 4})


def test_events_archived_meanwhile_stay(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another job commits to the same date while its files are rewritten, and has the number of the compaction."""
    compare = rewrite.compare
    late: list[object] = []

    def slow(*arguments: Any) -> None:
        compare(*arguments)
        if not late:
            with Archive(archive.path).writing():
                archives.append(Archive(archive.path), {"orders/eu": events(5)})
            late.append(1)

    monkeypatch.setattr(rewrite, "compare", slow)
    expected = len(by_manifest(archive)) + 12
    with archive.writing():  # a writer that knows of neither
        assert archive.history().number == 5
        monkeypatch.setattr(Archive, "tidy", lambda _: None)
    compact_all(archive, 3600)
    assert len(by_manifest(archive)) == expected
    finish(archive)
    assert len(by_manifest(archive)) == expected == len(by_folder(archive))
    assert (verify(archive).rows, verify(archive).problems) == (expected, ())
    kinds = [each.kind for each in archive.commits()]
    assert kinds == [APPEND] * 6 + [COMPACT] * 4 + [PLACE] * 4


def test_a_writer_goes_on_behind_a_compaction(archive: Archive) -> None:
    """Its next commit has the number after that, in its files, too."""
    with archive.writing():
        compact_all(Archive(archive.path), 0)
        staged = archive.stage(6)
        staged.mkdir()
        added = archive.commit(6, staged, [], [])
        assert (added.number, archive.history().number) == (10, 10)
        archives.append(archive, {"orders/eu": events(5)})
    assert {file.path.rpartition("/")[2][:8] for file in archive.commits()[-1].files} == {"00000011"}
    assert (verify(archive).rows, verify(archive).problems) == (132, ())


def test_two_jobs_do_not_rewrite_at_once(archive: Archive) -> None:
    with maintaining(archive), pytest.raises(PipelineError, match="another job compacts, expires or erases in"):
        compact_all(Archive(archive.path), 0)
    (task, *_) = plan(archive.readable(), BEFORE, SIZE)
    compact_all(archive, 0)
    with pytest.raises(PipelineError, match=r"was changed by another job meanwhile|is missing"):
        compact(archive, task, SIZE, 0)
    assert (verify(archive).rows, verify(archive).problems) == (120, ())


def test_what_is_written_differently_is_not_committed(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    write = rewrite.RewrittenFile.write

    def lossy(self: Any, batch: pa.RecordBatch) -> int:
        return write(self, batch.slice(1))

    monkeypatch.setattr(rewrite.RewrittenFile, "write", lossy)
    with pytest.raises(PipelineError, match=r"what was written (differs|has fewer)"):
        compact_all(archive, 0)
    assert archive.readable().number == 5
    assert not (archive.path / "_rewriting").exists()


def test_memory_is_bounded_by_bytes(tmp_path: Path) -> None:
    """Sixty records of 1 MB, in files of two, become files of some 16 MB; compression does not help."""
    import os

    archive = Archive(tmp_path / "archive")
    archive.path.mkdir()
    with archive.writing():
        for number in range(0, 60, 2):
            rows = [EventRow(0, number + each, 7, None, message(os.urandom(1 << 20))) for each in (0, 1)]
            archives.append(archive, {"a": rows})
    before = by_manifest(archive)
    pool, ordinary = pa.proxy_memory_pool(pa.default_memory_pool()), pa.default_memory_pool()
    pa.set_memory_pool(pool)
    try:
        compact_all(archive, 0)
    finally:
        pa.set_memory_pool(ordinary)
    assert pool.max_memory() < 250 << 20
    assert by_manifest(archive) == before
    assert verify(archive).problems == ()
