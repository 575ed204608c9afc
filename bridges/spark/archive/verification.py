"""Verification of an archive: its manifest, its files, and their rows (docs/pipeline.md).

It goes through the commits once, in their order, and keeps only sums by partition.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from bridges.spark.archive.contents.audit import Counts, count_files, partition_name, repeated, row_differences
from bridges.spark.archive.contents.ranges import Continuity, Range
from bridges.spark.archive.delta import table_problems
from bridges.spark.archive.iceberg import iceberg_problems
from bridges.spark.archive.manifest.checkpoint import Summary
from bridges.spark.archive.manifest.commits import Commit, File
from bridges.spark.archive.manifest.history import History
from bridges.spark.archive.storage.paths import digest
from bridges.spark.archive.store import MANIFEST, Archive
from bridges.spark.archive.unknown_files import unknown_files
from bridges.spark.errors import PipelineError
from gateway.plural import counted

_TRIES: Final = 5
"""How often a check starts in an archive whose files are being replaced."""


@dataclass(frozen=True)
class VerifyVerdict:
    """Result of a check of an archive."""

    commits: int
    files: int
    """Number of live files."""
    rows: int
    ranges: tuple[Range, ...]
    """One range per partition, from its first to its last offset."""
    problems: tuple[str, ...]
    unknown: int = 0
    """Events whose record mapping was unknown to the version that archived them."""
    removed: tuple[tuple[str, int], ...] = ()
    """Events that were removed on purpose, by kind of commit."""


def verify(archive: Archive) -> VerifyVerdict:
    """Check files and manifest for missing and duplicate offsets.

    Starts again if another job replaces files meanwhile. Raises `PipelineError` if that happens each time, or if there
    is no archive.
    """
    for _ in range(_TRIES):
        with suppress(_Replaced):
            history = archive.readable()
            audit = _Audit(archive, history)
            for commit in history.commits():
                audit.add(commit)
            return audit.verdict()
    raise PipelineError(
        f"other jobs keep replacing files of {archive.path} while they are verified: try again after compact, expire "
        f"or erase"
    )


class _Replaced(Exception):
    """A file that was live when the check began is gone, as a later commit says."""


class _Audit:
    """The findings so far."""

    def __init__(self, archive: Archive, history: History) -> None:
        self._archive: Final = archive
        self._history: Final = history
        self._found = _segment_problems(archive, history)
        self._summary: Final = Summary()
        self._continuity: Final = Continuity()
        self._merged: Final[dict[tuple[str, int], Range]] = {}
        self._present: Final[Counter[tuple[str, int]]] = Counter()
        self._missing: Final[Counter[tuple[str, int]]] = Counter()
        self._removed: Final[Counter[str]] = Counter()
        self._known: Final = _Paths()
        replaced_last = (each for each, number in history.summary.replaced.items() if number == history.number)
        self._leaving: Final = {*history.summary.deferred, *replaced_last}
        """Folders whose replaced files may still exist, until the grace time is over and a job deletes them."""
        self._files = 0
        self._damaged = False

    def add(self, commit: Commit) -> None:
        """Check a commit."""
        self._summary.add(commit)
        self._check_sums(commit.number)
        for each in commit.ranges:
            self._found += self._continuity.add(each)
            before = self._merged.get((each.address, each.partition))
            start, rows = (before.start, before.rows) if before else (each.start, 0)
            self._merged[each.address, each.partition] = replace(each, start=start, rows=rows + each.rows)
        for gone in commit.removed:
            self._missing[gone.address, gone.partition] += gone.rows
            self._removed[commit.kind] += gone.rows
        live = [file for file in commit.files if self._history.is_live(commit.number, file)]
        self._files += len(live)
        self._known.add(file.path for file in commit.files if file in live or file.folder in self._leaving)
        self._known.add(f"{file.folder}/{file.path.rpartition('/')[2]}" for file in live if commit.is_deferred)
        if wrong := self._file_problems(commit, live):
            self._damaged = True
            self._found += [f"commit {commit.number}: {text}" for text in wrong]

    def _check_sums(self, number: int) -> None:
        checkpoint = self._history.checkpoint
        if number and number == checkpoint.number and self._summary.checkpoint(checkpoint.segments) != checkpoint:
            self._found.append(f"the checkpoint of commit {number} is not what the commits up to it add up to")

    def _file_problems(self, commit: Commit, live: Sequence[File]) -> list[str]:
        found = [problem for file in live if (problem := self._file_problem(file)) is not None]
        if found:
            self._check_current(live)
            return found
        try:
            counts = count_files((file.address, self._archive.path / file.path) for file in live)
        except PipelineError as error:
            self._check_current(live)
            return [str(error)]
        self._present.update({key: each.rows for key, each in counts.items()})
        if commit.ranges and len(live) == len(commit.files):
            return row_differences(commit.ranges, counts)
        return _duplicates(counts)

    def _file_problem(self, file: File) -> str | None:
        path = self._archive.path / file.path
        try:
            if path.stat().st_size == file.bytes and digest(path) == file.sha256:
                return None
        except FileNotFoundError:
            return f"{path} is missing"
        return f"{path} is not the file that was committed: its bytes changed"

    def _check_current(self, files: Sequence[File]) -> None:
        """Raise `_Replaced` if one of these files of a commit is not live any more."""
        folders = {file.folder for file in files}
        now = {file.path for _, file in self._archive.history().live_files(folders.__contains__)}
        if any(file.path not in now for file in files):
            raise _Replaced

    def verdict(self) -> VerifyVerdict:
        """The result."""
        found = self._found + ([] if self._damaged else self._row_problems())
        found += unknown_files(self._archive, self._known.has, self._summary.number)
        found += table_problems(self._archive, self._history)
        found += iceberg_problems(self._archive, self._history)
        merged = [
            replace(self._merged[key], rows=self._merged[key].rows - self._missing[key]) for key in sorted(self._merged)
        ]
        rows, unknown = sum(each.rows for each in merged), self._summary.totals.unknown
        removed = tuple(sorted(self._removed.items()))
        return VerifyVerdict(self._summary.number, self._files, rows, tuple(merged), tuple(found), unknown, removed)

    def _row_problems(self) -> list[str]:
        """Differences between the rows of all files and the ranges of all commits, without removed rows."""
        found = []
        for key in sorted({*self._merged, *self._present}):
            ranged = self._merged[key].rows if key in self._merged else 0
            if self._present[key] != ranged - self._missing[key]:
                missing = self._missing[key]
                removed = f", of which {counted(missing, 'was', 'were')} removed" if missing else ""
                text = f"{counted(self._present[key], 'row')} in the files, {ranged} in the manifest{removed}"
                found.append(f"{partition_name(key)}: {text}")
        return found


def _segment_problems(archive: Archive, history: History) -> list[str]:
    found = []
    for segment in history.checkpoint.segments:
        path = archive.path / MANIFEST / segment.path
        if path.exists() and digest(path) != segment.sha256:
            found.append(f"{path} is not the file that was written: its bytes changed")
    return found


def _duplicates(counts: Counts) -> list[str]:
    return [
        f"{partition_name(key)}: {repeated(each)}"
        for key, each in sorted(counts.items())
        if each.rows != each.distinct
    ]


class _Paths:
    """A set of millions of paths, at eight bytes each."""

    def __init__(self) -> None:
        self._hashes: Final = array("q")
        self._sorted: np.ndarray[tuple[int], np.dtype[np.int64]] | None = None

    def add(self, paths: Iterable[str]) -> None:
        """Add paths."""
        self._hashes.extend(map(hash, paths))
        self._sorted = None

    def has(self, path: str) -> bool:
        """Whether the set has a path."""
        if self._sorted is None:
            self._sorted = np.sort(np.frombuffer(self._hashes, np.int64)) if self._hashes else np.empty(0, np.int64)
        wanted = hash(path)
        place = int(np.searchsorted(self._sorted, wanted))
        return place < len(self._sorted) and int(self._sorted[place]) == wanted
