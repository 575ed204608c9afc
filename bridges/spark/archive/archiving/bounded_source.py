"""A snapshot of an origin: a job that stops at the end of growing logs leaves later events to the next job."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from bridges.spark.archive.contents.ranges import Log, Range
from bridges.spark.archive.write.origin import ArchiveOrigin
from bridges.spark.archive.write.task import RangeSource


class SnapshotOrigin:
    """Logs end where they ended at the first look; partitions that appear later are left out."""

    def __init__(self, origin: ArchiveOrigin) -> None:
        self._origin: Final = origin
        self._ends: Final[dict[str, dict[int, int]]] = {}

    def logs(self) -> Iterator[Log]:
        """As of the origin, and not beyond these ends."""
        for log in self._origin.logs():
            ends = self._ends.setdefault(log.address, {each: high for each, (_, high) in log.bounds.items()})
            bounds = {
                each: (low, max(low, min(high, ends[each]))) for each, (low, high) in log.bounds.items() if each in ends
            }
            yield replace(log, bounds=bounds)

    def source(self) -> RangeSource:
        """As of the origin."""
        return self._origin.source()

    def holding(self, gaps: Sequence[Range]) -> Iterable[Range]:
        """As of the origin."""
        return self._origin.holding(gaps)
