"""Locks: one job at a time rewrites files of an archive in a folder, while the archive job may run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final, TypeVar

from bridges.spark.archive.manifest.commits import Commit
from bridges.spark.archive.manifest.history import History
from bridges.spark.archive.store import Archive
from bridges.spark.archive.writers.protocol import CommitConflict
from bridges.spark.errors import PipelineError

T = TypeVar("T")
Prepared = tuple[Commit, Sequence[Path | None]]
"""A commit, and the sources of files that have to be moved."""
_TRIES: Final = 100


def settle(archive: Archive) -> None:
    """Finish the work of a killed job, so that what remains to be done can be determined."""
    with maintaining(archive):
        pass


def maintaining(archive: Archive) -> AbstractContextManager[None]:
    """Lock a folder against other maintenance jobs, and clean up after killed ones. Raises `PipelineError`."""
    return archive.writer.maintaining()


def committed(archive: Archive, prepare: Callable[[History], Prepared]) -> Commit:
    """Write a commit; prepare it again while other jobs commit first. Raises `PipelineError`."""

    def once() -> Commit:
        with archive.changing() as history:
            return archive.put(history, *prepare(history))

    return retried(archive, once)


def retried(archive: Archive, once: Callable[[], T]) -> T:
    """The result of a step, which is retried while other jobs commit first. Raises `PipelineError`."""
    for _ in range(_TRIES):
        try:
            return once()
        except CommitConflict:
            continue
    raise PipelineError(f"other jobs keep committing to {archive.path}: try again later")
