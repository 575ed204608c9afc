"""A snapshot of an origin, for jobs that stop at the end of the logs: later events are left to the next job."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from bridges.spark.archive.contents.ranges import Log, Range
from bridges.spark.archive.write.origin import ArchiveOrigin
from bridges.spark.archive.write.task import RangeSource


class SnapshotOrigin:
    """An origin whose logs end where they ended when first read; partitions that appear later are left out."""

    def __init__(self, origin: ArchiveOrigin) -> None:
        self._origin: Final = origin
        self._ends: Final[dict[str, dict[int, int]]] = {}

    def logs(self) -> Iterator[Log]:
        """The logs of the origin, cut off at the ends of the snapshot."""
        for log in self._origin.logs():
            ends = self._ends.setdefault(log.address, {each: high for each, (_, high) in log.bounds.items()})
            bounds = {
                each: (low, max(low, min(high, ends[each]))) for each, (low, high) in log.bounds.items() if each in ends
            }
            yield replace(log, bounds=bounds)

    def identities(self, addresses: Collection[str]) -> Mapping[str, str | None]:
        """See `ArchiveOrigin`."""
        return self._origin.identities(addresses)

    def source(self) -> RangeSource:
        """See `ArchiveOrigin`."""
        return self._origin.source()

    def holding(self, gaps: Sequence[Range]) -> Iterable[Range]:
        """See `ArchiveOrigin`."""
        return self._origin.holding(gaps)
