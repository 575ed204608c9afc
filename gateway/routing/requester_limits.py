"""Limits of the destinations of one link, by requester, and the choice of a destination to close for another."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Hashable
from typing import Final, NamedTuple, Protocol, TypeVar

from gateway.errors import RESOURCE_LIMIT_EXCEEDED, AmqpError
from gateway.links.link import Delivery

STILL: Final = 10
"""Checks (`fair_share`) without an outcome after which a destination counts as stuck."""
QUIET: Final = 2
"""Checks without an outcome after which a destination whose messages all wait may be closed for another."""


class DetachedBudget:
    """The budget, in bytes, of settled messages that wait although their link has ended."""

    __slots__ = ("_most", "held")

    def __init__(self, most: int) -> None:
        self._most: Final = most
        self.held = 0
        """Bytes in use."""

    def take(self, size: int) -> bool:
        """Reserve `size` bytes for a message if there is room; `give_back` must follow."""
        if self.held + size > self._most:
            return False
        self.held += size
        return True

    def give_back(self, size: int) -> None:
        """Return `size` bytes."""
        self.held -= size


BESIDE: Final = 256
"""Overhead of a waiting message in bytes."""
DETACHED: Final = DetachedBudget(16 * 2**20)
"""The budget of this process; the messages are not charged to a connection any more."""


class HeldMessage(NamedTuple):
    """A message that waits for its destination; `charged`: it uses `DETACHED`, since its link has ended."""

    delivery: Delivery
    data: bytes
    settled: bool
    until_ms: int | None
    charged: bool

    def give_back(self) -> None:
        """Return its bytes, if it was charged."""
        if self.charged:
            DETACHED.give_back(len(self.data) + BESIDE)


class RequesterLimit:
    """The limit of one requester's destinations (`fair_share`); none until they are slow."""

    __slots__ = ("_pace", "_room", "slow")

    def __init__(self) -> None:
        self.slow = 0
        """Unsettled messages that will not be settled in the next checks, at the pace of the last ones."""
        self._pace: deque[int] = deque(maxlen=STILL)
        self._room: int | None = None

    def rest(self) -> None:
        """A check found nothing unsettled: forget the past."""
        self._pace.clear()
        self.slow, self._room = 0, None

    def count(self, held: int, settled: int) -> None:
        """A check: `held` messages are unsettled, and `settled` got their outcome since the last check."""
        self._pace.append(settled)
        self.slow = max(held - sum(self._pace), 0) if len(self._pace) == STILL else 0

    def admit(self, share: int) -> None:
        """Until the next check, only as many more may wait as `share` leaves beside the slow ones."""
        self._room = max(share - self.slow, 0) if self.slow else None

    def take(self) -> bool:
        """Whether one more message may wait."""
        if self._room is None:
            return True
        self._room -= 1
        return self._room >= 0


ROUTES: Final = 256
"""Maximum number of destinations of one link; `dispensable` chooses the one to close for another."""


class NoRoomLeft(AmqpError):
    """All destinations of a link are in use: a message to another one is released, because that passes."""

    def __init__(self) -> None:
        super().__init__(RESOURCE_LIMIT_EXCEEDED, f"one link can have at most {ROUTES} destinations at a time")


class OneDestination(Protocol):
    """A destination of one link (`message_router.DestinationLink`)."""

    @property
    def idle(self) -> bool: ...
    @property
    def unattended(self) -> bool: ...
    @property
    def handed(self) -> int: ...
    @property
    def still(self) -> int: ...
    @property
    def group(self) -> Hashable: ...


D = TypeVar("D", bound=OneDestination)


def dispensable(routes: Collection[D]) -> D | None:
    """The destination to close for another, or None: one without messages, one where nobody receives, a stuck one, or
    one of a requester with too many.

    A requester has too many if it has the most, and more than an equal part for each requester and a new one.
    """
    for route in routes:
        if route.idle:
            return route
    for route in routes:
        if route.unattended:
            return route
    for route in routes:
        if route.still >= (STILL if route.handed else QUIET):
            return route
    owners = Counter(route.group for route in routes)
    ((owner, count),) = owners.most_common(1)
    if count > max(len(routes) // (len(owners) + 1), 1):
        return next(route for route in routes if route.group == owner)
    return None


def must_close(routes: Collection[D]) -> D | None:
    """The destination to close before another one opens; None: there is room for it.

    Raises:
        NoRoomLeft: all are in use, and `dispensable` finds none.
    """
    if len(routes) < ROUTES:
        return None
    if (route := dispensable(routes)) is None:
        raise NoRoomLeft
    return route
