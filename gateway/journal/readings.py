"""Counts what links read of event logs: events scanned and delivered, latency and lag (pure).

Each link counts once per batch of events; sums are made together with rows. Rows are for kinds of links, as everywhere
in the journal (docs/journal.md).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from gateway.journal.rows import LinkSeen

BOUNDS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 30_000, 60_000, 300_000)
"""Upper bounds of the classes of latency in milliseconds; a further class is for greater values."""
MOST_PARTITIONS: Final = 500
"""Maximum partitions in one row; of a larger log those with the greatest lag."""
_LOT: Final = 100
"""Links that are summed up in one turn of the loop."""


class LogReading(NamedTuple):
    """An event log."""

    cluster: str
    topic: str


class _Timed(Protocol):
    @property
    def time(self) -> int: ...


class Sums:
    """The counts since the last row."""

    __slots__ = ("latency", "matched", "older", "scanned", "slowest")

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Reset the counts."""
        self.scanned = self.matched = self.older = self.slowest = 0
        self.latency = [0] * (len(BOUNDS) + 1)

    @property
    def any(self) -> bool:
        """Whether anything was counted."""
        return bool(self.scanned or self.matched)

    def take(self, other: Sums) -> None:
        """Add the counts of `other`, and reset them."""
        if other.any:
            self.scanned += other.scanned
            self.matched += other.matched
            self.older += other.older
            self.slowest = max(self.slowest, other.slowest)
            self.latency = [one + more for one, more in zip(self.latency, other.latency, strict=True)]
            other.clear()


class LinkReading(Sums):
    """The counts of one link that reads an event log."""

    __slots__ = ("_clock", "_kind", "_since", "positions")

    def __init__(self, kind: _Kind, positions: Callable[[], Mapping[int, int]], clock: Callable[[], int]) -> None:
        super().__init__()
        self._kind: Final = kind
        self._clock: Final = clock
        self._since: Final = clock()
        self.positions: Final = positions

    def lot(self, scanned: int, matched: int, events: Sequence[_Timed]) -> None:
        """The link has read `scanned` events, `matched` of which match its filter, and sends `events` now.

        All of them count with the age of the first, the oldest; events older than the link count separately.
        """
        self.scanned += scanned
        self.matched += matched
        if events:
            oldest = events[0].time
            if oldest < self._since:
                self.older += len(events)
                return
            age = self._clock() - oldest
            self.latency[bisect_left(BOUNDS, age)] += len(events)
            self.slowest = max(self.slowest, age)

    def end(self) -> None:
        """The link has ended; its counts and positions go into the next row."""
        kind = self._kind
        if self in kind.live:
            kind.live.remove(self)
            kind.sums.take(self)
            kind.positions.update(self.positions())


class _Kind:
    """All links of one kind on one log."""

    __slots__ = ("live", "log", "positions", "sums")

    def __init__(self, log: LogReading) -> None:
        self.log: Final = log
        self.live: Final[set[LinkReading]] = set()
        self.sums: Final = Sums()
        self.positions: Final[dict[int, int]] = {}
        """The next offsets of links, per partition: of those that ended since the last row, and of those summed up
        now."""


class Readings:
    """The table of readings, with at most `most` kinds. `ends` are the ends of the logs at the last query."""

    def __init__(self, clock: Callable[[], int], most: int) -> None:
        self._clock: Final = clock
        self._most: Final = most
        self._kinds: Final[dict[LinkSeen, _Kind]] = {}
        self.ends: Mapping[LogReading, Mapping[int, int]] = {}

    def begin(self, seen: LinkSeen, positions: Callable[[], Mapping[int, int]]) -> LinkReading | None:
        """The counter of a link that begins to read; None: there is no room for its kind."""
        kind = self._kinds.get(seen)
        if kind is None:
            if len(self._kinds) >= self._most:
                return None
            kind = self._kinds[seen] = _Kind(LogReading(seen.end.to_cluster or "", seen.end.to_topic or ""))
        reading = LinkReading(kind, positions, self._clock)
        kind.live.add(reading)
        return reading

    def logs(self) -> set[LogReading]:
        """The logs whose ends the next rows need."""
        return {kind.log for kind in self._kinds.values()}

    def rows(self) -> Iterator[tuple[LinkSeen, dict[str, Any]] | None]:
        """The fields of a row for each kind of link that reads or has read; None: a pause for other work."""
        for seen, kind in list(self._kinds.items()):
            found: dict[int, int] = {}
            for number, reading in enumerate(list(kind.live), 1):
                kind.sums.take(reading)
                for partition, position in reading.positions().items():
                    # The one with the greatest lag counts
                    found[partition] = min(position, found.get(partition, position))
                if not number % _LOT:
                    yield None
            kind.positions.update(found)
            if kind.live or kind.sums.any or kind.positions:
                yield seen, self._fields(kind)
            kind.sums.clear()
            kind.positions.clear()
            if not kind.live:
                del self._kinds[seen]

    def _fields(self, kind: _Kind) -> dict[str, Any]:
        sums = kind.sums
        classes = zip((*map(str, BOUNDS), "more"), sums.latency, strict=True)
        fields = {
            "links": len(kind.live), "scanned": sums.scanned, "matched": sums.matched, "older": sums.older,
            "latency": {bound: count for bound, count in classes if count}, "partitions": self._partitions(kind),
        }  # fmt: skip
        return fields | ({"slowest_ms": sums.slowest} if fields["latency"] else {})

    def _partitions(self, kind: _Kind) -> list[dict[str, int]]:
        ends = self.ends.get(kind.log, {})
        found = [
            {"partition": partition, "position": position}
            | ({"end": max(ends[partition], position)} if partition in ends else {})
            for partition, position in sorted(kind.positions.items())
        ]
        if len(found) > MOST_PARTITIONS:
            found.sort(key=lambda each: each["position"] - each.get("end", each["position"]))
        return found[:MOST_PARTITIONS]
