"""The files of an archive: Parquet under `address=…/date=…`, and a manifest of its commits with their offsets.

    _manifest/00000001.json    one commit: ranges of offsets and the files that hold them; written last and whole
    address=orders/date=2026-11-21/00000001-0000.parquet

A commit counts once its manifest is written (docs/pipeline.md). Manifests of older commits are in segments
(bridges.spark.archive.manifest.checkpoint). How a commit is written depends on the storage
(bridges.spark.archive.writers).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from bridges.spark.archive.contents.ranges import Range
from bridges.spark.archive.manifest.commits import Commit, File
from bridges.spark.archive.manifest.history import History
from bridges.spark.archive.storage.paths import StoragePath, digest, write_whole
from bridges.spark.archive.writers.folder import FolderWriter
from bridges.spark.archive.writers.objects import ObjectWriter
from bridges.spark.archive.writers.protocol import MANIFEST, REWRITING, STAGING, CommitWriter
from bridges.spark.errors import PipelineError
from policies.values.folders import url_problem

__all__ = ["MANIFEST", "REWRITING", "STAGING", "Archive", "Commit", "File", "digest", "file_url", "write_whole"]


class Archive:
    """A folder that every machine of the job can reach, or a prefix in a bucket of an object store."""

    def __init__(self, path: StoragePath) -> None:
        """Raises `PipelineError` for a URL that is not an archive's."""
        if isinstance(path, Path) and (problem := url_problem(str(path))) is not None:
            raise PipelineError(problem)
        self.path: Final = path
        self.writer: Final[CommitWriter] = FolderWriter(path) if isinstance(path, Path) else ObjectWriter(path)

    # -- reading

    def history(self) -> History:
        """The commits. Raises `PipelineError` for an invalid manifest."""
        return self.writer.history()

    def readable(self) -> History:
        """The commits that readers see, without the last one while its files are not in place."""
        history = self.history()
        if not history.number and not (self.path / MANIFEST).is_dir():
            raise PipelineError(f"{self.path} is not an archive: it has no {MANIFEST}")
        if history.recent and not self.writer.is_placed(history.recent[-1]):
            return history.without_last()
        return history

    def check_address(self, address: str) -> None:
        """Raise `PipelineError` if the archive has never had this address."""
        known = sorted({name for name, _ in self.readable().ends})
        if address not in known:
            raise PipelineError(f"the archive has no address {address} (it has: {', '.join(known) or 'none'})")

    def commits(self) -> list[Commit]:
        """All commits in their order, as they were written. Raises `PipelineError` for an invalid manifest."""
        return list(self.history().commits())

    def placed(self) -> list[Commit]:
        """The commits that readers see, each with its live files only."""
        return list(self.readable().live_commits())

    # -- writing

    def writing(self) -> AbstractContextManager[None]:
        """Become the only job that archives; puts files of earlier jobs in place or removes them."""
        return self.writer.writing()

    def changing(self) -> AbstractContextManager[History]:
        """Prepare one commit, given the current commits."""
        return self.writer.changing()

    def tidy(self) -> None:
        """Put the last commit in place, and remove files of no commit. Call it within `writing()`."""
        self.writer.tidy()

    def stage(self, number: int) -> StoragePath:
        """A new staging place for the files of a commit."""
        return self.writer.stage(number)

    def commit(
        self,
        number: int,
        staging: StoragePath,
        ranges: Sequence[Range],
        files: Sequence[tuple[Path | None, File]],
        unknown: int = 0,
    ) -> Commit:
        """Write the manifest of a commit, then put its files in place."""
        commit = Commit(number, staging.name, tuple(ranges), tuple(file for _, file in files), unknown)
        return self.add(commit, [source for source, _ in files])

    def add(self, commit: Commit, sources: Sequence[Path | None]) -> Commit:
        """Write a commit whose files are at `sources`, then put them in place; files without a source are in place.

        If another job has committed in the meantime, the commit gets the next number.
        """
        with self.changing() as history:
            return self.put(history, commit, sources)

    def put(self, history: History, commit: Commit, sources: Sequence[Path | None]) -> Commit:
        """As `add`, for callers within `changing()`."""
        return self.writer.put(history, commit, sources)


def file_url(path: StoragePath) -> str:
    """The `file:` URL of a path, so that Spark's default file system does not matter."""
    return f"file://{path.absolute()}" if isinstance(path, Path) else str(path)
