"""Messages a second of links, of the rules that decided them, and of connectors, between two looks at all links. Pure.

Links count by themselves, so the messages cost nothing more; a look costs one step for each link, and there are looks
only while somebody watches.
"""

from __future__ import annotations

from collections.abc import Mapping
from heapq import nlargest
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from gateway.admin.live.credit import LinkKey
    from gateway.amqp.link.link import Link

WATCHED: Final = 15.0
"""Seconds for which a request keeps the looks going."""


BUSIEST: Final = 1000
"""Links in a list by rate."""


class FlowKey(NamedTuple):
    """Links that are counted together: those of a rule in one direction, or of a connector (`rule` is empty)."""

    scope: str
    connector: str
    rule: str
    direction: str


class Flow(NamedTuple):
    """How many links there are, and their messages a second together."""

    links: int
    rate: float


class Rates:
    """The rates between the last two looks."""

    def __init__(self) -> None:
        self._until = float("-inf")
        self._at: float | None = None
        self._counts: dict[LinkKey, int] = {}
        self._next: dict[LinkKey, int] = {}
        self._changed: dict[LinkKey, int] = {}
        self._sums: dict[tuple[str, str, str, str], list[int]] = {}
        self._rates: dict[LinkKey, float] = {}
        self._events: dict[tuple[str, str], int] = {}
        self.flows: dict[FlowKey, Flow] = {}
        self.events: dict[tuple[str, str], float] = {}
        """Events a second of clusters, by their name and the kind of event; without those that are 0."""

    def watch(self, now: float) -> None:
        """Somebody wants rates: look for a while from `now` on, in seconds of a monotonic clock."""
        self._until = now + WATCHED

    def wanted(self, now: float) -> bool:
        """Whether to look; what was seen before is forgotten when nobody watches any more."""
        if now <= self._until:
            return True
        if self._at is not None:
            self._at, self._counts, self._rates, self._events, self.flows, self.events = None, {}, {}, {}, {}, {}
        return False

    def look(self, key: LinkKey, link: Link) -> None:
        """Look at a link, once in each round."""
        connector, decision = link.engine.peer.connector, link.decision
        count = link.counted + link.transfers
        more = count - self._counts.get(key, 0)
        self._next[key] = count
        if more:
            self._changed[key] = more
        rule = "" if connector or decision is None else decision.rule
        kind = link.scope, connector, rule, "in" if link.incoming else "out"
        if (sums := self._sums.get(kind)) is None:
            sums = self._sums[kind] = [0, 0]
        sums[0] += 1
        sums[1] += more

    def finish(self, now: float, events: Mapping[tuple[str, str], int]) -> None:
        """A round is over; `events` are the totals of clusters, by their name and the kind of event."""
        if self._at is not None:
            seconds = max(now - self._at, 1e-3)
            self._rates = {key: more / seconds for key, more in self._changed.items()}
            self.flows = {FlowKey(*kind): Flow(links, more / seconds) for kind, (links, more) in self._sums.items()}
            changed = {key: count - self._events.get(key, count) for key, count in events.items()}
            self.events = {key: count / seconds for key, count in changed.items() if count}
        self._at, self._counts, self._events = now, self._next, dict(events)
        self._next, self._changed, self._sums = {}, {}, {}

    def of(self, key: LinkKey) -> float | None:
        """The rate of a link; None: there were not two looks yet."""
        return None if not self.flows and key not in self._rates else round(self._rates.get(key, 0.0), 1)

    def busiest(self) -> list[LinkKey]:
        """The links that carry messages, at most `BUSIEST`, those with the highest rates first."""
        return nlargest(BUSIEST, self._rates, key=self._rates.__getitem__)
