"""`verify` names each file below an archive's folder that is in no commit and that a reader may read."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest

from bridges.spark.archive.store import Archive
from bridges.spark.archive.verification import verify
from bridges.spark.columns.rows import EventRow
from tests.support.amqp.messages import message
from tests.support.spark import archives

DATE = "address=grow/date=1970-01-01"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "archive"
    archives.written(path, {"grow": [EventRow(0, each, 0, None, message(b"x")) for each in range(5)]})
    return path


@pytest.fixture
def archive(model: Path, tmp_path: Path) -> Archive:
    shutil.copytree(model, tmp_path / "archive")
    assert verify(Archive(tmp_path / "archive")).problems == ()
    return Archive(tmp_path / "archive")


def put(archive: Archive, name: str) -> None:
    """Copy a file of the archive to this place."""
    assert isinstance(archive.path, Path)
    (archive.path / name).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(archive.path / archive.commits()[0].files[0].path, archive.path / name)


@pytest.mark.parametrize(
    "name",
    [
        f"{DATE}/zzz", f"{DATE}/copy.parquet.bak", f"{DATE}/copy.PARQUET", f"{DATE}/copy.parquet",
        f"{DATE}/sub/a.parquet", f"{DATE}/x=1/a.parquet", f"{DATE}/_a.parquet", f"{DATE}/.a.parquet",
        "address=grow/sub/a.parquet", "address=grow/month=1/a.parquet", "address=grow/zzz.parquet",
        "other/a.parquet", "zzz.parquet", "_x=1/a.parquet", "Address=grow/date=1970-01-01/a.parquet",
        "_manifest/2.json", "_manifest/00000000.json", "_manifest/a.parquet",
        "_manifest/segments/a.parquet", "_manifest/sub/00000001.json",
    ],
)  # fmt: skip
def test_a_file_of_no_commit_is_named_wherever_it_is(archive: Archive, name: str) -> None:
    """Only `address=*/date=*/*.parquet` was looked at, while readers of folders look everywhere."""
    put(archive, name)
    assert verify(archive).problems == (f"{archive.path / name}: in no commit",)


@pytest.mark.parametrize(
    "name",
    [
        "_x/a.parquet", ".snapshot/a.parquet", "_SUCCESS", f"{DATE}/_SUCCESS", f"{DATE}/.copy.parquet.crc",
        f"{DATE}/.00000001-0000.parquet", "_manifest/.00000007.json.123", "_manifest/segments/.a.parquet.1",
        "_manifest/segments/00000001-00000002.parquet",
    ],
)  # fmt: skip
def test_what_no_reader_reads_is_no_mistake(archive: Archive, name: str) -> None:
    put(archive, name)
    assert verify(archive).problems == ()


def test_links_are_followed_as_readers_do(archive: Archive, tmp_path: Path) -> None:
    assert isinstance(archive.path, Path)
    (archive.path / DATE).rename(tmp_path / "elsewhere")
    (archive.path / DATE).symlink_to(tmp_path / "elsewhere")
    assert verify(archive).problems == ()
    (archive.path / "address=copy").symlink_to(archive.path / "address=grow")
    (archive.path / DATE / "loop").symlink_to(archive.path / DATE)
    (archive.path / "self").symlink_to(archive.path / "self")
    found = {each.removeprefix(f"{archive.path}/") for each in verify(archive).problems}
    name = archive.commits()[0].files[0].path.removeprefix("address=grow/")
    assert found == {
        f"address=copy/{name}: in no commit", "address=copy/date=1970-01-01/loop: in no commit",
        f"{DATE}/loop: in no commit", "self: in no commit",
    }  # fmt: skip


def test_a_folder_that_cannot_be_listed_is_named(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system says so itself here: to root, as which the suite often runs, no folder is closed."""
    assert isinstance(archive.path, Path)
    closed, scandir = archive.path / "closed", os.scandir
    closed.mkdir()

    def refuses(path: str | Path) -> object:
        if Path(path) == closed:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(closed))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuses)
    assert verify(archive).problems == (f"{closed}: in no commit",)
