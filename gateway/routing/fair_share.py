"""Destinations that take little must not use up the window of a link whose messages go to many (DESIGN 2).

A message keeps the credit that it came with until it has its outcome. So a destination where nobody receives, or whose
receiver settles next to nothing, would hold what it got for good, and with it the link's credit. Once a second, while
something is under way, the link looks at its destinations: what waits past its expiry, or for a receiver that has left,
is released. Of what a requester holds, that which it would not settle in the next ten looks at the pace of the last ten
is `slow`. All that is slow may take half of the window, shared by requester; what waits beyond that is released, the
newest first, and so is what comes beyond it. The link gets credit for others in place of what is slow. So a receiver
that holds no more than its share loses nothing, however slow it is, and neither does one that keeps its pace.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable
from typing import TYPE_CHECKING, Final, Protocol

from gateway.nodes.link import IncomingLink
from gateway.routing.requester_limits import RequesterLimit

if TYPE_CHECKING:
    from gateway.routing.message_router import DestinationLink

LOOK: Final = 1.0
"""Seconds between two looks."""


class Timer(Protocol):
    """What can be cancelled."""

    def cancel(self) -> None: ...


class FairShare:
    """What the destinations of one link may hold of its window; looks only while one of them holds something."""

    def __init__(
        self,
        link: IncomingLink,
        window: int,
        routes: Callable[[], Collection[DestinationLink]],
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
        self._quotas: dict[Hashable, RequesterLimit] = {}
        self._lent = 0
        """Credit that was given in place of what is slow."""
        self.due = 0
        """How much of that has to be paid back by outcomes, for less is slow than when it was lent."""

    def watch(self) -> None:
        """Something is under way."""
        if self._timer is None and not self._over:
            self._timer = self._later(LOOK, self._look)

    def stop(self) -> None:
        """The link has ended."""
        self._over = True
        if self._timer is not None:
            self._timer.cancel()

    def opened(self, route: DestinationLink) -> None:
        """A destination more: what its requester may hold counts for it, too."""
        route.quota = self._quotas.setdefault(route.group, route.quota)

    def pay_back(self) -> None:
        """The credit of one outcome, of which some is `due`, is not granted again."""
        self.due -= 1
        self._lent -= 1

    def _look(self) -> None:
        self._timer, now = None, self._now_ms()
        busy: dict[RequesterLimit, list[DestinationLink]] = defaultdict(list)
        settled: dict[RequesterLimit, int] = defaultdict(int)
        for route in list(self._routes()):
            settled[route.quota] += route.tidy(now)
            if route.busy:
                busy[route.quota].append(route)
        for quota, routes in busy.items():
            quota.count(sum(route.busy for route in routes), settled[quota])
        share = fair_share((quota.slow for quota in busy), self._most)
        for quota, routes in busy.items():
            limit(quota, routes, share)
        for route in self._routes():
            if route.quota not in busy:
                route.quota.rest()
        self._quotas = {route.group: route.quota for route in self._routes()}
        self._lend(sum(quota.slow for quota in busy))
        if any(route.busy for route in self._routes()):
            self.watch()

    def _lend(self, slow: int) -> None:
        self.due = max(self._lent - slow, 0)
        missing = min(self._reserve - self._link.granted, slow - self._lent)
        if missing > 0:
            self._lent += missing
            self._link.grant(missing)


def limit(quota: RequesterLimit, routes: list[DestinationLink], share: int) -> None:
    """Let one requester hold no more than `share` of what is slow; the newest that wait go first."""
    over = quota.slow - share
    if over > 0:
        waiting = [route.waiting for route in routes]
        room = fair_share(waiting, max(sum(waiting) - over, 0))
        quota.slow -= sum(route.cut(room) for route in routes)
    quota.admit(share)
    paused = quota.slow - sum(route.waiting for route in routes) > share
    for route in routes:
        route.pause(paused)


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
