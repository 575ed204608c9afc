"""What the destinations of one link may keep of it: messages by requester, and which of them makes room for another."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Hashable
from typing import Final, NamedTuple, Protocol, TypeVar

from gateway.nodes.link import Delivery

STILL: Final = 10
"""Looks at a destination (`fair_share`) without an outcome after which it counts as stuck."""
QUIET: Final = 2
"""As many looks after which one where all only waits may have to make room for another."""


class DetachedBudget:
    """What waits settled though the link that brought it has ended: so many bytes in the process, and no more."""

    __slots__ = ("_most", "held")

    def __init__(self, most: int) -> None:
        self._most: Final = most
        self.held = 0
        """Bytes that wait now."""

    def take(self, size: int) -> bool:
        """Whether a message of `size` bytes may stay; each is given back once."""
        if self.held + size > self._most:
            return False
        self.held += size
        return True

    def give_back(self, size: int) -> None:
        """So many bytes wait no more."""
        self.held -= size


BESIDE: Final = 256
"""Bytes that a message takes beside its own."""
DETACHED: Final = DetachedBudget(16 * 2**20)
"""That of this process: no connection is charged for it any more, the process is."""


class HeldMessage(NamedTuple):
    """A message that waits for its destination; `charged`: it has room of `DETACHED`, since its link has ended."""

    delivery: Delivery
    data: bytes
    settled: bool
    until_ms: int | None
    charged: bool

    def give_back(self) -> None:
        """It waits no more."""
        if self.charged:
            DETACHED.give_back(len(self.data) + BESIDE)


class RequesterLimit:
    """What the destinations of one requester may hold (`fair_share`); without limit until they are slow."""

    __slots__ = ("_pace", "_room", "slow")

    def __init__(self) -> None:
        self.slow = 0
        """Messages under way that will not be settled in the next looks, at the pace of the last ones."""
        self._pace: deque[int] = deque(maxlen=STILL)
        self._room: int | None = None

    def rest(self) -> None:
        """A look that finds nothing under way: what was before does not count."""
        self._pace.clear()
        self.slow, self._room = 0, None

    def count(self, held: int, settled: int) -> None:
        """A look: `held` messages are under way, and `settled` had their outcome since the look before."""
        self._pace.append(settled)
        self.slow = max(held - sum(self._pace), 0) if len(self._pace) == STILL else 0

    def admit(self, share: int) -> None:
        """Until the next look no more may wait than `share` leaves beside what is slow."""
        self._room = max(share - self.slow, 0) if self.slow else None

    def take(self) -> bool:
        """Whether one message more may wait."""
        if self._room is None:
            return True
        self._room -= 1
        return self._room >= 0


class OneDestination(Protocol):
    """A destination of one link (`message_router.DestinationLink`)."""

    @property
    def idle(self) -> bool: ...
    @property
    def handed(self) -> int: ...
    @property
    def still(self) -> int: ...
    @property
    def group(self) -> Hashable: ...


D = TypeVar("D", bound=OneDestination)


def dispensable(routes: Collection[D]) -> D | None:
    """Which destination makes room for another: one without messages, one that is stuck, or of one who has too many.

    Who has too many has the most, and more than an equal part for each requester and a new one.
    """
    for route in routes:
        if route.idle:
            return route
    for route in routes:
        if route.still >= (STILL if route.handed else QUIET):
            return route
    owners = Counter(route.group for route in routes)
    ((owner, count),) = owners.most_common(1)
    if count > max(len(routes) // (len(owners) + 1), 1):
        return next(route for route in routes if route.group == owner)
    return None
