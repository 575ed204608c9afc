"""What a link on a log keeps of events that it has sent: those to be sent again, dead letters on their way (KM-12).

Both are charged to the connection: a peer that gives back all that it gets on many links must not fill the memory.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Final

from bridges.kafka.consume.redelivery import EditedEvent

_BESIDE: Final = 1024
"""What an event costs beside its bytes, roughly."""


class GivenBack:
    """Of one link; `charge` hears how many bytes more are kept, or fewer."""

    def __init__(self, charge: Callable[[int], None]) -> None:
        self._charge: Final = charge
        self._again: list[tuple[int, int, EditedEvent]] = []
        self._size = 0
        self._over = False
        self.letters = 0
        """Bytes of dead letters that are not where they belong yet."""

    @property
    def again(self) -> bool:
        """Whether events wait to be sent again."""
        return bool(self._again)

    def put(self, event: EditedEvent) -> None:
        """To be sent again. Offset first: what comes back together goes out in the order of the log."""
        heapq.heappush(self._again, (event.offset, event.partition, event))
        self._more(_cost(event))

    def next(self) -> EditedEvent:
        """The next to be sent again; raises IndexError."""
        event = heapq.heappop(self._again)[2]
        self._more(-_cost(event))
        return event

    def forget(self, partition: int) -> None:
        """Others send again what is of this partition."""
        gone = [event for _, each, event in self._again if each == partition]
        self._again = [waiting for waiting in self._again if waiting[1] != partition]
        heapq.heapify(self._again)
        self._more(-sum(map(_cost, gone)))

    def letter(self, event: EditedEvent) -> None:
        """A dead letter is on its way: held until it is there, so a topic that is away must not cost memory."""
        self.letters += _cost(event)
        self._more(_cost(event))

    def delivered(self, event: EditedEvent) -> None:
        """A dead letter is there."""
        self.letters -= _cost(event)
        self._more(-_cost(event))

    def end(self) -> None:
        """The link is over: nothing is sent again. The producer's queue counts what is still on its way."""
        self._again.clear()
        self._more(-self._size)
        self._over = True

    def _more(self, size: int) -> None:
        if size and not self._over:
            self._size += size
            self._charge(size)


def _cost(event: EditedEvent) -> int:
    return len(event.data) + _BESIDE
