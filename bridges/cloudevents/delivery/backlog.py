"""The unfinished events of one subscription, in groups; of some, only the location is in memory. Pure.

Dependent events are in one group, and only the first of a group is sent. A group whose first event may be sent is
ready, or waits for a refetch: then its first event is not in memory and must be read again.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Collection, Iterable
from typing import Final

from bridges.cloudevents.delivery.entry import EventEntry, EventLocation, OrderingGroup
from bridges.cloudevents.events.event import CloudEvent


class EventBacklog:
    """A store without limits of its own; the owner counts the events that were sent."""

    __slots__ = (
        "_count", "_groups", "_paused", "_serials", "_unfinished", "buffered", "buffered_bytes", "ready",
        "refetching", "to_refetch",
    )  # fmt: skip

    def __init__(self) -> None:
        self.ready: Final[dict[OrderingGroup, None]] = {}
        """Groups whose first event may be sent, the longest waiting first."""
        self.to_refetch: Final[dict[OrderingGroup, None]] = {}
        self.refetching: Final[dict[EventLocation, EventEntry]] = {}
        """First events that are being read again."""
        self.buffered = 0
        """Number of events in memory."""
        self.buffered_bytes = 0
        self._groups: Final[dict[object, OrderingGroup]] = {}
        self._unfinished: Final[dict[tuple[str, int], dict[int, EventEntry]]] = {}
        self._paused: Final[list[tuple[float, int, OrderingGroup]]] = []
        self._serials: Final = itertools.count()
        self._count = 0

    @property
    def groups(self) -> int:
        """The number of groups."""
        return len(self._groups)

    @property
    def evicted(self) -> int:
        """The number of events of which only the location is known."""
        return self._count - self.buffered

    def group(self, key: object) -> OrderingGroup:
        """The group with this key; an empty group is discarded with its last entry."""
        return self._groups.get(key) or self._groups.setdefault(key, OrderingGroup(key))

    def add(self, entry: EventEntry) -> None:
        """Append an entry to its group."""
        location, group = entry.location, entry.group
        self._unfinished.setdefault((location.address, location.partition), {})[location.offset] = entry
        self._count += 1
        group.entries.append(entry)
        if len(group.entries) == 1:
            self.make_ready(group)

    def buffer(self, entry: EventEntry, event: CloudEvent, size: int) -> None:
        """Keep the event of an entry in memory."""
        entry.event, entry.size = event, size
        self.buffered += 1
        self.buffered_bytes += size

    def evict(self, entry: EventEntry) -> None:
        """Discard the event of an entry, but not its location."""
        if entry.event is not None:
            self.buffered -= 1
            self.buffered_bytes -= entry.size
            entry.event = None

    def pop(self, entry: EventEntry) -> None:
        """Take the first entry from its group, and make the next one the first. The entry is not finished by that."""
        group = entry.group
        group.entries.popleft()
        if group.entries:
            self.make_ready(group)
        else:
            del self._groups[group.key]
            self.ready.pop(group, None)
            self.to_refetch.pop(group, None)

    def finish(self, entry: EventEntry) -> None:
        """Mark an entry as finished."""
        self.evict(entry)
        self._count -= 1
        location = entry.location
        unfinished = self._unfinished[location.address, location.partition]
        del unfinished[location.offset]
        if not unfinished:
            del self._unfinished[location.address, location.partition]

    def make_ready(self, group: OrderingGroup) -> None:
        """Allow the first event of a group to be sent."""
        if group.first.event is None:
            self.ready.pop(group, None)
            self.to_refetch[group] = None
        else:
            self.to_refetch.pop(group, None)
            self.ready[group] = None

    def pause(self, group: OrderingGroup, until: float) -> None:
        """Do not send the first event of a group before `until`."""
        heapq.heappush(self._paused, (until, next(self._serials), group))

    @property
    def next_pause_end(self) -> float | None:
        """The end of the first pause."""
        return self._paused[0][0] if self._paused else None

    def end_pauses(self, now: float) -> None:
        """Make groups ready whose pause has ended."""
        while self._paused and self._paused[0][0] <= now:
            self.make_ready(heapq.heappop(self._paused)[2])

    def take_refetches(self, limit: int, unreadable: Collection[str] = ()) -> list[EventLocation]:
        """Up to `limit` events that must be read again, none of streams (addresses) that cannot be read."""
        readable = (group for group in self.to_refetch if group.first.location.address not in unreadable)
        groups = list(itertools.islice(readable, max(0, limit)))
        for group in groups:
            del self.to_refetch[group]
            self.refetching[group.first.location] = group.first
        return [group.first.location for group in groups]

    def cancel_refetches(self, address: str) -> None:
        """Return the events of a stream that `take_refetches` gave out and that cannot be read now."""
        for location in [location for location in self.refetching if location.address == address]:
            self.to_refetch[self.refetching.pop(location).group] = None

    def discard_before(self, address: str, partition: int, low: int) -> int:
        """Finish the events before offset `low` of which only the location is known; returns how many there were.

        What is paused, sent or being read again is left to those who do that.
        """
        offsets = [offset for offset in self._unfinished.get((address, partition), ()) if offset < low]
        entries = [self._unfinished[address, partition][offset] for offset in offsets]
        return sum(self._discard(entry) for entry in entries)

    def _discard(self, entry: EventEntry) -> bool:
        group = entry.group
        if entry.event is not None:
            return False
        if entry is not group.first:
            group.entries.remove(entry)
        elif group in self.to_refetch:
            self.pop(entry)
        else:
            return False
        self.finish(entry)
        return True

    def evict_followers(self, group: OrderingGroup) -> None:
        """Discard the events behind the first one of a group, but not their locations."""
        for entry in itertools.islice(group.entries, 1, None):
            self.evict(entry)

    def evict_all(self, in_flight: Iterable[EventEntry]) -> None:
        """Discard all events but those that were sent and have no answer yet."""
        kept = set(in_flight)
        for group in self._groups.values():
            for entry in group.entries:
                if entry not in kept:
                    self.evict(entry)
        for group in list(self.ready):
            self.make_ready(group)

    def unfinished(self, address: str, partition: int) -> list[int]:
        """The offsets that are not finished, ascending."""
        return list(self._unfinished.get((address, partition), ()))

    @property
    def oldest_timestamp(self) -> int | None:
        """The timestamp of the oldest event, in milliseconds since 1970."""
        return min((entry.timestamp for group in self._groups.values() for entry in group.entries), default=None)
