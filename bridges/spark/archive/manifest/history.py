"""A snapshot of the commits of an archive: a checkpoint, and the manifests after it.

Older commits are read one segment at a time, so memory does not grow with the archive's age.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from bridges.spark.archive.contents.ranges import Range
from bridges.spark.archive.manifest import disk
from bridges.spark.archive.manifest.checkpoint import Checkpoint, ManifestSegment, SegmentRows, Summary, from_table
from bridges.spark.archive.manifest.commits import Commit, File
from bridges.spark.archive.storage.paths import StoragePath, names_in
from bridges.spark.errors import PipelineError

COMMITS_PER_CHECKPOINT: Final = 500
ENTRIES_PER_CHECKPOINT: Final = 20_000
"""Number of ranges and files above which a checkpoint is written early."""
_MANIFEST: Final = re.compile(r"(\d{8,})\.json")
_CHECKPOINT: Final = re.compile(r"checkpoint-(\d{8,})\.json")
_SEGMENT: Final = re.compile(r"\d{8,}-(\d{8,})")
_UNFINISHED: Final = re.compile(r"\.(?:checkpoint-)?\d{8,}\.json\.\d+")
"""Names of files that a killed writer left behind."""
_TRIES: Final = 5
_REMOVED_AT_ONCE: Final = 50
"""Maximum number of manifests that one commit removes after a checkpoint."""


class History:
    """The commits; a writer adds its own, so that it does not read them again."""

    def __init__(self, folder: StoragePath, checkpoint: Checkpoint, tail: list[Commit]) -> None:
        """`folder` is that of the manifest; `tail` are the commits after the checkpoint."""
        self._folder: Final = folder
        self._checkpoint = checkpoint
        self._tail = tail
        self._summary = Summary(checkpoint)
        self._rows = SegmentRows()
        self._converted = 0
        self._covered: list[StoragePath] = []
        """Manifests that a checkpoint covers and that still exist."""
        for commit in tail:
            self._summary.add(commit)

    @classmethod
    def read(cls, folder: StoragePath, most: int | None = None) -> History:
        """Read the manifest's folder, with at most this many commits after the checkpoint. Raises `PipelineError`."""
        for _ in range(_TRIES):
            seen, numbers = _listed(folder)
            try:
                checkpoint = disk.read_checkpoint(disk.checkpoint_path(folder, seen)) if seen else Checkpoint()
                tail = [disk.read_commit(disk.manifest_path(folder, each)) for each in numbers[:most]]
            except FileNotFoundError:  # a writer has made another checkpoint
                continue
            if (gap := _first_gap(checkpoint.number, tail)) is None:
                return cls(folder, checkpoint, tail)
            if _listed(folder)[0] == seen:
                break
        else:
            raise PipelineError(f"{folder}: files of the manifest disappear while they are read; try again")
        raise PipelineError(f"{folder.parent}: commit {gap} is missing from {folder.name}")

    @staticmethod
    def last(folder: StoragePath) -> Commit | None:
        """The last commit, unless a checkpoint covers it. Raises `PipelineError`."""
        _, numbers = _listed(folder)
        return disk.read_commit(disk.manifest_path(folder, numbers[-1])) if numbers else None

    # -- available without reading segments

    @property
    def number(self) -> int:
        """The number of the last commit; 0 if there is none."""
        return self._summary.number

    @property
    def ends(self) -> Mapping[tuple[str, int], Range]:
        """The last range of each partition."""
        return self._summary.ends

    @property
    def summary(self) -> Summary:
        """The summary of the commits."""
        return self._summary

    @property
    def checkpoint(self) -> Checkpoint:
        """The checkpoint that the history begins with."""
        return self._checkpoint

    @property
    def recent(self) -> list[Commit]:
        """The commits after the checkpoint."""
        return self._tail

    def is_current(self) -> bool:
        """Whether no other job has added a commit or written a checkpoint."""
        checkpoint, numbers = _listed(self._folder)
        return (checkpoint, max(numbers, default=checkpoint)) == (self._checkpoint.number, self.number)

    def followed(self) -> History:
        """This history extended by the commits of other jobs, or a new one if they wrote a checkpoint."""
        checkpoint, numbers = _listed(self._folder)
        later = [each for each in numbers if each > self.number]
        if checkpoint != self._checkpoint.number or later[:1] != [self.number + 1]:
            return History.read(self._folder)
        for number in later:
            self.add(disk.read_commit(disk.manifest_path(self._folder, number)))
        return self

    def latest_checkpoint(self) -> int:
        """The number of the latest checkpoint in the archive, by any job."""
        return _listed(self._folder)[0]

    def add(self, commit: Commit) -> None:
        """Add a commit. The work of a checkpoint is spread over the commits before and after it."""
        self._tail.append(commit)
        self._summary.add(commit)
        with suppress(ValueError):  # reported when the checkpoint is written
            self.convert()
        for path in self._covered[:_REMOVED_AT_ONCE]:
            path.unlink(missing_ok=True)
        del self._covered[:_REMOVED_AT_ONCE]

    def convert(self) -> None:
        """Convert all commits since the last checkpoint to rows of the next segment. Raises `ValueError`."""
        if self._converted < len(self._tail):
            self._rows.add(self._tail[self._converted :])
            self._converted = len(self._tail)

    def without_last(self) -> History:
        """All but the last commit."""
        return History(self._folder, self._checkpoint, self._tail[:-1])

    # -- commits and files

    def commits(self, after: int = 0) -> Iterator[Commit]:
        """The commits after this number, as they were written."""
        for segment in self._checkpoint.segments:
            if segment.last > after:
                read = from_table(disk.read_segment(self._folder, segment))
                yield from (each for each in read if each.number > after)
        yield from (each for each in self._tail if each.number > after)

    def live_commits(self) -> Iterator[Commit]:
        """The commits, each with its live files only."""
        for commit in self.commits():
            files = tuple(file for file in commit.files if self.is_live(commit.number, file))
            yield commit if len(files) == len(commit.files) else replace(commit, files=files)

    def is_live(self, number: int, file: File) -> bool:
        """Whether a file of this commit is live: no later commit has replaced it."""
        return number >= self._summary.replaced.get(file.folder, 0)

    def live_files(self, wanted: Callable[[str], bool] = lambda _: True) -> Iterator[tuple[int, File]]:
        """The live files in the wanted folders, with the numbers of their commits."""
        for segment in self._checkpoint.segments:
            if self._may_hold(segment, wanted):
                table = disk.read_segment(self._folder, segment, ["number", "files"])
                yield from self._wanted_files(from_table(table), wanted)
        yield from self._wanted_files(iter(self._tail), wanted)

    def known_files(self, folder: str | None = None, before: int | None = None) -> Iterator[File]:
        """The files of all commits, or of those before a number, including replaced ones; of one folder, or of all."""
        for segment in self._checkpoint.segments:
            if folder is None or segment.folders is None or folder in segment.folders:
                table = disk.read_segment(self._folder, segment, ["number", "files"])
                yield from _files(from_table(table), folder, before)
        yield from _files(self._tail, folder, before)

    def files_before(self, commit: Commit) -> list[File]:
        """The live files, before this commit, of the folders that it replaces."""
        return self.files_as_of(commit.number - 1, commit.replaced) if commit.replaced else []

    def files_as_of(self, number: int, folders: Collection[str]) -> list[File]:
        """The files of these folders that were live as of a commit."""
        found: dict[str, list[File]] = {}
        for before in self.commits():
            if before.number > number:
                break
            for folder in before.replaced:
                found.pop(folder, None)
            for file in before.files:
                if file.folder in folders:
                    found.setdefault(file.folder, []).append(file)
        return [file for files in found.values() for file in files]

    def _wanted_files(self, commits: Iterator[Commit], wanted: Callable[[str], bool]) -> Iterator[tuple[int, File]]:
        for commit in commits:
            for file in commit.files:
                if self.is_live(commit.number, file) and wanted(file.folder):
                    yield commit.number, file

    def _may_hold(self, segment: ManifestSegment, wanted: Callable[[str], bool]) -> bool:
        if segment.folders is None:
            return True
        replaced = self._summary.replaced
        return any(wanted(each) and replaced.get(each, 0) <= segment.last for each in segment.folders)

    # -- checkpoints

    def due(self) -> bool:
        """Whether enough commits have been added for another checkpoint."""
        entries = sum(len(each.ranges) + len(each.files) for each in self._tail)
        return len(self._tail) >= COMMITS_PER_CHECKPOINT or entries >= ENTRIES_PER_CHECKPOINT

    def write_checkpoint(self) -> None:
        """Put the commits since the last checkpoint into a new one.

        Their manifests are removed by the next commits and by `tidy`; readers use the checkpoint. Raises `OSError`,
        `ValueError` and `PipelineError`.
        """
        self.convert()
        segment = disk.write_segment(self._folder, self._rows)
        checkpoint = self._summary.checkpoint((*self._checkpoint.segments, segment))
        disk.write_checkpoint(self._folder, checkpoint)
        if self._checkpoint.number:
            self._covered.append(disk.checkpoint_path(self._folder, self._checkpoint.number))
        self._covered += [disk.manifest_path(self._folder, commit.number) for commit in self._tail]
        self._checkpoint, self._tail = checkpoint, []
        self._rows, self._converted = SegmentRows(), 0

    def tidy(self) -> None:
        """Remove files made obsolete by a checkpoint: manifests, older checkpoints, segments of unfinished ones."""
        self._covered.clear()
        number = self._checkpoint.number
        names = {each.path for each in self._checkpoint.segments}
        for name in names_in(self._folder):
            manifest, older = _MANIFEST.fullmatch(name), _CHECKPOINT.fullmatch(name)
            covered = (manifest and int(manifest[1]) <= number) or (older and int(older[1]) < number)
            if covered or _UNFINISHED.fullmatch(name):
                (self._folder / name).unlink(missing_ok=True)
        with suppress(FileNotFoundError):
            for name in names_in(self._folder / disk.SEGMENTS):
                last = _SEGMENT.match(name)  # in an object store, another job may be about to use a later one
                is_later = not isinstance(self._folder, Path) and last is not None and int(last[1]) > number
                if f"{disk.SEGMENTS}/{name}" not in names and not is_later:
                    (self._folder / disk.SEGMENTS / name).unlink(missing_ok=True)


def _files(commits: Iterable[Commit], folder: str | None, before: int | None) -> Iterator[File]:
    for commit in commits:
        if before is None or commit.number < before:
            yield from (file for file in commit.files if folder in (None, file.folder))


def _listed(folder: StoragePath) -> tuple[int, list[int]]:
    """The number of the last checkpoint, 0 if there is none, and those of the manifests after it."""
    try:
        names = names_in(folder)
    except FileNotFoundError:
        return 0, []
    checkpoints = [int(found[1]) for name in names if (found := _CHECKPOINT.fullmatch(name))]
    last = max(checkpoints, default=0)
    manifests = [int(found[1]) for name in names if (found := _MANIFEST.fullmatch(name))]
    return last, sorted(each for each in manifests if each > last)


def _first_gap(number: int, tail: list[Commit]) -> int | None:
    for expected, commit in enumerate(tail, number + 1):
        if commit.number != expected:
            return expected
    return None
