"""The progress of an archive job: the last commit, its speed, and the offsets that are not archived yet."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from bridges.spark.archive.contents.ranges import Log, Range
from bridges.spark.archive.manifest.commits import Commit
from bridges.spark.archive.write.origin import ArchiveOrigin
from bridges.spark.archive.write.task import RangeSource

Places = Mapping[tuple[str, int], int]
"""Numbers by address and partition."""


class ArchiveProgress(NamedTuple):
    """A commit, and the progress of the job after it."""

    commit: Commit
    seconds: float
    """Duration of the step in seconds, from the request for the ends of the logs."""
    behind: Places
    """Offsets that the logs had when the step began and that are not archived yet."""
    behind_seconds: float | None
    """The age of the last archived event in seconds; 0 if nothing is behind, null if unknown."""

    @property
    def bytes(self) -> int:
        """The size of the files."""
        return sum(each.bytes for each in self.commit.files)

    @property
    def rows_per_second(self) -> float:
        """Events per second."""
        return self.commit.rows / self.seconds if self.seconds else 0.0

    @property
    def behind_events(self) -> int:
        """The total number of offsets that are behind."""
        return sum(self.behind.values())


class ArchiveObserver(Protocol):
    """Observes the progress of a job."""

    def committed(self, progress: ArchiveProgress) -> None:
        """Called when a commit was added."""

    def idle(self) -> None:
        """Called when a step has found nothing new."""

    def outage(self, text: str) -> None:
        """Called at the start and the end of an outage, with a line for the operator."""


class Silent:
    """An observer that does nothing."""

    def committed(self, progress: ArchiveProgress) -> None:
        """Nothing."""

    def idle(self) -> None:
        """Nothing."""

    def outage(self, text: str) -> None:
        """Nothing."""


class ProgressMeter:
    """Measures steps."""

    def __init__(self, clock: Callable[[], float], now: Callable[[], float]) -> None:
        """`clock` is monotonic, in seconds; `now` returns seconds since 1970."""
        self._clock: Final = clock
        self._now: Final = now
        self._began = clock()
        self._highs: dict[tuple[str, int], int] = {}

    def begin(self) -> None:
        """Start measuring a step."""
        self._began = self._clock()

    def saw(self, log: Log) -> None:
        """Record the current state of a log."""
        self._highs.update({(log.address, partition): high for partition, (_, high) in log.bounds.items()})

    def measured(self, commit: Commit, ends: Mapping[tuple[str, int], Range]) -> ArchiveProgress:
        """The progress after a commit; `ends` are the archive's."""
        behind = {
            key: max(high - ends[key].end, 0) if key in ends else high for key, high in sorted(self._highs.items())
        }
        age = self._age(commit) if any(behind.values()) else 0.0
        return ArchiveProgress(commit, self._clock() - self._began, behind, age)

    def _age(self, commit: Commit) -> float | None:
        latest = max((file.latest for file in commit.files if file.latest is not None), default=None)
        return None if latest is None else max(self._now() - latest / 1000, 0.0)


class MeteredOrigin:
    """An origin that reports its logs to a meter."""

    def __init__(self, origin: ArchiveOrigin, meter: ProgressMeter) -> None:
        self._origin: Final = origin
        self._meter: Final = meter

    def logs(self) -> Iterator[Log]:
        """See `ArchiveOrigin`."""
        for log in self._origin.logs():
            self._meter.saw(log)
            yield log

    def identities(self, addresses: Collection[str]) -> Mapping[str, str | None]:
        """See `ArchiveOrigin`."""
        return self._origin.identities(addresses)

    def source(self) -> RangeSource:
        """See `ArchiveOrigin`."""
        return self._origin.source()

    def holding(self, gaps: Sequence[Range]) -> Iterable[Range]:
        """See `ArchiveOrigin`."""
        return self._origin.holding(gaps)
