"""How far an archive job is: the last commit, its speed, and how much the topics have that it has not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from bridges.spark.archive.contents.ranges import Log, Range
from bridges.spark.archive.manifest.commits import Commit
from bridges.spark.archive.write.origin import ArchiveOrigin
from bridges.spark.archive.write.task import RangeSource

Places = Mapping[tuple[str, int], int]
"""Numbers by address and partition."""


class ArchiveProgress(NamedTuple):
    """A commit, and where the job is after it."""

    commit: Commit
    seconds: float
    """How long it took, from the question where the logs end."""
    behind: Places
    """Offsets that the logs had when the step began, and the archive has not."""
    behind_seconds: float | None
    """The age of the last archived event; 0 if nothing is behind, null if it is unknown."""

    @property
    def bytes(self) -> int:
        """The size of the files."""
        return sum(each.bytes for each in self.commit.files)

    @property
    def rows_per_second(self) -> float:
        """Events a second."""
        return self.commit.rows / self.seconds if self.seconds else 0.0

    @property
    def behind_events(self) -> int:
        """How many offsets are behind in all."""
        return sum(self.behind.values())


class ArchiveObserver(Protocol):
    """Observes the progress of a job."""

    def committed(self, progress: ArchiveProgress) -> None:
        """A commit was added."""

    def idle(self) -> None:
        """A step has found nothing new."""

    def outage(self, text: str) -> None:
        """An outage began, or is over; a line for the operator."""


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
        """`clock` counts seconds, `now` counts them since 1970."""
        self._clock: Final = clock
        self._now: Final = now
        self._began = clock()
        self._highs: dict[tuple[str, int], int] = {}

    def begin(self) -> None:
        """A step begins."""
        self._began = self._clock()

    def saw(self, log: Log) -> None:
        """A log, as it is now."""
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
    """An origin whose logs a meter sees."""

    def __init__(self, origin: ArchiveOrigin, meter: ProgressMeter) -> None:
        self._origin: Final = origin
        self._meter: Final = meter

    def logs(self) -> Iterator[Log]:
        """As of the origin."""
        for log in self._origin.logs():
            self._meter.saw(log)
            yield log

    def source(self) -> RangeSource:
        """As of the origin."""
        return self._origin.source()

    def holding(self, gaps: Sequence[Range]) -> Iterable[Range]:
        """As of the origin."""
        return self._origin.holding(gaps)
