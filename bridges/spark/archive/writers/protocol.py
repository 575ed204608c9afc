"""What an archive needs of the storage that it is in, beside files that can be read."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final, Protocol

import pyarrow as pa

from bridges.spark.archive.manifest.commits import Commit, File
from bridges.spark.archive.manifest.history import History
from bridges.spark.archive.storage.paths import StoragePath
from bridges.spark.archive.write.targets import FileTarget

MANIFEST: Final = "_manifest"
STAGING: Final = "_staging"
REWRITING: Final = "_rewriting"
"""As `_staging`, of jobs that rewrite files while others are archived."""


class CommitWriter(Protocol):
    """Adds commits, so that each has its number alone and readers see it whole or not at all."""

    def history(self) -> History:
        """The commits. Raises `PipelineError` for an invalid manifest."""

    def writing(self) -> AbstractContextManager[None]:
        """Be the only job that archives; what earlier jobs left half done is finished or removed."""

    def maintaining(self) -> AbstractContextManager[None]:
        """Rewrite files, while another job may archive."""

    def changing(self) -> AbstractContextManager[History]:
        """Prepare one commit, with the commits that there are now."""

    def tidy(self) -> None:
        """Finish the last commit, and remove what was written for none. Call it within `writing()`."""

    def stage(self, number: int) -> StoragePath:
        """A new place for what belongs to a commit until it is written."""

    def target(self, staging: StoragePath) -> FileTarget:
        """Where tasks write the files of a commit."""

    def rewriting(self) -> AbstractContextManager[Path]:
        """A new folder of this machine for files that a commit will have."""

    def publish(self, written: Sequence[tuple[Path, File]]) -> list[tuple[Path | None, File]]:
        """Bring rewritten files to the archive's storage, as `put` takes them. Raises `OSError`."""

    def settle(self, files: Sequence[File]) -> None:
        """Called when a commit with published files is written, or never will be. Raises `OSError`."""

    def pending(self, name: str) -> bool:
        """Whether a file of this name that is in no commit is of a job that runs, or was killed."""

    def put(self, history: History, commit: Commit, sources: Sequence[Path | None]) -> Commit:
        """Write a commit, within `changing()`; its files are at `sources`, or in their places.

        Its number is the next one. Raises `CommitConflict` if another job took that meanwhile: prepare it anew.
        """

    def write(self, history: History, commit: Commit) -> None:
        """Write the manifest of a commit that has no files to move. Raises as `put`."""

    def is_placed(self, commit: Commit) -> bool:
        """Whether readers may read its files."""

    def remove_replaced(self, commit: Commit, folder: str) -> None:
        """Delete the files of earlier commits in a folder that a commit replaces; unknown files stay."""

    def link(self, source: str, place: str) -> None:
        """Make a file of the archive also appear at another place. Raises `OSError`."""

    def sync(self, folder: str) -> None:
        """Make sure that names in a folder stay. Raises `OSError`."""


class CommitConflict(Exception):
    """Another job has written a commit meanwhile, so this one has to be prepared anew."""


def checkpointed(history: History) -> bool:
    """Write a checkpoint; a disk that is full does not fail the commit, the next one tries again."""
    try:
        history.write_checkpoint()
    except (OSError, pa.ArrowException, ValueError):
        return False
    return True
