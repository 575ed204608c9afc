"""What event logs may take of the process's memory: a part for each cluster, and how much links are sent at once. Pure.

Bytes everywhere. What is read of logs cannot be slowed down by who reads it, for many read the same; so it is bounded
beforehand.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from gateway.held.accounts import Pool

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


class TurnBudget:
    """How much of event logs goes to links in one turn of the loop, for all clusters together.

    What links are sent is charged at the end of a turn: a hundred that wake together would be sent many times what
    may be held before any of them is slowed down.
    """

    def __init__(
        self, pool: Pool, call_soon: Callable[[Callable[[], None]], object], charge: Callable[[], None] = lambda: None
    ) -> None:
        """`charge` says anew what is kept of logs."""
        self._pool: Final = pool
        self._charge: Final = charge
        self._call_soon: Final = call_soon
        self._turn: Final = min(_TURN, pool.limit // 16)
        self._left = self._turn
        self._asked = False
        self._waiting: deque[Callable[[], None]] = deque()

    @property
    def size(self) -> int:
        """What one link may be sent now; 0 or less: nothing in this turn."""
        return min(self._left, _LITTLE if self._pool.crowded else min(self._pool.share, self._turn // 4))

    def used(self, size: int) -> None:
        """A link was sent so much."""
        self._left -= size
        self._ask()

    def later(self, go_on: Callable[[], None]) -> None:
        """Call in the next turn, in the order of asking."""
        self._waiting.append(go_on)
        self._ask()

    def _ask(self) -> None:
        if not self._asked:
            self._asked = True
            self._call_soon(self._next)

    def _next(self) -> None:
        self._charge()
        self._asked, self._left = False, self._turn
        waiting, self._waiting = self._waiting, deque()
        try:
            while waiting:
                waiting.popleft()()
        finally:
            if waiting:  # one has failed, and others must not wait for ever
                self._waiting.extendleft(reversed(waiting))
                self._ask()


def unlimited(call_soon: Callable[[Callable[[], None]], object]) -> TurnBudget:
    """For a cluster that nobody has told what it may take."""
    return TurnBudget(Pool(2**62), call_soon)
