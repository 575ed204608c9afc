"""Events that a receive link still holds after sending them: to be sent again, or on their way as dead letters (KM-12).

Both are charged to the connection: a peer that gives back all it gets on many links must not fill the memory.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Final

from bridges.kafka.records.event import EncodedEvent

_OVERHEAD: Final = 1024
"""Bytes that an event costs beside its data, about."""


class RedeliveryQueue:
    """The events of one link; `charge` is called with the bytes that are held more, or fewer (below 0)."""

    def __init__(self, charge: Callable[[int], None]) -> None:
        self._charge: Final = charge
        self._queue: list[tuple[int, int, EncodedEvent]] = []
        self._size = 0
        self._ended = False
        self.dead_letter_bytes = 0
        """Size of the dead letters that are not in their topic yet."""

    def __bool__(self) -> bool:
        """Whether events wait to be sent again."""
        return bool(self._queue)

    def put(self, event: EncodedEvent) -> None:
        """Send `event` again. Offsets come first: what comes back together goes out in the order of the log."""
        heapq.heappush(self._queue, (event.offset, event.partition, event))
        self._count(_cost(event))

    def pop(self) -> EncodedEvent:
        """The next event to be sent again; raises IndexError where there is none."""
        event = heapq.heappop(self._queue)[2]
        self._count(-_cost(event))
        return event

    def forget(self, partition: int) -> None:
        """Another link sends the events of this partition again."""
        gone = [event for _, each, event in self._queue if each == partition]
        self._queue = [waiting for waiting in self._queue if waiting[1] != partition]
        heapq.heapify(self._queue)
        self._count(-sum(map(_cost, gone)))

    def add_dead_letter(self, event: EncodedEvent) -> None:
        """A dead letter is on its way: it is held until it is written, and the topic may be away."""
        self.dead_letter_bytes += _cost(event)
        self._count(_cost(event))

    def remove_dead_letter(self, event: EncodedEvent) -> None:
        """A dead letter is in its topic."""
        self.dead_letter_bytes -= _cost(event)
        self._count(-_cost(event))

    def end(self) -> None:
        """The link is over: nothing is sent again. The producer's queue counts the dead letters on their way."""
        self._queue.clear()
        self._count(-self._size)
        self._ended = True

    def _count(self, size: int) -> None:
        if size and not self._ended:
            self._size += size
            self._charge(size)


def _cost(event: EncodedEvent) -> int:
    return len(event.data) + _OVERHEAD
