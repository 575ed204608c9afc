"""The files of an archive: Parquet under `address=…/date=…`, and a manifest of its commits with their offsets.

    _manifest/00000001.json    one commit: ranges of offsets and the files that hold them; written last and whole
    _staging/00000002-…        files being written; readers of Parquet folders ignore names with `_`
    address=orders/date=2026-11-21/00000001-0000.parquet

A commit counts once its manifest is written. Its files are moved to their places afterwards, by the next job if this
one is killed; so no reader sees a file that is half written or belongs to no commit (docs/pipeline.md).
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias
from urllib.parse import unquote

from bridges.spark.archive.ranges import Range
from bridges.spark.errors import PipelineError, sentence
from policies.folders import url_problem

JsonObject: TypeAlias = dict[str, Any]
"""A manifest or a part of it; the classes below check what it contains."""
FORMAT: Final = 1
MANIFEST: Final = "_manifest"
STAGING: Final = "_staging"
_CHUNK: Final = 1 << 20
_GAP_REASON: Final = "fate"
"""The key of `Range.gap_reason` in a manifest."""


@dataclass(frozen=True)
class File:
    """A Parquet file of a commit; `path` is relative to the archive."""

    path: str
    bytes: int
    sha256: str

    @property
    def address(self) -> str:
        """The address of its rows."""
        return unquote(self.path.split("/", 1)[0].removeprefix("address="))


@dataclass(frozen=True)
class Commit:
    """One commit of an archive."""

    number: int
    staging: str
    ranges: tuple[Range, ...]
    files: tuple[File, ...]
    unknown: int = 0
    """Events of an unknown record mapping: their records are unchanged, their columns those of plain records."""


class Archive:
    """A folder that every machine of the job can reach."""

    def __init__(self, path: Path) -> None:
        """Raises `PipelineError` for a URL."""
        if (problem := url_problem(str(path))) is not None:
            raise PipelineError(problem)
        self.path: Final = path

    # -- reading

    def commits(self) -> list[Commit]:
        """All commits in their order. Raises `PipelineError` for an invalid manifest."""
        found = [_read(path) for path in sorted((self.path / MANIFEST).glob("[0-9]*.json"))]
        for number, commit in enumerate(found, 1):
            if commit.number != number:
                raise PipelineError(f"{self.path}: commit {number} is missing from {MANIFEST}")
        return found

    def placed(self) -> list[Commit]:
        """The commits that readers see: without the last one if its files are not in place yet."""
        commits = self.commits()
        if not commits and not (self.path / MANIFEST).is_dir():
            raise PipelineError(f"{self.path} is not an archive: it has no {MANIFEST}")
        if commits and (self.path / STAGING / commits[-1].staging).exists():
            commits.pop()
        return commits

    # -- writing

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Lock the archive for writing; puts files of earlier jobs in place or removes them."""
        try:
            (self.path / MANIFEST).mkdir(parents=True, exist_ok=True)
            lock = (self.path / MANIFEST / ".lock").open("a")
        except OSError as error:
            raise PipelineError(f"{self.path} cannot be written: {sentence(error)}") from None
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise PipelineError(f"another job is writing to {self.path}") from None
            try:
                self._tidy()
            except OSError as error:
                raise PipelineError(f"{self.path}: the last commit is not in place yet: {sentence(error)}") from None
            try:
                yield
            finally:
                with suppress(OSError, PipelineError):  # the next job does it
                    self._tidy()  # a step that failed, on a full disk say, gives back the room it took

    def _tidy(self) -> None:
        commits = self.commits()
        if commits:
            self._place(commits[-1])
        shutil.rmtree(self.path / STAGING, ignore_errors=True)

    def stage(self, number: int) -> Path:
        """A new folder in which the rows of a commit are written first."""
        path = self.path / STAGING / f"{number:08}-{uuid.uuid4().hex[:8]}"
        path.parent.mkdir(exist_ok=True)
        return path

    def staged(self, staging: Path, number: int) -> list[tuple[Path, File]]:
        """The files that were written, with the places they will have."""
        found = []
        for index, source in enumerate(sorted(staging.glob("address=*/date=*/*.parquet"))):
            folder = source.parent.relative_to(staging)
            place = str(folder / f"{number:08}-{index:04}.parquet")
            found.append((source, File(place, source.stat().st_size, digest(source, sync=True))))
        return found

    def commit(
        self,
        number: int,
        staging: Path,
        ranges: Sequence[Range],
        files: Sequence[tuple[Path, File]],
        unknown: int = 0,
    ) -> Commit:
        """Write the manifest of a commit, then put its files in place."""
        staging.mkdir(exist_ok=True)
        for index, (source, _) in enumerate(files):
            source.rename(staging / f"{index:04}.parquet")
        _sync(staging)
        commit = Commit(number, staging.name, tuple(ranges), tuple(file for _, file in files), unknown)
        text = json.dumps({"format": FORMAT, **_as_manifest(commit)}, indent=1)
        write_whole(self.path / MANIFEST / f"{number:08}.json", text)
        self._place(commit)
        return commit

    def _place(self, commit: Commit) -> None:
        staging = self.path / STAGING / commit.staging
        if not staging.exists():
            return
        for index, file in enumerate(commit.files):
            place, source = self.path / file.path, staging / f"{index:04}.parquet"
            if source.exists():
                place.parent.mkdir(parents=True, exist_ok=True)
                source.rename(place)
                _sync(place.parent)
        shutil.rmtree(staging)


def _as_manifest(commit: Commit) -> dict[str, object]:
    found = asdict(commit)
    for each in found["ranges"]:
        each[_GAP_REASON] = each.pop("gap_reason")
    return found


def _range(entry: JsonObject) -> Range:
    reason = entry.pop(_GAP_REASON, "")
    return Range(**entry, gap_reason=reason)


def _read(path: Path) -> Commit:
    try:
        found: JsonObject = json.loads(path.read_bytes())
        version = found.pop("format")
        if version != FORMAT:
            raise PipelineError(f"{path}: manifest of version {version}, this scopegate reads version {FORMAT}")
        ranges = tuple(_range(each) for each in found.pop("ranges"))
        files = tuple(File(**each) for each in found.pop("files"))
        return Commit(**found, ranges=ranges, files=files)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise PipelineError(f"{path}: not a manifest of a commit ({type(error).__name__}: {error})") from None


def file_url(path: Path) -> str:
    """The URL of a local path, which Spark reads the same whatever its default file system is."""
    return f"file://{path.absolute()}"


def write_whole(path: Path, text: str) -> None:
    """Replace a file atomically, for readers and for the disk after a crash. Raises `OSError`."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with fresh.open("w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        fresh.rename(path)
    except OSError:
        fresh.unlink(missing_ok=True)
        raise
    _sync(path.parent)


def digest(path: Path, *, sync: bool = False) -> str:
    """SHA-256 of a file, which is on the disk afterwards if `sync`."""
    found = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            found.update(chunk)
        if sync:
            os.fsync(file.fileno())
    return found.hexdigest()


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
