"""Commits in an object store: conditional requests instead of locks, and files under their final names from the start.

    _manifest/00000001.json               one commit; written by a request that fails if there is one of this number
    _staging/00000002-1a2b3c4d.token      a job writes objects whose names contain this
    _staging/….removing                   a job is about to delete these files, which its commit replaces
    address=orders/date=2026-11-21/00000002-1a2b3c4d-5e6f7a8b.parquet

Only a manifest makes files part of the archive: readers use the manifest, not a listing. A job that begins to archive
writes a commit of the kind `open`. No job that began earlier can append after that, so their leftover files can be
removed (docs/decisions/0067-archives-on-object-stores.md).
"""

from __future__ import annotations

import getpass
import json
import math
import socket
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from bridges.spark.archive.manifest.commits import APPEND, COMPACTED, OPEN, Commit, File, folder_of, to_json
from bridges.spark.archive.manifest.disk import manifest_path
from bridges.spark.archive.manifest.history import History
from bridges.spark.archive.storage.paths import StoragePath, create_whole
from bridges.spark.archive.storage.s3 import ObjectPath
from bridges.spark.archive.write.targets import ObjectTarget
from bridges.spark.archive.writers.protocol import MANIFEST, STAGING, CommitConflict, checkpointed
from bridges.spark.archive.writers.temporary import remove_abandoned, temporary_folder
from bridges.spark.errors import PipelineError, sentence

_TRIES: Final = 100
"""Maximum number of attempts to commit while other jobs do."""
FORGOTTEN: Final = 24 * 3600.0
"""Age in seconds at which a job that rewrites files, or a task of a killed job, is considered dead."""
_ARCHIVING: Final = ".token"
"""The token of a job that archives: its leftover files may be removed once another job has begun."""
_REWRITING: Final = ".rewriting"
"""The token of a job that rewrites files: it may commit them as long as it runs."""
_REMOVING: Final = ".removing"
"""The list of the files that a commit replaces: if its job is killed before it has deleted them, another one does."""
_FILES: Final = "address=*/date=*/*.parquet", f"{COMPACTED}/*/address=*/date=*/*.parquet"
"""Where the files of commits are: in place, and for the grace time of a compaction."""


class ObjectWriter:
    """A prefix in a bucket."""

    def __init__(self, path: ObjectPath) -> None:
        self._path: Final = path
        self._written: History | None = None
        """The history, cached while this job writes, so that it reads the manifest only once."""
        self._name: Final = uuid.uuid4().hex
        self.keeps_versions = False
        self._opened = False
        self._unsure = False
        """Whether a request for a manifest failed, and may still arrive."""
        self._since = 0.0
        """The start of the job, by the clock of the store."""

    def history(self) -> History:
        """The commits. Raises `PipelineError` for an invalid manifest or if the store does not answer."""
        if self._written is not None:
            return self._written
        try:
            return History.read(self._path / MANIFEST)
        except OSError as error:
            raise PipelineError(sentence(error)) from error

    # -- archiving

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Become the only job that may append, and remove leftover files of earlier jobs."""
        try:
            self._open()
            self._finish_removals()
            self._remove_leftovers()
        except OSError as error:
            raise PipelineError(f"{self._path} cannot be written: {sentence(error)}") from error
        try:
            yield
        finally:
            with suppress(OSError, PipelineError):  # otherwise, the next job does it
                self.tidy()
            self._written, self._opened = None, False

    def _open(self) -> None:
        """Claim the next number: requests of earlier jobs for it, even those in flight, fail from now on."""
        self._written = None
        history = self.history()
        who = {"writer": self._name, "by": _by()}
        for _ in range(_TRIES):
            self._check_writer(history)  # a job that opens again must not end its successor
            commit = Commit(history.number + 1, "", (), (), kind=OPEN, note=who, time=_now())
            try:
                self.write(history, commit)
            except CommitConflict:
                history = history.followed()
                continue
            self._written, self._opened = history, True
            self._since = manifest_path(self._path / MANIFEST, commit.number).stat().st_ctime
            if history.due():
                checkpointed(history)
            history.tidy()
            return
        raise PipelineError(f"other jobs keep committing to {self._path}: try again later")

    @contextmanager
    def changing(self) -> Iterator[History]:
        """Prepare one commit, given the current commits."""
        if self._written is not None and not self._written.is_current():
            self._written = self._written.followed()
        yield self.history()

    def tidy(self) -> None:
        """Remove files of no commit, after making sure that no pending request can still commit them."""
        if self._unsure:
            self._open()
        self._remove_leftovers()
        with self.changing() as history:
            self._check_writer(history)
            history.tidy()

    def _check_writer(self, history: History) -> None:
        if self._opened and history.summary.writer != self._name:
            raise PipelineError(f"another job has begun to write to {self._path}, which ends this one")

    def stage(self, number: int) -> ObjectPath:
        """The prefix of the names of a commit's files."""
        return self._path / STAGING / f"{number:08}-{uuid.uuid4().hex[:8]}"

    def target(self, staging: StoragePath) -> ObjectTarget:
        """Where tasks write the files of a commit."""
        return ObjectTarget(self._path, self._token(staging.name), staging.name)

    def _token(self, staging: str) -> ObjectPath:
        return self._path / STAGING / f"{staging}{_ARCHIVING}"

    def put(self, history: History, commit: Commit, sources: Sequence[Path | None]) -> Commit:
        """Write a commit, whose files are in place, under the next number."""
        if commit.kind == APPEND:
            self._check_writer(history)
            _check_continues(history, commit)
        commit = replace(commit, number=history.number + 1, time=_now())
        with self._removing(history, commit):
            try:
                self.write(history, commit)
            except CommitConflict:
                if commit.kind != APPEND or not self._opened:
                    raise
                with self.changing() as history:  # written by a maintenance job, or by one that takes over
                    return self.put(history, commit, sources)
        if commit.staging and commit.kind == APPEND:
            self._token(commit.staging).unlink()
        if self._opened and history.due():
            checkpointed(history)
        return commit

    def write(self, history: History, commit: Commit) -> None:
        """Write the manifest of a commit. Raises `CommitConflict` if its number is taken."""
        written, self._written = self._written, None  # if this fails, the manifest is read again
        try:
            create_whole(manifest_path(self._path / MANIFEST, commit.number), to_json(commit))
        except FileExistsError:
            self._written = written
            raise CommitConflict(f"{self._path}: another job has written commit {commit.number}") from None
        except OSError:
            self._unsure = True
            raise
        if (checkpoint := history.latest_checkpoint()) >= commit.number:  # another job has used the number
            raise PipelineError(f"{self._path}: commit {commit.number} came too late, there is checkpoint {checkpoint}")
        history.add(commit)
        self._written, self._unsure = written, False

    def is_placed(self, commit: Commit) -> bool:
        """True: files are in place before their commit is written."""
        return True

    def _remove_leftovers(self) -> None:
        """Remove the objects of jobs that may not append any more, and of this job's steps that failed.

        Objects are listed first: if no other job has begun by then, none of them is of a later job.
        """
        tokens = list((self._path / STAGING).below())
        old = {path for path in tokens if _changed(path) + FORGOTTEN <= self._since}
        names = {path.name.partition(".")[0] for path in tokens if path in old or path.name.endswith(_ARCHIVING)}
        if not names:
            return
        found = (path for pattern in _FILES for path in self._path.glob(pattern))
        files = [path for path in found if _staging_of(path.name) in names]
        with self.changing() as history:
            self._check_writer(history)
            known = {file.path for file in history.known_files()}
        for path in files:
            if path.relative_to(self._path) not in known:
                path.unlink()
        for path in old:
            path.unlink()

    def pending(self, name: str) -> bool:
        """Whether a file of this name may still be committed by a job, or will be removed by the next one."""
        staging = self._path / STAGING
        return any((staging / f"{_staging_of(name)}{suffix}").exists() for suffix in (_ARCHIVING, _REWRITING))

    # -- rewriting

    @contextmanager
    def maintaining(self) -> Iterator[None]:
        """Allow several jobs at once: a commit is prepared again if another one came first."""
        remove_abandoned()
        self._finish_removals()
        yield

    @contextmanager
    def rewriting(self) -> Iterator[Path]:
        """A new folder for temporary files."""
        with temporary_folder() as folder:
            yield folder / "rewriting"

    def publish(self, written: Sequence[tuple[Path, File]]) -> list[tuple[Path | None, File]]:
        """Upload files under unique names."""
        name = f"{0:08}-{uuid.uuid4().hex[:8]}"
        (self._path / STAGING / f"{name}{_REWRITING}").write_bytes(_by().encode())
        found: list[tuple[Path | None, File]] = []
        for index, (path, file) in enumerate(written):
            place = f"{file.path.rpartition('/')[0]}/{name}-{index:04}.parquet"
            with path.open("rb") as source:
                (self._path / place).upload(source)
            found.append((None, replace(file, path=place)))
        return found

    def remove_replaced(self, commit: Commit, folder: str) -> None:
        """Delete the files of earlier commits in a folder that a commit replaces; those of later or no commits stay."""
        left = {file.path for file in commit.files}
        known = {file.path for file in self.history().known_files(folder, commit.number)}
        for path in (self._path / folder).below():
            if (name := path.relative_to(self._path)) in known and name not in left:
                path.unlink()

    @contextmanager
    def _removing(self, history: History, commit: Commit) -> Iterator[None]:
        """After the commit is written, delete the files that it replaces, unless readers may still need them."""
        folders = () if commit.is_deferred else commit.replaced
        if not folders:
            yield
            return
        left = {file.path for file in commit.files}
        gone = [file.path for _, file in history.live_files(lambda folder: folder in folders) if file.path not in left]
        announced = self._path / STAGING / f"{commit.staging}{_REMOVING}"
        self.keeps_versions = announced.write_bytes(json.dumps(gone).encode()) is not None
        try:
            yield
        except CommitConflict:
            announced.unlink()
            raise
        for folder in folders:
            self.remove_replaced(commit, folder)
        announced.unlink()

    def _finish_removals(self) -> None:
        """Delete the files that commits of killed jobs have replaced; those of jobs that have not committed stay."""
        for announced in [path for path in (self._path / STAGING).below() if path.name.endswith(_REMOVING)]:
            with suppress(FileNotFoundError):  # its job has deleted them now
                paths = {str(path): folder_of(str(path)) for path in json.loads(announced.read_bytes())}
                history, folders = self.history(), set(paths.values())
                used = {file.path for _, file in history.live_files(lambda each: each in folders)}  # noqa: B023
                used |= {path for path, folder in paths.items() if folder in history.summary.deferred}
                for path in paths.keys() - used:
                    (self._path / path).unlink()
                if not paths.keys() & used:
                    announced.unlink()

    def settle(self, files: Sequence[File]) -> None:
        """Delete the token of these files: their job has committed them or never will."""
        for name in {_staging_of(file.path.rpartition("/")[2]) for file in files}:
            (self._path / STAGING / f"{name}{_REWRITING}").unlink()

    def link(self, source: str, place: str) -> None:
        """Copy an object, on the side of the store."""
        (self._path / source).copy_to(self._path / place)

    def sync(self, folder: str) -> None:
        """Do nothing: confirmed writes of an object store are durable."""


def _check_continues(history: History, commit: Commit) -> None:
    """Raise `PipelineError` for a commit that does not continue the current end of the archive."""
    ends = {key: each.end for key, each in history.ends.items()}
    for each in commit.ranges:
        key = each.address, each.partition
        if ends.setdefault(key, each.start) != each.start:
            text = f"{each.address}, partition {each.partition}: the archive has gone on to offset {ends[key]}"
            raise PipelineError(f"{text} meanwhile") from CommitConflict()
        ends[key] = each.end


def _changed(path: ObjectPath) -> float:
    """When an object was written, by the clock of the store; one that is gone counts as new."""
    try:
        return path.stat().st_ctime
    except FileNotFoundError:
        return math.inf


def _staging_of(name: str) -> str:
    """The part of an object's name that names its token."""
    return "-".join(name.split("-")[:2])


def _now() -> int:
    return time.time_ns() // 1_000_000


def _by() -> str:
    who = ""
    with suppress(OSError, KeyError):  # a container's user may have no name
        who = getpass.getuser()
    return f"{who}@{socket.gethostname()}"
