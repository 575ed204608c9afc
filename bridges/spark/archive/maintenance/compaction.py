"""Compaction: rewrites the files of past dates into a few large ones; readers are not disturbed.

A commit of the kind `compact` has the new files, in `_compacted`, which readers of folders ignore; readers that use
the manifest read them from now on. The old files stay for a grace time, for reads that began earlier. Then a commit
of the kind `place` puts the new files where the old ones were. Without a grace time, both happen in one commit.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from pathlib import Path
from typing import Final

from bridges.spark.archive.delta import followed
from bridges.spark.archive.iceberg import iceberg_commit, is_iceberg
from bridges.spark.archive.maintenance.lock import Prepared, committed, maintaining, retried
from bridges.spark.archive.maintenance.rewrite import rewrite
from bridges.spark.archive.manifest.commits import COMPACT, COMPACTED, PLACE, Commit, File, address_of, date_of
from bridges.spark.archive.manifest.history import History
from bridges.spark.archive.storage.s3 import ObjectPath
from bridges.spark.archive.store import Archive
from bridges.spark.archive.writers.objects import FORGOTTEN
from bridges.spark.errors import PipelineError

_SMALL: Final = 2
"""A file is small if it is below the wanted size divided by this."""


@dataclass(frozen=True)
class CompactionTask:
    """The files of one address and date that are to be compacted."""

    folder: str
    files: tuple[File, ...]

    @property
    def bytes(self) -> int:
        """The total size of its files."""
        return sum(each.bytes for each in self.files)


def plan(history: History, before: date, file_bytes: int, address: str | None = None) -> list[CompactionTask]:
    """The tasks, in the order of their dates: dates before this one with at least two small files."""
    found: dict[str, list[File]] = {}
    for _, file in history.live_files(lambda folder: is_closed(folder, before, address)):
        found.setdefault(file.folder, []).append(file)
    tasks = [CompactionTask(folder, tuple(files)) for folder, files in found.items()]
    waiting = history.summary.deferred
    wanted = [each for each in tasks if each.folder not in waiting and _is_worth_it(each, file_bytes)]
    return sorted(wanted, key=lambda each: (date_of(each.folder), each.folder))


def is_closed(folder: str, before: date, address: str | None = None) -> bool:
    """Whether a folder has this address and an earlier date; the folder without a date never counts."""
    with suppress(ValueError):
        return date.fromisoformat(date_of(folder)) < before and address in (None, address_of(folder))
    return False


def _is_worth_it(task: CompactionTask, file_bytes: int) -> bool:
    small = [each for each in task.files if each.bytes * _SMALL < file_bytes]
    return len(small) > 1 and -(-task.bytes // file_bytes) < len(task.files)


def compact(archive: Archive, task: CompactionTask, file_bytes: int, grace: float) -> Commit:
    """Rewrite the files of one task and commit them. Raises `PipelineError`, which leaves the archive unchanged."""
    name = uuid.uuid4().hex[:8]
    with maintaining(archive), archive.writer.rewriting() as target:
        folder = f"{COMPACTED}/{name}/{task.folder}" if grace else task.folder
        due = {"due": str(time.time_ns() // 1_000_000 + int(grace * 1000))} if grace else {}
        written = rewrite([archive.path / file.path for file in task.files], target, folder, file_bytes)
        published = archive.writer.publish(written)

        def prepared(history: History) -> Prepared:
            added = added_since(history, task)
            files = (*(file for _, file in published), *added)
            commit = Commit(0, f"{name}-placing", (), files, kind=COMPACT, replaced=(task.folder,), note=due)
            return commit, [*(path for path, _ in published), *[None] * len(added)]

        commit = committed(archive, prepared)
        archive.writer.settle([file for _, file in published])
        return commit


def added_since(history: History, task: CompactionTask) -> list[File]:
    """Files that were added to the folder meanwhile. Raises `PipelineError` if others were replaced."""
    now = [file for _, file in history.live_files(lambda folder: folder == task.folder)]
    if set(task.files) - set(now):
        raise PipelineError(f"{task.folder} was changed by another job meanwhile: start again")
    return [file for file in now if file not in set(task.files)]


def place_due(archive: Archive, now: float | None = None, *, at_once: bool = False) -> Iterator[Commit]:
    """Put compacted files where the old ones were, if their grace time is over at `now` (seconds since 1970)."""
    moment = time.time() if now is None else now
    for folder, due in list(archive.history().summary.deferred.items()):
        if at_once or due <= moment * 1000:
            commit = retried(archive, partial(_place, archive, folder))
            if commit is not None:
                yield commit


def _place(archive: Archive, folder: str) -> Commit | None:
    with archive.changing() as history:
        if folder not in history.summary.deferred or not _tables_follow(archive, history.summary.replaced[folder]):
            return None
        files = []
        for _, file in history.live_files(lambda each: each == folder):
            place = replace(file, path=f"{folder}/{file.path.rpartition('/')[2]}")
            if place.path != file.path:
                archive.writer.link(file.path, place.path)
            files.append(place)
        archive.writer.sync(folder)
        number, now = history.number + 1, time.time_ns() // 1_000_000
        commit = Commit(number, "", (), tuple(files), kind=PLACE, replaced=(folder,), time=now)
        archive.writer.remove_replaced(commit, folder)
        archive.writer.write(history, commit)
        return commit


def _tables_follow(archive: Archive, number: int) -> bool:
    """Whether the tables include the commits up to one that replaced files; otherwise they may still name these."""
    return followed(archive, number) and (not is_iceberg(archive) or iceberg_commit(archive) >= number)


def remove_leftovers(archive: Archive, grace: float, now: float | None = None) -> None:
    """Remove the copies of compacted files placed longer ago than the grace time, and files of no commit."""
    moment = time.time() if now is None else now
    history, base = archive.history(), archive.path / COMPACTED
    used = {file.path for _, file in history.live_files()}
    known = {file.path for file in history.known_files()} if isinstance(base, ObjectPath) else used
    for path in base.glob("*/address=*/date=*/*.parquet"):
        name = str(path).removeprefix(f"{archive.path}/")
        running = isinstance(path, ObjectPath) and name not in known  # may be of a job that is about to commit it
        if name not in used and path.stat().st_ctime + (max(grace, FORGOTTEN) if running else grace) <= moment:
            path.unlink(missing_ok=True)
    for folder in sorted(base.glob("**/"), reverse=True) if isinstance(base, Path) else ():
        with suppress(OSError):  # not empty
            folder.rmdir()
