"""A subscription's positions in the partitions of a stream, and their text form. Pure.

A position is the next offset to read, and the earlier offsets that are not done: an event that is sent again for hours
does not cause thousands of others to be sent again after a restart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple


class Position(NamedTuple):
    """The position in one partition: everything before `next` is done, except for `undone` (ascending)."""

    next: int
    unfinished: tuple[int, ...] = ()

    @property
    def committed(self) -> int:
        """All events before this offset are done."""
        return self.unfinished[0] if self.unfinished else self.next


def merged(one: Position, other: Position) -> Position:
    """The position in a partition where everything is done that is done in either."""
    first, last = sorted((one, other), key=lambda each: each.next)
    undone = {*first.unfinished}
    return Position(last.next, tuple(at for at in last.unfinished if at >= first.next or at in undone))


def dump_positions(positions: Mapping[int, Position]) -> str:
    """Encode as text: `0:2000!5,17-19;1:988` means: partition 0 reads 2000 next; 5 and 17 to 19 are not done."""
    return ";".join(f"{number}:{_dump(positions[number])}" for number in sorted(positions))


def _dump(position: Position) -> str:
    runs = ",".join(str(low) if low == high else f"{low}-{high}" for low, high in _runs(position.unfinished))
    return f"{position.next}!{runs}" if runs else str(position.next)


def _runs(offsets: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Group ascending offsets into consecutive runs."""
    run: tuple[int, int] | None = None
    for offset in offsets:
        if run is not None and offset == run[1] + 1:
            run = run[0], offset
            continue
        if run is not None:
            yield run
        run = offset, offset
    if run is not None:
        yield run


def load_positions(text: str) -> dict[int, Position]:
    """Decode the result of `dump_positions`; raises ValueError for anything else."""
    found = {}
    for part in filter(None, text.split(";")):
        number, _, rest = part.partition(":")
        following, _, runs = rest.partition("!")
        undone = [offset for run in filter(None, runs.split(",")) for offset in _run(run)]
        found[int(number)] = Position(int(following), tuple(undone))
    return found


def _run(text: str) -> range:
    low, _, high = text.partition("-")
    return range(int(low), int(high or low) + 1)
