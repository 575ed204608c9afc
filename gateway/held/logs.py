"""What event logs may take of the process's memory: a part for each cluster, and how much links are sent at once. Pure.

Bytes everywhere. What is read of logs cannot be slowed down by who reads it, for many read the same; so it is bounded
beforehand.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, Protocol

from gateway.held.account import Pool

_PART: Final = 3, 5
"""Of what may be held, what all event logs together may take."""
QUEUE: Final = 8 * 2**20
"""What waits in a Kafka client, where there is room (`queued.max.messages.kbytes`)."""
_LEAST: Final = 2**20
"""The same, where there is not: rather than less in each there are fewer clients."""
_ON_THE_WAY: Final = 2 * 2**20
"""What a client has handed over and nobody has taken yet."""
_CLIENT: Final = 2 * _LEAST + _ON_THE_WAY
"""What the smallest client takes."""
AHEAD: Final = 16 * 2**20
"""What may be read ahead however small the cache is, where there is room."""
_TURN: Final = 8 * 2**20
"""What all links together are sent of event logs in one turn of the loop."""
_LITTLE: Final = 64 * 1024
"""What one link is sent at once while most of what may be held is."""
COPIES: Final = 4
"""What an event that is sent comes to, in events: in its delivery, at hand to be sent again, in proton's output and in
the socket's."""
_RESERVE: Final = 8
"""The part of what may be held that links leave free which have events without an outcome: for those that have none."""
_AGAIN: Final = 0.1
"""Seconds after which to look again whether there is room, while there is little."""


class LogShare(NamedTuple):
    """What may be taken for the readers of one cluster and isolation."""

    cache: int
    ahead: int
    readers: int
    """How many Kafka clients."""
    queue: int

    @property
    def client(self) -> int:
        """What one Kafka client takes at most: its queue, an answer that comes meanwhile, what it has handed over."""
        return 2 * self.queue + _ON_THE_WAY

    @property
    def size(self) -> int:
        """All of it."""
        return self.cache + self.ahead + self.readers * self.client


class LogWish(NamedTuple):
    """What the policy says of a cluster; `isolations`: how many kinds of readers it has (KM-17)."""

    cache: int
    readers: int
    isolations: int = 1


def whole(wish: LogWish) -> LogShare:
    """As the policy says."""
    return LogShare(wish.cache, max(wish.cache, AHEAD), wish.readers, QUEUE)


def shares(limit: int, wishes: Mapping[str, LogWish]) -> dict[str, LogShare]:
    """For each cluster what it wants, or the part that all have to make do with; `limit` is what may be held.

    Each has one small client at least, whatever the limit.
    """
    least = sum(_CLIENT * wish.isolations for wish in wishes.values())
    wanted = sum(whole(wish).size * wish.isolations for wish in wishes.values())
    factor = (limit * _PART[0] // _PART[1] - least) / max(wanted - least, 1)
    return {name: _scaled(whole(wish), min(max(factor, 0.0), 1.0)) for name, wish in wishes.items()}


def _scaled(share: LogShare, factor: float) -> LogShare:
    clients = _CLIENT + int((share.readers * share.client - _CLIENT) * factor)
    readers = min(clients // _CLIENT, share.readers)
    queue = (clients // readers - _ON_THE_WAY) // 2
    return LogShare(int(share.cache * factor), int(share.ahead * factor), readers, min(queue, QUEUE))


class Clock(Protocol):
    """When to go on; the loop is one."""

    def call_soon(self, callback: Callable[[], object], /) -> object: ...
    def call_later(self, delay: float, callback: Callable[[], object], /) -> object: ...


class TurnBudget:
    """How much of event logs goes to links in one turn of the loop, for all clusters together.

    What links are sent is charged at the end of a turn: a hundred that wake together would be sent many times what
    may be held before any of them is slowed down. While nearly all is held that may be, only links are sent something
    that have nothing yet; while all is, none: a connection that holds nothing is not slowed down, and there may be any
    number of them.
    """

    def __init__(self, pool: Pool, clock: Clock, charge: Callable[[], None] = lambda: None) -> None:
        """`charge` says anew what is held."""
        self._pool: Final = pool
        self._charge: Final = charge
        self._clock: Final = clock
        self._turn: Final = min(_TURN, pool.limit // 16)
        self._used = 0
        self._asked = False
        self._waiting: deque[Callable[[], None]] = deque()

    def _most(self, holds: bool) -> int:
        """What all links may be sent in one turn; 0 or less: nothing, until others let go of something."""
        free = self._pool.limit - self._pool.total - (self._pool.limit // _RESERVE if holds else 0)
        return min(self._turn, free // COPIES)

    def size(self, holds: bool) -> int:
        """What a link may be sent now, which `holds` events without an outcome or not; 0 or less: nothing now."""
        left = self._most(holds) - self._used
        return min(left, _LITTLE if self._pool.crowded else min(self._pool.share, self._turn // 4))

    def used(self, size: int) -> None:
        """A link was sent so much."""
        self._used += size
        self._ask()

    def later(self, go_on: Callable[[], None]) -> None:
        """Call in the next turn, in the order of asking."""
        self._waiting.append(go_on)
        self._ask()

    def _ask(self) -> None:
        if not self._asked:
            self._asked = True
            if self._most(True) <= 0:
                self._clock.call_later(_AGAIN, self._next)
            else:
                self._clock.call_soon(self._next)

    def _next(self) -> None:
        self._charge()
        self._asked, self._used = False, 0
        if self._most(False) <= 0 and self._waiting:
            self._ask()
            return
        waiting, self._waiting = self._waiting, deque()
        try:
            while waiting:
                waiting.popleft()()
        finally:
            if waiting:  # one has failed, and others must not wait for ever
                self._waiting.extendleft(reversed(waiting))
                self._ask()


def unlimited(clock: Clock) -> TurnBudget:
    """For a cluster that nobody has told what it may take."""
    return TurnBudget(Pool(2**62), clock)
