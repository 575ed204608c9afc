"""The events of one subscription that are not done, in lines; some are in memory, others are known by place. Pure.

Dependent events are in one line, and only the first of a line is sent. A line whose first event may be sent is ready,
or hungry: then its first event is not in memory and must be read again.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable
from typing import Final

from bridges.cloudevents.delivery.entry import EventEntry, Line, Place
from bridges.cloudevents.events.event import CloudEvent


class EventBacklog:
    """A store without limits of its own; the owner counts the events that were sent."""

    def __init__(self) -> None:
        self.ready: Final[dict[Line, None]] = {}
        """Lines whose first event may be sent, the longest waiting first."""
        self.hungry: Final[dict[Line, None]] = {}
        self.asked: Final[dict[Place, EventEntry]] = {}
        """First events that are being read again."""
        self.held = 0
        """Number of events in memory."""
        self.bytes = 0
        self._lines: Final[dict[object, Line]] = {}
        self._undone: Final[dict[tuple[str, int], dict[int, EventEntry]]] = {}
        self._pausing: Final[list[tuple[float, int, Line]]] = []
        self._serials: Final = itertools.count()
        self._count = 0

    @property
    def lines(self) -> int:
        """The number of lines."""
        return len(self._lines)

    @property
    def places(self) -> int:
        """The number of events of which only the place is known."""
        return self._count - self.held

    def line(self, name: object) -> Line:
        """The line with this name; an empty line is discarded with its last entry."""
        return self._lines.get(name) or self._lines.setdefault(name, Line(name))

    def add(self, entry: EventEntry) -> None:
        """Append an entry to its line."""
        place, line = entry.place, entry.line
        self._undone.setdefault((place.address, place.partition), {})[place.offset] = entry
        self._count += 1
        line.entries.append(entry)
        if len(line.entries) == 1:
            self.turn(line)

    def keep(self, entry: EventEntry, event: CloudEvent, size: int) -> None:
        """Keep the event of an entry in memory."""
        entry.event, entry.size = event, size
        self.held += 1
        self.bytes += size

    def drop(self, entry: EventEntry) -> None:
        """Discard the event of an entry, but not its place."""
        if entry.event is not None:
            self.held -= 1
            self.bytes -= entry.size
            entry.event = None

    def leave(self, entry: EventEntry) -> None:
        """Take the first entry from its line, and make the next one the first. The entry is still not done."""
        line = entry.line
        line.entries.popleft()
        if line.entries:
            self.turn(line)
        else:
            del self._lines[line.name]
            self.ready.pop(line, None)
            self.hungry.pop(line, None)

    def done(self, entry: EventEntry) -> None:
        """Mark an entry as done."""
        self.drop(entry)
        self._count -= 1
        place = entry.place
        undone = self._undone[place.address, place.partition]
        del undone[place.offset]
        if not undone:
            del self._undone[place.address, place.partition]

    def turn(self, line: Line) -> None:
        """Allow the first event of a line to be sent."""
        if line.head.event is None:
            self.ready.pop(line, None)
            self.hungry[line] = None
        else:
            self.hungry.pop(line, None)
            self.ready[line] = None

    def gather(self, most: int, size: int) -> tuple[list[EventEntry], bool]:
        """Up to `most` events of ready lines, up to `size` bytes, and whether a limit was reached."""
        entries: list[EventEntry] = []
        left = size
        for line in self.ready:
            for entry in line.entries:
                if entry.event is None or entry.most == 1:
                    break
                most, left = min(most, entry.most), left - entry.size
                if len(entries) >= most or (entries and left < 0):
                    return entries, True
                entries.append(entry)
        return entries, len(entries) >= most or left <= 0

    def pause(self, line: Line, until: float) -> None:
        """Do not send the first event of a line before `time`."""
        heapq.heappush(self._pausing, (until, next(self._serials), line))

    @property
    def next_time(self) -> float | None:
        """The end of the first pause."""
        return self._pausing[0][0] if self._pausing else None

    def wake(self, now: float) -> None:
        """Make lines ready whose pause has ended."""
        while self._pausing and self._pausing[0][0] <= now:
            self.turn(heapq.heappop(self._pausing)[2])

    def ask(self, most: int) -> list[Place]:
        """Up to `most` events that must be read again."""
        lines = list(itertools.islice(self.hungry, max(0, most)))
        for line in lines:
            del self.hungry[line]
            self.asked[line.head.place] = line.head
        return [line.head.place for line in lines]

    def unask(self) -> None:
        """Revert `ask` for an event that cannot be read now."""
        for entry in self.asked.values():
            self.hungry[entry.line] = None
        self.asked.clear()

    def shrink(self, line: Line) -> None:
        """Discard the events behind the first one of a line, but not their places."""
        for entry in itertools.islice(line.entries, 1, None):
            self.drop(entry)

    def forget(self, flying: Iterable[EventEntry]) -> None:
        """Discard all events but those that were sent and have no answer yet."""
        busy = set(flying)
        for line in self._lines.values():
            for entry in line.entries:
                if entry not in busy:
                    self.drop(entry)
        for line in list(self.ready):
            self.turn(line)

    def undone(self, address: str, partition: int) -> list[int]:
        """The offsets that are not done, ascending."""
        return list(self._undone.get((address, partition), ()))

    @property
    def oldest(self) -> int | None:
        """The timestamp of the oldest event, in milliseconds since 1970."""
        return min((entry.time for line in self._lines.values() for entry in line.entries), default=None)
