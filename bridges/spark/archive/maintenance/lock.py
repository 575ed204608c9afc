"""One job at a time rewrites files of an archive in a folder; the job that archives goes on beside it."""

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
"""A commit, and where its files are if they have to be moved."""
_TRIES: Final = 100


def settle(archive: Archive) -> None:
    """Finish the work of a killed job, which can only be determined afterwards."""
    with maintaining(archive):
        pass


def maintaining(archive: Archive) -> AbstractContextManager[None]:
    """Lock a folder against other jobs of this kind, and remove what a killed one left. Raises `PipelineError`."""
    return archive.writer.maintaining()


def committed(archive: Archive, prepare: Callable[[History], Prepared]) -> Commit:
    """Write a commit, prepared anew for as long as other jobs commit before it. Raises `PipelineError`."""

    def once() -> Commit:
        with archive.changing() as history:
            return archive.put(history, *prepare(history))

    return retried(archive, once)


def retried(archive: Archive, once: Callable[[], T]) -> T:
    """What a step returns that is tried again for as long as other jobs commit before it. Raises `PipelineError`."""
    for _ in range(_TRIES):
        try:
            return once()
        except CommitConflict:
            continue
    raise PipelineError(f"other jobs write to {archive.path} all the time")
