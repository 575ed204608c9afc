"""Events that a link retains after their outcome: for redelivery, or until they are written as dead letters (KM-12).

So does an open transaction in which they are settled: after a rollback they are sent again. All are charged to the
connection: a peer that releases everything on many links, or settles it in transactions, cannot fill the memory.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable
from typing import Final

from bridges.kafka.records.event import EncodedEvent
from gateway.amqp.link.transactions import Enlisting

_OVERHEAD: Final = 1024
"""Bytes of an event beside its data, roughly."""


class RedeliveryQueue:
    """The events of one link; `charge` is called with the change of the bytes that they take."""

    def __init__(self, charge: Callable[[int], None]) -> None:
        self._charge: Final = charge
        self._queue: list[tuple[int, int, EncodedEvent]] = []
        self._size = 0
        self._ended = False
        self.dead_letter_bytes = 0
        """Bytes of the dead letters that are not written yet."""

    def __bool__(self) -> bool:
        """Whether there are events to send again."""
        return bool(self._queue)

    def put(self, event: EncodedEvent) -> None:
        """Queue an event to be sent again; those that are released together are sent in the order of the log."""
        heapq.heappush(self._queue, (event.offset, event.partition, event))
        self._count(_cost(event))

    def pop(self) -> EncodedEvent:
        """Remove the next event to be sent again; raises IndexError if there is none."""
        event = heapq.heappop(self._queue)[2]
        self._count(-_cost(event))
        return event

    def forget(self, partition: int) -> None:
        """Drop the events of a partition that another link has now."""
        gone = [event for _, each, event in self._queue if each == partition]
        self._queue = [waiting for waiting in self._queue if waiting[1] != partition]
        heapq.heapify(self._queue)
        self._count(-sum(map(_cost, gone)))

    def add_dead_letter(self, event: EncodedEvent) -> None:
        """Count a dead letter until it is written, which takes longer if Kafka is unreachable."""
        self.dead_letter_bytes += _cost(event)
        self._count(_cost(event))

    def remove_dead_letter(self, event: EncodedEvent) -> None:
        """A dead letter is written."""
        self.dead_letter_bytes -= _cost(event)
        self._count(-_cost(event))

    def end(self) -> None:
        """The link is over: drop the events. The producer's queue counts dead letters that are still being written."""
        self._queue.clear()
        self._count(-self._size)
        self._ended = True

    def _count(self, size: int) -> None:
        if size and not self._ended:
            self._size += size
            self._charge(size)


class OpenRetirements:
    """The events of one link that its peer has settled in open transactions; `charge` as for `RedeliveryQueue`.

    The transactions may outlive the link, but not its connection.
    """

    def __init__(self, charge: Callable[[int], None]) -> None:
        self._charge: Final = charge
        self._open: Final[dict[Enlisting, tuple[Counter[int], list[int]]]] = {}
        """By transaction: the number of events of each partition, and their bytes."""

    def add(self, transaction: Enlisting, event: EncodedEvent) -> None:
        """An event was settled in a transaction: its outcome follows at the end of that."""
        if (found := self._open.get(transaction)) is None:
            found = self._open[transaction] = Counter(), [0]
            transaction.at_end(lambda _: transaction.when_done(lambda: self._ended(transaction)))
        found[0][event.partition] += 1
        found[1][0] += _cost(event)
        self._charge(_cost(event))

    def _ended(self, transaction: Enlisting) -> None:
        _, (size,) = self._open.pop(transaction)
        self._charge(-size)

    def of(self, partition: int) -> int:
        """The number of events of a partition."""
        return sum(counts[partition] for counts, _ in self._open.values())

    def __len__(self) -> int:
        """The number of events."""
        return sum(counts.total() for counts, _ in self._open.values())


def _cost(event: EncodedEvent) -> int:
    return len(event.data) + _OVERHEAD
