"""Deliberate removal of rows: whole dates (`expire`), or all events of one key (`erase`).

The manifest records how many rows of each partition were removed, by whom and when, so that `verify` expects the gaps.
Both delete files immediately: running reads may fail.
"""

from __future__ import annotations

import getpass
import secrets
import socket
import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bridges.spark.archive.contents.audit import count_files
from bridges.spark.archive.contents.file_rows import Keep
from bridges.spark.archive.maintenance.compaction import (
    CompactionTask,
    added_since,
    is_closed,
    place_due,
    remove_leftovers,
)
from bridges.spark.archive.maintenance.lock import Prepared, committed, maintaining
from bridges.spark.archive.maintenance.rewrite import rewrite
from bridges.spark.archive.manifest.commits import ERASE, EXPIRE, Commit, File, RemovedRows, address_of
from bridges.spark.archive.manifest.history import History
from bridges.spark.archive.removals import hashed
from bridges.spark.archive.storage.paths import readable, unreadable
from bridges.spark.archive.store import Archive
from bridges.spark.errors import PipelineError

FILE_BYTES: Final = 128 << 20
"""Approximate size of a file that `erase` writes."""


@dataclass(frozen=True)
class Removal:
    """The rows to remove from one address and date."""

    folder: str
    files: tuple[File, ...]
    """The files that have rows to remove."""
    rows: tuple[RemovedRows, ...]

    @property
    def count(self) -> int:
        """The number of rows."""
        return sum(each.rows for each in self.rows)


def plan_expiry(archive: Archive, before: date, address: str | None = None) -> list[Removal]:
    """All dates before this one, as removals. Raises `PipelineError`."""
    found: dict[str, list[File]] = {}
    for _, file in archive.readable().live_files(lambda folder: is_closed(folder, before, address)):
        found.setdefault(file.folder, []).append(file)
    return [Removal(folder, tuple(files), _rows(archive, files)) for folder, files in sorted(found.items())]


def _rows(archive: Archive, files: Sequence[File]) -> tuple[RemovedRows, ...]:
    counts = count_files((file.address, archive.path / file.path) for file in files)
    return tuple(RemovedRows(address, partition, each.rows) for (address, partition), each in sorted(counts.items()))


def expire(archive: Archive, removals: Sequence[Removal]) -> Iterator[Commit]:
    """Delete dates. Raises `PipelineError`."""
    with maintaining(archive):
        _finish_compactions(archive)
        for each in removals:
            yield committed(archive, partial(_expired, each))


def _expired(removal: Removal, history: History) -> Prepared:
    kept = added_since(history, CompactionTask(removal.folder, _now(history, removal)))
    name = f"{uuid.uuid4().hex[:8]}-placing"
    commit = Commit(
        0, name, (), tuple(kept), kind=EXPIRE, replaced=(removal.folder,), removed=removal.rows, note=_by({})
    )
    return commit, [None] * len(kept)


def plan_erasure(archive: Archive, key: bytes, address: str | None = None) -> Iterator[Removal]:
    """The removals of events with this key; reads the column `key` of all files. Raises `PipelineError`."""
    found: dict[str, list[tuple[File, tuple[RemovedRows, ...]]]] = {}
    for _, file in archive.readable().live_files(lambda folder: address in (None, address_of(folder))):
        if rows := _with_key(archive, file, key):
            found.setdefault(file.folder, []).append((file, rows))
    for folder, files in sorted(found.items()):
        sums: dict[int, int] = {}
        for each in (each for _, rows in files for each in rows):
            sums[each.partition] = sums.get(each.partition, 0) + each.rows
        removed = tuple(RemovedRows(address_of(folder), number, rows) for number, rows in sorted(sums.items()))
        yield Removal(folder, tuple(file for file, _ in files), removed)


def _with_key(archive: Archive, file: File, key: bytes) -> tuple[RemovedRows, ...]:
    path, sums = archive.path / file.path, dict[int, int]()
    try:
        with pq.ParquetFile(readable(path)) as found:
            for batch in found.iter_batches(columns=["partition", "key"]):
                for number in batch.filter(_has(key, batch)).column("partition").to_pylist():
                    sums[number] = sums.get(number, 0) + 1
    except (pa.ArrowException, OSError, ValueError) as error:
        raise unreadable(path, error) from None
    return tuple(RemovedRows(file.address, number, rows) for number, rows in sorted(sums.items()))


def _has(key: bytes, batch: pa.RecordBatch) -> pa.BooleanArray:
    column = batch.column("key")
    return pc.fill_null(pc.equal(column.cast(pa.binary()), pa.scalar(key, pa.binary())), False)


def erase(
    archive: Archive, key: bytes, removals: Sequence[Removal], file_bytes: int = FILE_BYTES
) -> Iterator[Commit]:
    """Delete all events with this key. Raises `PipelineError`."""
    salt = secrets.token_hex(16)
    about = {"salt": salt, "key_sha256": hashed(salt, key)}
    keep: Keep = lambda batch: pc.invert(_has(key, batch))  # noqa: E731
    with maintaining(archive):
        _finish_compactions(archive)
        for each in removals:
            yield _erase(archive, each, keep, about, file_bytes)


def _erase(archive: Archive, removal: Removal, keep: Keep, about: dict[str, str], file_bytes: int) -> Commit:
    name, files = uuid.uuid4().hex[:8], _now(archive.history(), removal)
    with archive.writer.rewriting() as target:
        sources = [archive.path / file.path for file in files]
        published = archive.writer.publish(rewrite(sources, target, removal.folder, file_bytes, keep))

        def prepared(history: History) -> Prepared:
            kept = added_since(history, CompactionTask(removal.folder, files))
            commit = Commit(
                0, f"{name}-placing", (), (*(file for _, file in published), *kept), kind=ERASE,
                replaced=(removal.folder,), removed=removal.rows, note=_by(about),
            )  # fmt: skip
            return commit, [*(path for path, _ in published), *[None] * len(kept)]

        commit = committed(archive, prepared)
        archive.writer.settle([file for _, file in published])
        return commit


def _finish_compactions(archive: Archive) -> None:
    """Delete the files that compactions replaced, so that no copy of the rows is left in them."""
    for _ in place_due(archive, at_once=True):
        pass
    if archive.history().summary.deferred:
        raise PipelineError("a table lacks the last commits: run scopegate pipeline archive first")
    remove_leftovers(archive, 0)


def _now(history: History, removal: Removal) -> tuple[File, ...]:
    """The current paths of a removal's files: a compaction may have moved them to their final paths since."""
    digests = {file.sha256 for file in removal.files}
    live = history.live_files(lambda folder: folder == removal.folder)
    found = tuple(file for _, file in live if file.sha256 in digests)
    if len(found) != len(removal.files):
        raise PipelineError(f"{removal.folder} was changed by another job meanwhile: start again")
    return found


def _by(about: dict[str, str]) -> dict[str, str]:
    who = ""
    with suppress(OSError, KeyError):  # a container's user may have no name
        who = getpass.getuser()
    return {"by": f"{who}@{socket.gethostname()}", **about}
