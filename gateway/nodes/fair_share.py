"""Destinations that do not move must not use up the window of a link whose messages go to many (DESIGN 2).

A message keeps the credit that it came with until it has its outcome. So a destination where nobody receives, or whose
receiver settles nothing, would hold what it got for good, and with it the link's credit. Once a second, while something
is under way, the link looks at its destinations: what waits past its expiry, or for a receiver that has left, is
released; those that gave no outcome for ten looks share half of the window, by requester; and the link gets credit
for others in place of what they hold. Their own further messages are released.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable
from typing import TYPE_CHECKING, Final, Protocol

from gateway.nodes.routed import HELD, STILL, RoutedLink

if TYPE_CHECKING:
    from gateway.amqp.link import Link

LOOK: Final = 1.0
"""Seconds between two looks."""


class Timer(Protocol):
    """What can be cancelled."""

    def cancel(self) -> None: ...


class Shares:
    """What the destinations of one link may hold of its window; looks only while one of them holds something."""

    def __init__(
        self,
        link: Link,
        window: int,
        routes: Callable[[], Collection[RoutedLink]],
        later: Callable[[float, Callable[[], None]], Timer],
        now_ms: Callable[[], int],
    ) -> None:
        self._link: Final = link
        self._most: Final = max(window // 2, 1)
        self._reserve: Final = max(window // 4, 1)
        self._routes: Final = routes
        self._later: Final = later
        self._now_ms: Final = now_ms
        self._timer: Timer | None = None
        self._over = False
        self.lent = 0
        """Credit that was given in place of what is stuck: outcomes pay it back before any new is given."""

    def watch(self) -> None:
        """Something is under way."""
        if self._timer is None and not self._over:
            self._timer = self._later(LOOK, self._look)

    def stop(self) -> None:
        """The link has ended."""
        self._over = True
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        self._timer, now = None, self._now_ms()
        busy = [route for route in self._routes() if route.busy]
        for route in busy:
            route.tidy(now)
        stuck = [route for route in busy if route.still >= STILL]
        self._limit(stuck)
        for route in busy:
            if route.still < STILL:
                route.limit(HELD, paused=False)
        if stuck and (missing := self._reserve - self._link.granted) > 0:
            self.lent += missing
            self._link.grant(missing)
        if any(route.busy for route in busy):
            self.watch()

    def _limit(self, stuck: list[RoutedLink]) -> None:
        """Each requester's destinations may hold a fair share; one that holds less is left alone."""
        waiting, handed = sums(stuck, lambda route: route.waiting), sums(stuck, lambda route: route.handed)
        room, most = fair_share(waiting.values(), self._most), fair_share(handed.values(), self._most)
        for route in stuck:
            over = waiting[route.group] - room
            keep = HELD if over <= 0 else max(route.waiting - over, 0)
            waiting[route.group] -= max(route.waiting - keep, 0)
            route.limit(keep, paused=handed[route.group] > most)


def sums(routes: Iterable[RoutedLink], count: Callable[[RoutedLink], int]) -> dict[Hashable, int]:
    """How many each requester has."""
    found: dict[Hashable, int] = defaultdict(int)
    for route in routes:
        found[route.group] += count(route)
    return found


def fair_share(sizes: Iterable[int], most: int) -> int:
    """The largest share, at least one, with which all of `sizes` cut down to it come to `most` together."""
    left, share = most, most
    ordered = sorted(sizes)
    for at, size in enumerate(ordered):
        share = left // (len(ordered) - at)
        if size > share:
            return max(share, 1)
        left -= size
    return max(share, most)
