"""The events of one subscription that are not done with: in lines, some in memory, the others as places. Pure.

Events that follow each other are in one line, of which only the first is sent. A line whose turn it is, is ready, or it
is hungry: its first event is not in memory, and has to be read again.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable
from typing import Final

from bridges.cloudevents.delivery.entry import EventEntry, Line, Place
from bridges.cloudevents.events.event import CloudEvent


class EventBacklog:
    """Keeps no more than it is told to; the owner counts what is under way."""

    def __init__(self) -> None:
        self.ready: Final[dict[Line, None]] = {}
        """Lines whose first event may be sent, longest waiting first."""
        self.hungry: Final[dict[Line, None]] = {}
        self.asked: Final[dict[Place, EventEntry]] = {}
        """First events that are being read again."""
        self.held = 0
        """Events in memory."""
        self.bytes = 0
        self._lines: Final[dict[object, Line]] = {}
        self._undone: Final[dict[tuple[str, int], dict[int, EventEntry]]] = {}
        self._pausing: Final[list[tuple[float, int, Line]]] = []
        self._serials: Final = itertools.count()
        self._count = 0

    @property
    def lines(self) -> int:
        """How many lines there are."""
        return len(self._lines)

    @property
    def places(self) -> int:
        """Events of which only the place is known."""
        return self._count - self.held

    def line(self, name: object) -> Line:
        """The line of this name; one that nothing is in is forgotten with its last entry."""
        return self._lines.get(name) or self._lines.setdefault(name, Line(name))

    def add(self, entry: EventEntry) -> None:
        """At the end of its line."""
        place, line = entry.place, entry.line
        self._undone.setdefault((place.address, place.partition), {})[place.offset] = entry
        self._count += 1
        line.entries.append(entry)
        if len(line.entries) == 1:
            self.turn(line)

    def keep(self, entry: EventEntry, event: CloudEvent, size: int) -> None:
        """Have its event in memory."""
        entry.event, entry.size = event, size
        self.held += 1
        self.bytes += size

    def drop(self, entry: EventEntry) -> None:
        """Have only its place."""
        if entry.event is not None:
            self.held -= 1
            self.bytes -= entry.size
            entry.event = None

    def leave(self, entry: EventEntry) -> None:
        """The first of its line: the next one has its turn. It is still not done with."""
        line = entry.line
        line.entries.popleft()
        if line.entries:
            self.turn(line)
        else:
            del self._lines[line.name]
            self.ready.pop(line, None)
            self.hungry.pop(line, None)

    def done(self, entry: EventEntry) -> None:
        """Nothing more is owed for it."""
        self.drop(entry)
        self._count -= 1
        place = entry.place
        undone = self._undone[place.address, place.partition]
        del undone[place.offset]
        if not undone:
            del self._undone[place.address, place.partition]

    def turn(self, line: Line) -> None:
        """The first event of a line may be sent."""
        if line.head.event is None:
            self.ready.pop(line, None)
            self.hungry[line] = None
        else:
            self.hungry.pop(line, None)
            self.ready[line] = None

    def pause(self, line: Line, until: float) -> None:
        """The first event of a line may be sent again at that time."""
        heapq.heappush(self._pausing, (until, next(self._serials), line))

    @property
    def next_time(self) -> float | None:
        """When the first pause ends."""
        return self._pausing[0][0] if self._pausing else None

    def wake(self, now: float) -> None:
        """Pauses may have ended."""
        while self._pausing and self._pausing[0][0] <= now:
            self.turn(heapq.heappop(self._pausing)[2])

    def ask(self, most: int) -> list[Place]:
        """Up to `most` events that have to be read again."""
        lines = list(itertools.islice(self.hungry, max(0, most)))
        for line in lines:
            del self.hungry[line]
            self.asked[line.head.place] = line.head
        return [line.head.place for line in lines]

    def unask(self) -> None:
        """What was asked for is not read now."""
        for entry in self.asked.values():
            self.hungry[entry.line] = None
        self.asked.clear()

    def shrink(self, line: Line) -> None:
        """Have only the places of what stands behind the first event of a line."""
        for entry in itertools.islice(line.entries, 1, None):
            self.drop(entry)

    def forget(self, flying: Iterable[EventEntry]) -> None:
        """Have only places but for events that are under way."""
        busy = set(flying)
        for line in self._lines.values():
            for entry in line.entries:
                if entry not in busy:
                    self.drop(entry)
        for line in list(self.ready):
            self.turn(line)

    def undone(self, address: str, partition: int) -> list[int]:
        """The offsets that are not done with, ascending."""
        return list(self._undone.get((address, partition), ()))

    @property
    def oldest(self) -> int | None:
        """The time of the oldest event, in milliseconds since 1970."""
        return min((entry.time for line in self._lines.values() for entry in line.entries), default=None)
