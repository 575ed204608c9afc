"""Estimates the size of records, to bound the offsets of a commit and to divide them among tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from bridges.spark.archive.contents.ranges import Range
from bridges.spark.archive.manifest.commits import APPEND
from bridges.spark.archive.manifest.history import History
from bridges.spark.archive.write.chunks import UNKNOWN_BYTES
from bridges.spark.archive.write.task import RangeSource
from bridges.spark.errors import PipelineError

_LATEST: Final = 8
"""Number of recent commits from whose files the size of records is estimated."""
_WORTHWHILE: Final = 2000
"""Number of offsets of an address without known sizes above which a sample is read."""


def record_bytes(history: History) -> dict[str, float]:
    """Bytes in files per offset, by address, from the last commits; addresses without files in them are left out.

    Right after a checkpoint there are no recent commits: all addresses then get the average of the archive.
    """
    sizes: dict[str, int] = {}
    offsets: dict[str, int] = {}
    for commit in (each for each in history.recent[-_LATEST:] if each.kind == APPEND):
        for file in commit.files:
            sizes[file.address] = sizes.get(file.address, 0) + file.bytes
        for each in commit.ranges:
            offsets[each.address] = offsets.get(each.address, 0) + each.end - each.start
    found = {address: size / offsets[address] for address, size in sizes.items() if offsets.get(address)}
    totals = history.summary.totals
    if not history.recent and totals.rows:
        return {address: totals.bytes / totals.rows for address, _ in history.ends}
    return found


def sampled(source: RangeSource, ranges: Sequence[Range], known: Mapping[str, float]) -> dict[str, float]:
    """Bytes per row in memory, from the first rows, for addresses without known sizes that have much to read."""
    found: dict[str, float] = {}
    for address in {each.address for each in ranges} - {*known}:
        own = [each for each in ranges if each.address == address]
        if sum(each.end - each.start for each in own) >= _WORTHWHILE:
            size = _first_rows(source, max(own, key=lambda each: each.end - each.start))
            found |= {address: size} if size else {}
    return found


def _first_rows(source: RangeSource, some: Range) -> float | None:
    try:
        for batch in source.batches([some]):
            return float(batch.rows.nbytes / len(batch.rows))
    except PipelineError:  # the tasks will raise it, too
        return None
    return None


def offsets_within(ranges: Sequence[Range], known: Mapping[str, float], limit: int) -> int:
    """The number of offsets of such ranges that amount to `limit` bytes; at least one."""
    offsets = sum(each.end - each.start for each in ranges)
    total = sum((each.end - each.start) * known.get(each.address, UNKNOWN_BYTES) for each in ranges)
    return offsets if total <= limit else max(int(offsets * limit / total), 1)
