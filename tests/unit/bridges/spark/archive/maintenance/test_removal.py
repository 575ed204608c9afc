"""Dates and keys are deleted on purpose: nothing of them is left, verify knows, and nothing else is gone."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
from datetime import date
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from bridges.spark.archive import verification
from bridges.spark.archive.contents import file_rows
from bridges.spark.archive.contents.file_layout import STORED
from bridges.spark.archive.maintenance import rewrite
from bridges.spark.archive.maintenance.compaction import compact, plan
from bridges.spark.archive.maintenance.lock import settle
from bridges.spark.archive.maintenance.removal import erase, expire, plan_erasure, plan_expiry
from bridges.spark.archive.manifest.commits import ERASE, EXPIRE
from bridges.spark.archive.store import Archive
from bridges.spark.archive.verification import verify
from bridges.spark.columns.rows import EventRow
from bridges.spark.errors import PipelineError
from tests.support.amqp.messages import message
from tests.support.spark import aged, archives
from tests.support.spark.pipeline import here

DAY = 86_400_000
SECRET = b"Jane Doe"


def events(number: int) -> list[EventRow]:
    """Two dates, two partitions; every third event of the first has the key."""
    return [
        EventRow(each % 2, number * 6 + each // 2, (each % 4 // 2) * DAY, key, message(b""))
        for each, key in enumerate([SECRET, b"k", b"k"] * 4)
    ]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "archive"
    archive = archives.written(path, {"orders": events(0), "other": events(0)})
    with archive.writing():
        archives.append(archive, {"orders": events(1)})
    return path


@pytest.fixture
def archive(model: Path, tmp_path: Path) -> Archive:
    shutil.copytree(model, tmp_path / "archive")
    return Archive(tmp_path / "archive")


def holding(path: Path, data: bytes) -> list[str]:
    """The files below the archive in which the bytes are; Parquet keeps small values as they are."""
    return [str(each) for each in path.rglob("*") if each.is_file() and data in each.read_bytes()]


def test_a_check_that_meets_a_removal_begins_again(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    """It told that files were missing which the removal had replaced."""
    removals, real = list(plan_erasure(archive, SECRET)), verification.digest

    def digest(path: Path) -> str:
        if removals:
            list(erase(archive, SECRET, [removals.pop()]))
        return real(path)

    monkeypatch.setattr(verification, "digest", digest)
    verdict = verify(archive)
    assert (verdict.rows, verdict.problems, removals) == (24, (), [])
    removals += plan_expiry(archive, date(1970, 1, 2))
    monkeypatch.setattr(verification, "_TRIES", 1)
    with pytest.raises(PipelineError, match=r"other jobs keep replacing files of .* try again after compact"):
        verify(archive)


def test_what_is_left_is_in_files_of_the_wanted_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_rows, "BATCH", 1 << 14)
    monkeypatch.setattr(rewrite, "ROW_GROUP", 1 << 14)
    chance = random.Random(1)
    rows = [EventRow(0, at, 0, SECRET if at == 3 else b"k", message(chance.randbytes(1000))) for at in range(300)]
    archive = archives.written(tmp_path / "archive", {"orders": rows})
    (commit,) = erase(archive, SECRET, list(plan_erasure(archive, SECRET)), 100_000)
    assert len(commit.files) > 3
    assert max(file.bytes for file in commit.files) < 200_000
    assert (verify(archive).rows, verify(archive).problems) == (299, ())


@pytest.mark.parametrize("compacted", [False, True])
def test_files_of_older_versions_are_rewritten_in_the_layout_of_today(tmp_path: Path, compacted: bool) -> None:
    archive = archives.written(tmp_path / "archive", {"orders": events(0)}, old=True)
    with archive.writing():
        archives.append(archive, {"orders": events(1)}, old=True)
    if compacted:
        for task in plan(archive.readable(), date(1970, 2, 1), 1 << 20):
            compact(archive, task, 1 << 20, 0)
    else:
        assert list(erase(archive, SECRET, list(plan_erasure(archive, SECRET))))
    files = [archive.path / file.path for _, file in archive.readable().live_files()]
    assert {tuple(pq.read_schema(file).names) for file in files} == {tuple(STORED.names)}
    assert (verify(archive).rows, verify(archive).problems) == (24 if compacted else 16, ())


@pytest.mark.parametrize("compacted", [False, True])
def test_a_key_is_gone_from_every_file_and_from_nothing_else(archive: Archive, compacted: bool) -> None:
    """Also from the files that a compaction keeps for a while."""
    if compacted:
        for task in plan(archive.readable(), date(1970, 2, 1), 1 << 20):
            compact(archive, task, 1 << 20, 3600)
    assert holding(archive.path, SECRET)
    said = here("erase", archive.path, "--key", SECRET.decode(), "--address", "orders", "--yes")
    assert (said.returncode, said.stderr) == (0, "")
    assert said.stdout.splitlines()[:2] == [f"erase orders, 1970-01-0{day}: 4 events" for day in (1, 2)]
    left = holding(archive.path, SECRET)
    assert left
    assert all("address=other" in path for path in left)
    verdict = verify(archive)
    assert (verdict.rows, verdict.problems, verdict.removed) == (28, (), ((ERASE, 8),))
    note = archive.commits()[-1].note
    assert note["key_sha256"] == hashlib.sha256(bytes.fromhex(note["salt"]) + SECRET).hexdigest()
    assert "@" in note["by"]
    assert here("erase", archive.path, "--key-hex", SECRET.hex(), "--yes").returncode == 0
    assert holding(archive.path, SECRET) == []
    done = here("verify", archive.path)
    assert done.returncode == 0, done.stderr
    assert "12 events were removed: 12 by erase" in done.stdout
    assert here("erase", archive.path, "--key", SECRET.decode()).stdout == "nothing to erase\n"


@pytest.mark.parametrize("options", [("erase", "--key", "k"), ("expire", "--before", "1970-02-01"), ("compact",)])
def test_an_address_that_the_archive_does_not_have_is_a_mistake(archive: Archive, options: tuple[str, ...]) -> None:
    """Who mistypes the address must not believe that the key is gone."""
    command, *more = options
    said = here(command, archive.path, *more, "--address", "order", "--dry-run")
    assert (said.returncode, said.stdout) == (1, "")
    assert said.stderr == "the archive has no address order (it has: orders, other)\n"


def test_dates_are_deleted_whole(archive: Archive) -> None:
    said = here("expire", archive.path, "--before", "1970-01-02", "--dry-run")
    expected = ["would delete orders, 1970-01-01: 12 events", "would delete other, 1970-01-01: 6 events"]
    assert said.stdout.splitlines() == expected
    said = here("expire", archive.path, "--before", "1970-01-02")
    assert (said.returncode, "delete 18 events for ever?" in said.stdout) == (1, True)  # nobody confirms
    assert verify(archive).rows == 36
    said = here("expire", archive.path, "--before", "1970-01-02", "--address", "orders", "--yes")
    assert said.stdout.splitlines()[-1] == "commit 3: 12 events of orders, 1970-01-01 deleted"
    assert not (archive.path / "address=orders/date=1970-01-01").exists()
    verdict = verify(archive)
    assert (verdict.rows, verdict.problems, verdict.removed) == (24, (), ((EXPIRE, 12),))
    assert [(each.address, each.rows, each.end) for each in verdict.ranges] == [
        ("orders", 6, 12), ("orders", 6, 12), ("other", 6, 6), ("other", 6, 6)
    ]  # fmt: skip
    with archive.writing():  # the archive goes on behind what it had
        assert archive.history().ends["orders", 0].end == 12
    (lost, *_) = archive.path.glob("address=other/date=1970-01-01/*.parquet")
    lost.unlink()
    assert verify(archive).problems == (f"commit 1: {lost} is missing",)


def test_what_is_gone_beyond_what_was_erased_is_missed(archive: Archive) -> None:
    """A note of fewer rows than are gone: the sums do not add up."""
    list(erase(archive, SECRET, list(plan_erasure(archive, SECRET))))
    (path, *_) = sorted((archive.path / "_manifest").glob("0*3.json"))
    manifest = json.loads(path.read_text())
    manifest["removed"][0]["rows"] -= 1
    path.write_text(json.dumps(manifest))
    assert verify(archive).problems == (
        "orders, partition 0: 8 rows in the files, 12 in the manifest, of which 3 were removed",
    )


@pytest.mark.parametrize("changes", aged.KILLS)
@pytest.mark.parametrize("what", ["expire", "erase"])
def test_kill_at_each_moment(model: Path, tmp_path: Path, what: str, changes: range) -> None:
    path = tmp_path / "archive"

    def renew() -> None:
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(model, path)

    def work() -> None:
        archive = Archive(path)
        settle(archive)
        if what == "expire":
            list(expire(archive, plan_expiry(archive, date(1970, 1, 2), "orders")))
        else:
            list(erase(archive, SECRET, list(plan_erasure(archive, SECRET, "orders"))))

    seen = set()
    for at in aged.deaths(work, renew, changes):
        verdict = verify(Archive(path))
        assert verdict.problems == (), at
        seen.add(verdict.rows)
        work()
        assert verify(Archive(path)).problems == (), at
        assert verify(Archive(path)).rows == (24 if what == "expire" else 28), at
    assert seen == ({36, 24} if what == "expire" else {36, 32, 28})
