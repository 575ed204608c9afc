"""The files of an archive: Parquet under `address=…/date=…`, and a manifest of its commits with their offsets.

    _manifest/00000001.json    one commit: ranges of offsets and the files that hold them; written last and whole
    _staging/00000002-…        files being written; readers of Parquet folders ignore names with `_`
    address=orders/date=2026-11-21/00000001-0000.parquet

A commit counts once its manifest is written. Its files are moved to their places afterwards, by the next job if this
one is killed; so no reader sees a file that is half written or belongs to no commit (docs/pipeline.md). Manifests of
older commits are in segments (bridges.spark.archive.manifest.checkpoint).
"""

from __future__ import annotations

import fcntl
import shutil
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

import pyarrow as pa

from bridges.spark.archive.contents.ranges import Range
from bridges.spark.archive.manifest.commits import APPEND, Commit, File, to_json
from bridges.spark.archive.manifest.disk import digest, manifest_path, sync_folder, write_whole
from bridges.spark.archive.manifest.history import COMMITS_PER_CHECKPOINT, History
from bridges.spark.errors import PipelineError, sentence
from policies.values.folders import url_problem

__all__ = ["MANIFEST", "STAGING", "Archive", "Commit", "File", "digest", "file_url", "write_whole"]

MANIFEST: Final = "_manifest"
STAGING: Final = "_staging"
REWRITING: Final = "_rewriting"
"""As `_staging`, of jobs that rewrite files while others are archived."""


class Archive:
    """A folder that every machine of the job can reach."""

    def __init__(self, path: Path) -> None:
        """Raises `PipelineError` for a URL."""
        if (problem := url_problem(str(path))) is not None:
            raise PipelineError(problem)
        self.path: Final = path
        self._written: History | None = None
        """Of the writer, which therefore reads the manifest once."""

    # -- reading

    def history(self) -> History:
        """The commits. Raises `PipelineError` for an invalid manifest."""
        return self._written or History.read(self.path / MANIFEST)

    def readable(self) -> History:
        """The commits that readers see: without the last one if its files are not in place yet."""
        history = self.history()
        if not history.number and not (self.path / MANIFEST).is_dir():
            raise PipelineError(f"{self.path} is not an archive: it has no {MANIFEST}")
        if history.recent and not self.is_placed(history.recent[-1]):
            return history.without_last()
        return history

    def commits(self) -> list[Commit]:
        """All commits in their order, as they were written. Raises `PipelineError` for an invalid manifest."""
        return list(self.history().commits())

    def placed(self) -> list[Commit]:
        """The commits that readers see, with those of their files that no later commit replaced."""
        return list(self.readable().live_commits())

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
                self.tidy()
                self._written = self._opened()
            except OSError as error:
                raise PipelineError(f"{self.path}: the last commit is not in place yet: {sentence(error)}") from None
            try:
                yield
            finally:
                with suppress(OSError, PipelineError):  # the next job does it
                    self.tidy()  # a step that failed, on a full disk say, gives back the room it took
                self._written = None

    @contextmanager
    def changing(self) -> Iterator[History]:
        """Lock the manifest for one commit, of this job or of another; yields the commits that there are now."""
        with (self.path / MANIFEST / ".commit").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # held for as long as files take to be renamed
            if (last := History.last(self.path / MANIFEST)) is not None:
                self._place(last)
            if self._written is None or not self._written.is_current():
                self._written = self._written and self._written.followed()
            yield self.history()

    def tidy(self) -> None:
        """Put the last commit in place, and remove what was written for none. Call it within `writing()`."""
        with self.changing() as history:
            shutil.rmtree(self.path / STAGING, ignore_errors=True)
            if self._written is not None:
                history.tidy()

    def _opened(self) -> History:
        """The commits, with a checkpoint of those that have none: of an older version, or of a job that was killed."""
        folder = self.path / MANIFEST
        with self.changing():
            while (history := History.read(folder, COMMITS_PER_CHECKPOINT)).due():
                if not _checkpointed(history):
                    return History.read(folder)
            history.tidy()
            with suppress(ValueError):  # the next checkpoint fails with it
                history.convert()
            return history

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
        commit = Commit(number, staging.name, tuple(ranges), tuple(file for _, file in files), unknown)
        return self.add(commit, [source for source, _ in files])

    def add(self, commit: Commit, sources: Sequence[Path | None]) -> Commit:
        """Write a commit whose files are at `sources`, then put them in place; without a source, a file is there.

        If another job has committed meanwhile, the commit and its new files get the next number.
        """
        with self.changing() as history:
            return self.put(history, commit, sources)

    def put(self, history: History, commit: Commit, sources: Sequence[Path | None]) -> Commit:
        """As `add`, within `changing()`."""
        commit = replace(_numbered(commit, history.number + 1, sources), time=time.time_ns() // 1_000_000)
        staging = self.staging_of(commit)
        staging.mkdir(parents=True, exist_ok=True)
        for index, source in enumerate(sources):
            if source is not None:
                source.rename(staging / f"{index:04}.parquet")
        sync_folder(staging)
        self.write(history, commit)
        self._place(commit)
        if history.due():
            _checkpointed(history)
        return commit

    def write(self, history: History, commit: Commit) -> None:
        """Write the manifest of a commit. Call it within `changing()`."""
        written, self._written = self._written, None  # if this fails, the manifest is read again
        write_whole(manifest_path(self.path / MANIFEST, commit.number), to_json(commit))
        history.add(commit)
        self._written = written

    def staging_of(self, commit: Commit) -> Path:
        """The folder of a commit's files until they are in place."""
        return self.path / (STAGING if commit.kind == APPEND else REWRITING) / (commit.staging or "none")

    def is_placed(self, commit: Commit) -> bool:
        """Whether its files are in place."""
        return not self.staging_of(commit).exists()

    def _place(self, commit: Commit) -> None:
        staging = self.staging_of(commit)
        if staging.exists():
            for index, file in enumerate(commit.files):
                place, source = self.path / file.path, staging / f"{index:04}.parquet"
                if source.exists():
                    place.parent.mkdir(parents=True, exist_ok=True)
                    source.rename(place)
                    sync_folder(place.parent)
            shutil.rmtree(staging)  # from now on, this commit is what readers see
        for folder in commit.replaced if not commit.is_deferred else ():
            self.remove_replaced(commit, folder)

    def remove_replaced(self, commit: Commit, folder: str) -> None:
        """Delete the files of earlier commits in a folder that a commit replaces; unknown files stay."""
        left = {self.path / file.path for file in commit.files}
        for path in (self.path / folder).glob("[0-9]*.parquet"):
            number = path.name.split("-")[0]
            if number.isdigit() and int(number) < commit.number and path not in left:
                path.unlink(missing_ok=True)
        with suppress(OSError):  # not empty, or gone
            (self.path / folder).rmdir()


def _numbered(commit: Commit, number: int, sources: Sequence[Path | None]) -> Commit:
    """The commit with another number, which is also in the names of its new files."""
    if commit.number == number:
        return commit
    files = [
        file if source is None else replace(file, path=_renamed(file.path, number))
        for file, source in zip(commit.files, sources, strict=True)
    ]
    return replace(commit, number=number, files=tuple(files))


def _renamed(path: str, number: int) -> str:
    folder, _, name = path.rpartition("/")
    return f"{folder}/{number:08}-{name.partition('-')[2]}"


def _checkpointed(history: History) -> bool:
    """Write a checkpoint; a disk that is full does not fail the commit, the next one tries again."""
    try:
        history.write_checkpoint()
    except (OSError, pa.ArrowException, ValueError):
        return False
    return True


def file_url(path: Path) -> str:
    """The URL of a local path, which Spark reads the same whatever its default file system is."""
    return f"file://{path.absolute()}"
