"""Plans the files that a replay reads, their order, and their division among tasks. Pure.

A file has events of some partitions. Files whose offsets overlap in a partition are merged while they are read; others
are read in sequence. The files of one commit may overlap, because each date has its own file.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from bridges.spark.archive.contents.dates import DateRange
from bridges.spark.archive.contents.ranges import Range
from bridges.spark.archive.store import Commit


class OffsetSpan(NamedTuple):
    """Bounds of the offsets of one partition in a file, [start, end)."""

    partition: int
    start: int
    end: int


class SourceFile(NamedTuple):
    """A file to read, and the offsets that it may have."""

    path: str
    """The path, relative to the archive."""
    parts: tuple[OffsetSpan, ...]


Layer = tuple[SourceFile, ...]
"""Files that are merged; in each partition, the offsets of a layer follow those of the previous layer."""


class TaskShare(NamedTuple):
    """The writers of one task, the layers with their events, and their fraction of all events."""

    writers: tuple[int, ...]
    layers: tuple[Layer, ...]
    weight: float


def source_files(
    commits: Sequence[Commit], address: str, dates: DateRange, offsets: Mapping[int, tuple[int, int]]
) -> Iterator[SourceFile]:
    """The files of an address that may have selected rows, in the order in which their events were archived.

    A file that replaces files of earlier commits takes the position of its first event.
    """
    places = _CommitIndex(commits, address)
    found = []
    for commit in commits:
        counted = filter(places.counts, commit.ranges)
        ranges = tuple(OffsetSpan(each.partition, each.start, each.end) for each in counted)
        for file in commit.files:
            if file.address == address and dates.may_hold(file.path):
                own = tuple(OffsetSpan(each.partition, each.first, each.last + 1) for each in file.parts) or ranges
                found.append((places.first(own), SourceFile(file.path, own)))
    for _, each in sorted(found):
        parts = tuple(part for part in each.parts if _is_selected(part, offsets))
        if parts:
            yield each._replace(parts=parts)


class _CommitIndex:
    """The commits that added the offsets of an address."""

    def __init__(self, commits: Iterable[Commit], address: str) -> None:
        self._address = address
        self._starts: dict[int, list[int]] = {}
        self._numbers: dict[int, list[int]] = {}
        for commit in commits:
            for each in filter(self.counts, commit.ranges):
                self._starts.setdefault(each.partition, []).append(each.start)
                self._numbers.setdefault(each.partition, []).append(commit.number)

    def counts(self, found: Range) -> bool:
        """Whether a range added events of the address."""
        return found.address == self._address and found.rows > 0

    def first(self, parts: Iterable[OffsetSpan]) -> int:
        """The number of the commit that added the first of these offsets."""
        return min((self._number(part) for part in parts), default=0)

    def _number(self, part: OffsetSpan) -> int:
        place = bisect_right(self._starts.get(part.partition, []), part.start)
        return self._numbers[part.partition][place - 1] if place else 0


def _is_selected(part: OffsetSpan, offsets: Mapping[int, tuple[int, int]]) -> bool:
    if not offsets:
        return True
    first, last = offsets.get(part.partition, (0, 0))
    return part.start < last and first < part.end


def layers(files: Iterable[SourceFile]) -> list[Layer]:
    """The files as layers. A file that does not follow all layers is merged with the layers that it overlaps."""
    found: list[list[SourceFile]] = []
    ends: list[dict[int, int]] = []
    tops: dict[int, int] = {}
    for file in files:
        late = [part for part in file.parts if part.start < tops.get(part.partition, 0)]
        first = min((_first_overlap(ends, part) for part in late), default=len(found))
        merged = [each for layer in found[first:] for each in layer]
        own: dict[int, int] = {}
        for partition, end in (pair for layer in ends[first:] for pair in layer.items()):
            own[partition] = max(end, own.get(partition, 0))
        for part in file.parts:
            own[part.partition] = max(part.end, own.get(part.partition, 0))
            tops[part.partition] = max(part.end, tops.get(part.partition, 0))
        found[first:], ends[first:] = [[*merged, file]], [own]
    return [tuple(layer) for layer in found]


def _first_overlap(ends: Sequence[Mapping[int, int]], part: OffsetSpan) -> int:
    """The first layer with offsets of the partition after the start of this span."""
    first = len(ends)
    for index in range(len(ends) - 1, -1, -1):
        end = ends[index].get(part.partition)
        if end is not None and end <= part.start:
            break
        first = first if end is None else index
    return first


def share(
    found: Sequence[Layer], writer_of: Callable[[int], int], next_offsets: Mapping[int, int], tasks: int
) -> list[TaskShare]:
    """The layers divided among at most `tasks` tasks by their writers, without events that were written before."""
    sizes: dict[int, int] = {}
    for part in {part for layer in found for file in layer for part in file.parts}:
        writer = writer_of(part.partition)
        left = part.end - max(part.start, next_offsets.get(part.partition, 0))
        sizes[writer] = sizes.get(writer, 0) + max(left, 0)
    groups: list[list[int]] = [[] for _ in range(max(1, tasks))]
    loads = [0] * len(groups)
    for writer in sorted((each for each in sizes if sizes[each]), key=lambda each: -sizes[each]):
        lightest = loads.index(min(loads))
        groups[lightest].append(writer)
        loads[lightest] += sizes[writer]
    total = sum(loads)
    return [
        TaskShare(tuple(sorted(group)), _own_layers(found, set(group), writer_of, next_offsets), load / total)
        for group, load in zip(groups, loads, strict=True)
        if group
    ]


def _own_layers(
    found: Sequence[Layer], writers: set[int], writer_of: Callable[[int], int], next_offsets: Mapping[int, int]
) -> tuple[Layer, ...]:
    def own(file: SourceFile) -> SourceFile:
        return file._replace(
            parts=tuple(
                part
                for part in file.parts
                if writer_of(part.partition) in writers and part.end > next_offsets.get(part.partition, 0)
            )
        )

    kept = (tuple(file for file in map(own, layer) if file.parts) for layer in found)
    return tuple(layer for layer in kept if layer)
