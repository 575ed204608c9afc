"""Commits in a folder: locks of the file system, and files that are renamed into their places.

    _manifest/00000001.json    one commit: ranges of offsets and the files that hold them; written last and whole
    _staging/00000002-…        files being written; readers of Parquet folders ignore names with `_`

A commit counts once its manifest is written. Its files are moved to their places afterwards, by the next job if this
one is killed; so no reader sees a file that is incomplete or belongs to no commit.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from bridges.spark.archive.manifest.commits import APPEND, Commit, File, to_json
from bridges.spark.archive.manifest.disk import manifest_path
from bridges.spark.archive.manifest.history import COMMITS_PER_CHECKPOINT, History
from bridges.spark.archive.storage.paths import StoragePath, sync_folder, write_whole
from bridges.spark.archive.write.targets import StagingTarget
from bridges.spark.archive.writers.protocol import MANIFEST, REWRITING, STAGING, checkpointed
from bridges.spark.errors import PipelineError, sentence


class FolderWriter:
    """A folder that every machine of the job can reach."""

    def __init__(self, path: Path) -> None:
        self._path: Final = path
        self.keeps_versions = False
        self._written: History | None = None
        """The history, cached while this job writes, so that it reads the manifest only once."""

    def history(self) -> History:
        """The commits. Raises `PipelineError` for an invalid manifest."""
        return self._written or History.read(self._path / MANIFEST)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Lock the archive for writing; first puts files of earlier jobs in place or removes them."""
        with self._locked(".lock", "is writing to", create=True):
            try:
                self.tidy()
                self._written = self._opened()
            except OSError as error:
                raise PipelineError(f"{self._path}: the last commit is not in place yet: {sentence(error)}") from None
            try:
                yield
            finally:
                with suppress(OSError, PipelineError):  # otherwise, the next job does it
                    self.tidy()  # frees the space of a step that failed, for example on a full disk
                self._written = None

    @contextmanager
    def _locked(self, name: str, what: str, *, create: bool = False) -> Iterator[None]:
        """Hold the lock file of this name; `what`: the activity of another job that holds it, for the error."""
        try:
            if create:
                (self._path / MANIFEST).mkdir(parents=True, exist_ok=True)
            lock = (self._path / MANIFEST / name).open("a")
        except OSError as error:
            raise PipelineError(f"{self._path} cannot be written: {sentence(error)}") from None
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise PipelineError(f"another job {what} {self._path}") from None
            yield

    @contextmanager
    def maintaining(self) -> Iterator[None]:
        """Lock the archive against other jobs that rewrite it, and clean up after killed ones."""
        with self._locked(".maintenance", "compacts, expires or erases in"):
            self._remove_rewritten()  # committed files are in place now
            try:
                yield
            finally:
                self._remove_rewritten()

    def _remove_rewritten(self) -> None:
        with self.changing():
            shutil.rmtree(self._path / REWRITING, ignore_errors=True)

    @contextmanager
    def changing(self) -> Iterator[History]:
        """Lock the manifest while one commit is written; yields the current commits."""
        with (self._path / MANIFEST / ".commit").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # held only while files are renamed
            if (last := History.last(self._path / MANIFEST)) is not None:
                self._place(last)
            if self._written is None or not self._written.is_current():
                self._written = self._written and self._written.followed()
            yield self.history()

    def tidy(self) -> None:
        """Put the last commit in place, and remove files of no commit. Call it within `writing()`."""
        with self.changing() as history:
            shutil.rmtree(self._path / STAGING, ignore_errors=True)
            if self._written is not None:
                history.tidy()

    def _opened(self) -> History:
        """The commits, after writing a checkpoint that an older version or a killed job left out."""
        folder = self._path / MANIFEST
        with self.changing():
            while (history := History.read(folder, COMMITS_PER_CHECKPOINT)).due():
                if not checkpointed(history):
                    return History.read(folder)
            history.tidy()
            with suppress(ValueError):  # reported by the next checkpoint
                history.convert()
            return history

    def stage(self, number: int) -> Path:
        """A new staging folder for the files of a commit."""
        path = self._path / STAGING / f"{number:08}-{uuid.uuid4().hex[:8]}"
        path.parent.mkdir(exist_ok=True)
        return path

    def target(self, staging: StoragePath) -> StagingTarget:
        """Where tasks write the files of a commit."""
        assert isinstance(staging, Path)
        return StagingTarget(staging.absolute())

    @contextmanager
    def rewriting(self) -> Iterator[Path]:
        """A new folder in the same file system, so that the files can be moved."""
        yield self._path / REWRITING / uuid.uuid4().hex[:8]

    def publish(self, written: Sequence[tuple[Path, File]]) -> list[tuple[Path | None, File]]:
        """Do nothing: the files are in the archive's folder already."""
        return list(written)

    def settle(self, files: Sequence[File]) -> None:
        """Do nothing: remaining files are removed with their folder."""

    def pending(self, name: str) -> bool:
        """False: uncommitted files are in a separate folder."""
        return False

    def put(self, history: History, commit: Commit, sources: Sequence[Path | None]) -> Commit:
        """Write a commit, then put its files in place; files without a source are in place.

        If another job has committed in the meantime, the commit and its new files get the next number.
        """
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
            checkpointed(history)
        return commit

    def write(self, history: History, commit: Commit) -> None:
        """Write the manifest of a commit. Call it within `changing()`."""
        written, self._written = self._written, None  # if this fails, the manifest is read again
        write_whole(manifest_path(self._path / MANIFEST, commit.number), to_json(commit))
        history.add(commit)
        self._written = written

    def staging_of(self, commit: Commit) -> Path:
        """The staging folder of a commit."""
        return self._path / (STAGING if commit.kind == APPEND else REWRITING) / (commit.staging or "none")

    def is_placed(self, commit: Commit) -> bool:
        """Whether the files of a commit are in place."""
        return not self.staging_of(commit).exists()

    def _place(self, commit: Commit) -> None:
        staging = self.staging_of(commit)
        if staging.exists():
            for index, file in enumerate(commit.files):
                place, source = self._path / file.path, staging / f"{index:04}.parquet"
                if source.exists():
                    place.parent.mkdir(parents=True, exist_ok=True)
                    source.rename(place)
                    sync_folder(place.parent)
            shutil.rmtree(staging)  # from now on, readers see this commit
        for folder in commit.replaced if not commit.is_deferred else ():
            self.remove_replaced(commit, folder)

    def remove_replaced(self, commit: Commit, folder: str) -> None:
        """Delete the files of earlier commits in a folder that a commit replaces; unknown files stay."""
        left = {self._path / file.path for file in commit.files}
        for path in (self._path / folder).glob("[0-9]*.parquet"):
            number = path.name.split("-")[0]
            if number.isdigit() and int(number) < commit.number and path not in left:
                path.unlink(missing_ok=True)
        with suppress(OSError):  # not empty, or gone
            (self._path / folder).rmdir()

    def link(self, source: str, place: str) -> None:
        """Link a file of the archive to a second path. Raises `OSError`."""
        made = self._path / place
        if made.exists():
            return
        made.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(self._path / source, made)
        except OSError:  # the file system has no hard links
            fresh = made.with_name(f".{made.name}")
            shutil.copyfile(self._path / source, fresh)
            fresh.rename(made)

    def sync(self, folder: str) -> None:
        """Flush a folder's entries to disk. Raises `OSError`."""
        sync_folder(self._path / folder)


def _numbered(commit: Commit, number: int, sources: Sequence[Path | None]) -> Commit:
    """The commit with another number, which the names of its new files contain as well."""
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
