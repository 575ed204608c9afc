"""Fair shares of a link's window: a slow destination must not use up the credit of a link with many destinations.

A message holds its credit until it has an outcome. So a destination without a receiver, or with one that hardly
settles, would hold its messages, and with them the link's credit, for ever. Once a second, while messages are
unsettled, the destinations are checked: messages that are expired or wait for a receiver that has left are released.
Those messages of a requester that it would not settle in the next ten checks, at the pace of the last ten, are `slow`.
All slow messages may use half of the window, shared by requester; waiting messages beyond that are released, the newest
first, and so are new ones. The link gets extra credit in place of slow messages. So a receiver that holds no more than
its share loses nothing, however slow it is, and neither does one that keeps its pace.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable
from typing import TYPE_CHECKING, Final, Protocol

from gateway.links.link import IncomingLink
from gateway.routing.requester_limits import RequesterLimit

if TYPE_CHECKING:
    from gateway.routing.destination_link import DestinationLink

CHECK_INTERVAL: Final = 1.0
"""Seconds between two checks."""


class Timer(Protocol):
    """A timer that can be cancelled."""

    def cancel(self) -> None: ...


class FairShare:
    """Limits what the destinations of one link hold of its window; checks only while there are unsettled messages."""

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
        """Extra credit in place of slow messages."""
        self.due = 0
        """Extra credit to take back with the next outcomes, because fewer messages are slow now."""

    def watch(self) -> None:
        """There are unsettled messages: start checking."""
        if self._timer is None and not self._over:
            self._timer = self._later(CHECK_INTERVAL, self._check)

    def stop(self) -> None:
        """The link has ended."""
        self._over = True
        if self._timer is not None:
            self._timer.cancel()

    def opened(self, route: DestinationLink) -> None:
        """Add a destination to the limit of its requester."""
        route.quota = self._quotas.setdefault(route.group, route.quota)

    def pay_back(self) -> None:
        """Take back one `due` credit instead of granting it again."""
        self.due -= 1
        self._lent -= 1

    def _check(self) -> None:
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
    """Limit the slow messages of one requester to `share`; release the newest waiting ones."""
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
    """The largest share (at least 1) for which the sizes, each cut to it, add up to at most `most`."""
    left, share = most, most
    ordered = sorted(sizes)
    for at, size in enumerate(ordered):
        share = left // (len(ordered) - at)
        if size > share:
            return max(share, 1)
        left -= size
    return max(share, most)
