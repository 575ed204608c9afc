"""Arithmetic of offset ranges: the next ones to read, and gaps and overlaps in the archive. Pure.

Offsets are those of one partition of one log; ends are exclusive. A log has an address in the archive and
an identity (a topic's id), by which a recreated log is told from the old one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

LOST: Final = "lost"


@dataclass(frozen=True, order=True)
class Range:
    """Offsets of one partition; `rows` of them are events, the others are gaps (`gap_reason`)."""

    address: str
    partition: int
    start: int
    end: int
    rows: int = 0
    identity: str | None = None
    gap_reason: str = ""
    """`lost`: the log had deleted these offsets before they could be read."""


@dataclass(frozen=True)
class Log:
    """The offsets that an origin has now for an address: [low, high) by partition."""

    address: str
    identity: str | None
    bounds: Mapping[int, tuple[int, int]]
    first: Mapping[int, int] = field(default_factory=dict)
    """The first offset to read of a partition that was never read; default: its low end."""


class Refused(Exception):
    """A log cannot be continued; the text gives the reason and the remedy."""


def next_ranges(
    ends: Mapping[tuple[str, int], Range], logs: Iterable[Log], limit: int, *, fail_on_loss: bool = True
) -> list[Range]:
    """The ranges to read next, at most `limit` offsets, shared among the partitions that have more.

    `ends` are the last known ranges of each partition. Raises `Refused` for a log that was recreated or truncated and,
    with `fail_on_loss`, for offsets that were deleted; without, these are returned as ranges that are `lost`.
    """
    lost: list[Range] = []
    ready: list[Range] = []
    for log in logs:
        known = any(address == log.address for address, _ in ends)
        for partition, (low, high) in sorted(log.bounds.items()):
            before = ends.get((log.address, partition))
            start = _continued(log, before, low, high) if before else (low if known else log.first.get(partition, low))
            if start < low:
                lost.append(_lost(log, partition, start, low, fail_on_loss))
                start = low
            if start < high or before is None:
                ready.append(Range(log.address, partition, start, max(start, high), identity=log.identity))
    return lost + _shared(ready, limit)


def _continued(log: Log, before: Range, low: int, high: int) -> int:
    place = f"{log.address}, partition {before.partition}"
    if before.identity and log.identity and before.identity != log.identity:
        raise Refused(
            f"{place}: the topic was recreated (its id was {before.identity}, now it is {log.identity}), so its "
            f"offsets are other events: archive it under another address, or into another archive"
        )
    if high < before.end:
        raise Refused(
            f"{place}: the topic ends at offset {high}, but the archive goes to {before.end}: the topic was truncated "
            f"or recreated; archive it under another address, or into another archive"
        )
    return before.end


def check_identities(ranges: Iterable[Range], identities: Mapping[str, str | None]) -> None:
    """Raise `Refused` unless the logs are still the ones that these ranges were to be read from."""
    for each in ranges:
        now = identities.get(each.address)
        if each.identity and now and each.identity != now:
            raise Refused(
                f"{each.address}: the topic was recreated while it was read (its id was {each.identity}, now it is "
                f"{now}), and nothing of it is committed: run the command again"
            )


def _lost(log: Log, partition: int, start: int, low: int, fail: bool) -> Range:
    if fail:
        raise Refused(
            f"{log.address}, partition {partition}: offsets {start} to {low - 1} are gone from the topic before they "
            f"were archived; --no-fail-on-data-loss records the gap and continues"
        )
    return Range(log.address, partition, start, low, identity=log.identity, gap_reason=LOST)


def _shared(ready: Sequence[Range], limit: int) -> list[Range]:
    """Cut the ranges to `limit` offsets in total, shared fairly: long ranges use the share that short ones leave."""
    found = []
    left = max(limit, 1)
    for index, item in enumerate(sorted(ready, key=lambda each: each.end - each.start)):
        size = min(item.end - item.start, max(left // (len(ready) - index), 0))
        left -= size
        if size or item.start == item.end:
            end = item.start + size
            found.append(Range(item.address, item.partition, item.start, end, identity=item.identity))
    return sorted(found)


class Continuity:
    """Finds gaps, overlaps, changes of the log and losses among ranges in the order in which they were written."""

    def __init__(self) -> None:
        self._last: Final[dict[tuple[str, int], Range]] = {}

    def add(self, item: Range) -> list[str]:
        """The problem with one more range, if there is one."""
        before = self._last.get((item.address, item.partition))
        place = f"{item.address}, partition {item.partition}"
        found = []
        if before is not None and item.start > before.end:
            found.append(f"{place}: offsets {before.end} to {item.start - 1} are in no commit")
        if before is not None and item.start < before.end:
            found.append(f"{place}: offsets {item.start} to {before.end - 1} are in two commits")
        if before is not None and before.identity != item.identity:
            found.append(f"{place}: the log changed from {before.identity} to {item.identity}")
        if item.gap_reason == LOST:
            found.append(f"{place}: offsets {item.start} to {item.end - 1} were lost before they were archived")
        self._last[item.address, item.partition] = item
        return found


def problems(ranges: Iterable[Range]) -> list[str]:
    """The problems that `Continuity` finds in these ranges."""
    continuity = Continuity()
    return [text for item in ranges for text in continuity.add(item)]
