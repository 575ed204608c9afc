"""Commits in a folder: locks of the file system, and files that are renamed into their places.

    _manifest/00000001.json    one commit: ranges of offsets and the files that hold them; written last and whole
    _staging/00000002-…        files being written; readers of Parquet folders ignore names with `_`

A commit counts once its manifest is written. Its files are moved to their places afterwards, by the next job if this
one is killed; so no reader sees a file that is half written or belongs to no commit.
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
        self._written: History | None = None
        """Of the writer, which therefore reads the manifest once."""

    def history(self) -> History:
        """The commits. Raises `PipelineError` for an invalid manifest."""
        return self._written or History.read(self._path / MANIFEST)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Lock the archive for writing; puts files of earlier jobs in place or removes them."""
        with self._locked(".lock", "is writing to", create=True):
            try:
                self.tidy()
                self._written = self._opened()
            except OSError as error:
                raise PipelineError(f"{self._path}: the last commit is not in place yet: {sentence(error)}") from None
            try:
                yield
            finally:
                with suppress(OSError, PipelineError):  # the next job does it
                    self.tidy()  # a step that failed, on a full disk say, gives back the room it took
                self._written = None

    @contextmanager
    def _locked(self, name: str, what: str, *, create: bool = False) -> Iterator[None]:
        """Hold the lock file of this name; `what`: what another job does if it holds the lock."""
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
        """Lock the archive against other jobs that rewrite it, and remove what a killed one left."""
        with self._locked(".maintenance", "compacts, expires or erases in"):
            self._remove_rewritten()  # what was committed is in place now
            try:
                yield
            finally:
                self._remove_rewritten()

    def _remove_rewritten(self) -> None:
        with self.changing():
            shutil.rmtree(self._path / REWRITING, ignore_errors=True)

    @contextmanager
    def changing(self) -> Iterator[History]:
        """Lock the manifest for one commit, of this job or of another; yields the commits that there are now."""
        with (self._path / MANIFEST / ".commit").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # held for as long as files take to be renamed
            if (last := History.last(self._path / MANIFEST)) is not None:
                self._place(last)
            if self._written is None or not self._written.is_current():
                self._written = self._written and self._written.followed()
            yield self.history()

    def tidy(self) -> None:
        """Put the last commit in place, and remove what was written for none. Call it within `writing()`."""
        with self.changing() as history:
            shutil.rmtree(self._path / STAGING, ignore_errors=True)
            if self._written is not None:
                history.tidy()

    def _opened(self) -> History:
        """The commits, with a checkpoint of those that have none: of an older version, or of a job that was killed."""
        folder = self._path / MANIFEST
        with self.changing():
            while (history := History.read(folder, COMMITS_PER_CHECKPOINT)).due():
                if not checkpointed(history):
                    return History.read(folder)
            history.tidy()
            with suppress(ValueError):  # the next checkpoint fails with it
                history.convert()
            return history

    def stage(self, number: int) -> Path:
        """A new folder in which the rows of a commit are written first."""
        path = self._path / STAGING / f"{number:08}-{uuid.uuid4().hex[:8]}"
        path.parent.mkdir(exist_ok=True)
        return path

    def target(self, staging: StoragePath) -> StagingTarget:
        """Where tasks write the files of a commit."""
        assert isinstance(staging, Path)
        return StagingTarget(staging.absolute())

    @contextmanager
    def rewriting(self) -> Iterator[Path]:
        """A new folder beside the files, so that those can be moved."""
        yield self._path / REWRITING / uuid.uuid4().hex[:8]

    def publish(self, written: Sequence[tuple[Path, File]]) -> list[tuple[Path | None, File]]:
        """They are there already."""
        return list(written)

    def settle(self, files: Sequence[File]) -> None:
        """Nothing: what is left is removed with its folder."""

    def pending(self, name: str) -> bool:
        """No: such files are in a folder of their own."""
        return False

    def put(self, history: History, commit: Commit, sources: Sequence[Path | None]) -> Commit:
        """Write a commit, then put its files in place; without a source, a file is there.

        If another job has committed meanwhile, the commit and its new files get the next number.
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
        """The folder of a commit's files until they are in place."""
        return self._path / (STAGING if commit.kind == APPEND else REWRITING) / (commit.staging or "none")

    def is_placed(self, commit: Commit) -> bool:
        """Whether its files are in place."""
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
            shutil.rmtree(staging)  # from now on, this commit is what readers see
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
        """Make a file of the archive also appear at another place. Raises `OSError`."""
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
        """Bring the names in a folder to the disk. Raises `OSError`."""
        sync_folder(self._path / folder)


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
