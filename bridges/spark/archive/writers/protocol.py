"""The interface between an archive and its storage, beyond reading files."""

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
"""As `_staging`, for jobs that rewrite files while another job archives."""


class CommitWriter(Protocol):
    """Adds commits atomically and with unique numbers: readers see a commit as a whole or not at all."""

    keeps_versions: bool
    """Whether the storage keeps what the last commit has deleted, as versions that are not current."""

    def history(self) -> History:
        """The commits. Raises `PipelineError` for an invalid manifest."""

    def writing(self) -> AbstractContextManager[None]:
        """Become the only job that archives; unfinished work of earlier jobs is finished or removed."""

    def maintaining(self) -> AbstractContextManager[None]:
        """Rewrite files, while another job may archive."""

    def changing(self) -> AbstractContextManager[History]:
        """Prepare one commit, given the current commits."""

    def tidy(self) -> None:
        """Finish the last commit, and remove files of no commit. Call it within `writing()`."""

    def stage(self, number: int) -> StoragePath:
        """A new staging place for the files of a commit."""

    def target(self, staging: StoragePath) -> FileTarget:
        """Where tasks write the files of a commit."""

    def rewriting(self) -> AbstractContextManager[Path]:
        """A new folder on this machine for files of a future commit."""

    def publish(self, written: Sequence[tuple[Path, File]]) -> list[tuple[Path | None, File]]:
        """Bring rewritten files to the archive's storage, where `put` expects them. Raises `OSError`."""

    def settle(self, files: Sequence[File]) -> None:
        """Called when a commit with published files is written, or never will be. Raises `OSError`."""

    def pending(self, name: str) -> bool:
        """Whether a file of this name, which is in no commit, may belong to a running or killed job."""

    def put(self, history: History, commit: Commit, sources: Sequence[Path | None]) -> Commit:
        """Write a commit, within `changing()`; its files are at `sources`, or in place.

        Its number is the next one. Raises `CommitConflict` if another job has taken it: prepare the commit again.
        """

    def write(self, history: History, commit: Commit) -> None:
        """Write the manifest of a commit that has no files to move. Raises as `put`."""

    def is_placed(self, commit: Commit) -> bool:
        """Whether readers may read its files."""

    def remove_replaced(self, commit: Commit, folder: str) -> None:
        """Delete the files of earlier commits in a folder that a commit replaces; unknown files stay."""

    def link(self, source: str, place: str) -> None:
        """Link or copy a file of the archive to a second path. Raises `OSError`."""

    def sync(self, folder: str) -> None:
        """Make the entries of a folder durable. Raises `OSError`."""


class CommitConflict(Exception):
    """Another job has committed first, so the commit has to be prepared again."""


def checkpointed(history: History) -> bool:
    """Write a checkpoint. An error, such as a full disk, does not fail the commit; the next one tries again."""
    try:
        history.write_checkpoint()
    except (OSError, pa.ArrowException, ValueError):
        return False
    return True
