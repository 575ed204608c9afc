"""The memory of event logs: a share for each cluster, and the bytes that links are sent at once. Pure; in bytes.

A slow reader cannot slow down reading of a log, because many readers share it; so reading is limited beforehand.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, Protocol

from gateway.held.account import Pool

_PART: Final = 3, 5
"""The fraction of the budget that all event logs together may take."""
QUEUE: Final = 8 * 2**20
"""The queue of a Kafka client, if there is enough memory (`queued.max.messages.kbytes`)."""
_LEAST: Final = 2**20
"""The same if there is not: fewer clients are better than smaller queues."""
BATCH: Final = 2**20
"""Bytes after which a batch ends."""
_IN_TRANSIT: Final = 2 * BATCH
"""Bytes that a client has delivered and that are not processed yet."""
_CLIENT: Final = 2 * _LEAST + _IN_TRANSIT
"""Bytes of the smallest client."""
AHEAD: Final = 16 * 2**20
"""Bytes that may be read ahead even with a small cache, if there is enough memory."""
_TURN: Final = 8 * 2**20
"""Bytes of event logs that all links together are sent in one turn of the loop."""
_LITTLE: Final = 64 * 1024
"""Bytes that one link is sent at once while most of the budget is in use."""
COPIES: Final = 4
"""Copies of an event that is sent: in its delivery, ready to be sent again, in proton's output and in the socket's."""
_RESERVE: Final = 8
"""The fraction (1/n) of the budget that is reserved for links without unsettled events."""
_AGAIN: Final = 0.1
"""Seconds until the next look at the budget while little is left."""


class LogShare(NamedTuple):
    """The memory for the readers of one cluster and isolation."""

    cache: int
    ahead: int
    readers: int
    """How many Kafka clients."""
    queue: int
    batch: int = BATCH

    @property
    def client(self) -> int:
        """The most bytes of one Kafka client: its queue, a response that arrives meanwhile, and delivered events."""
        return 2 * self.queue + 2 * self.batch

    @property
    def size(self) -> int:
        """All of it."""
        return self.cache + self.ahead + self.readers * self.client


SINGLE: Final = LogShare(cache=0, ahead=0, readers=4, queue=64 * 1024, batch=64 * 1024)
"""The memory for reading single records again: little of what follows them is fetched, too."""


class LogDemand(NamedTuple):
    """The demand of a cluster by the policy; `isolations`: the number of isolation levels of its readers (KM-17)."""

    cache: int
    readers: int
    isolations: int = 1


def whole(demand: LogDemand) -> LogShare:
    """The share that the policy asks for."""
    return LogShare(demand.cache, max(demand.cache, AHEAD), demand.readers, QUEUE)


def shares(limit: int, demands: Mapping[str, LogDemand]) -> dict[str, LogShare]:
    """The share of each cluster: its demand, or a fair part where there is not enough; `limit` is the budget.

    Each has at least one small client, whatever the limit.
    """
    least = sum(_CLIENT * demand.isolations for demand in demands.values())
    demanded = sum(whole(demand).size * demand.isolations for demand in demands.values())
    factor = (limit * _PART[0] // _PART[1] - least) / max(demanded - least, 1)
    return {name: _scaled(whole(demand), min(max(factor, 0.0), 1.0)) for name, demand in demands.items()}


def _scaled(share: LogShare, factor: float) -> LogShare:
    clients = _CLIENT + int((share.readers * share.client - _CLIENT) * factor)
    readers = min(clients // _CLIENT, share.readers)
    queue = (clients // readers - _IN_TRANSIT) // 2
    return LogShare(int(share.cache * factor), int(share.ahead * factor), readers, min(queue, QUEUE))


class Clock(Protocol):
    """When to go on; the loop is one."""

    def call_soon(self, callback: Callable[[], object], /) -> object: ...
    def call_later(self, delay: float, callback: Callable[[], object], /) -> object: ...


class TurnBudget:
    """The bytes of event logs that links are sent in one turn of the loop, for all clusters together.

    Sent bytes are charged at the end of a turn: a hundred links that wake together would be sent many times the budget
    before any of them is slowed down. While the budget is nearly used up, only links without unsettled events are sent
    any; while it is used up, none: connections that hold nothing are not slowed down, and there may be any number.
    """

    def __init__(self, pool: Pool, clock: Clock, charge: Callable[[], None] = lambda: None) -> None:
        """`charge` updates the accounts."""
        self._pool: Final = pool
        self._charge: Final = charge
        self._clock: Final = clock
        self._turn: Final = min(_TURN, pool.limit // 16)
        self._used = 0
        self._reset_due = False
        self._waiting: deque[Callable[[], None]] = deque()

    def _most(self, holds: bool) -> int:
        """Bytes that all links may be sent in one turn; 0 or less: none until memory is freed."""
        free = self._pool.limit - self._pool.total - (self._pool.limit // _RESERVE if holds else 0)
        return min(self._turn, free // COPIES)

    def size(self, holds: bool) -> int:
        """Bytes that a link may be sent now; `holds`: it has unsettled events. 0 or less: none now."""
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
        if not self._reset_due:
            self._reset_due = True
            if self._most(True) <= 0:
                self._clock.call_later(_AGAIN, self._next)
            else:
                self._clock.call_soon(self._next)

    def _next(self) -> None:
        self._charge()
        self._reset_due, self._used = False, 0
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
    """For a cluster without a share."""
    return TurnBudget(Pool(2**62), clock)
