"""Clients that wait for credit: their links are logged once after ten seconds, and when they may send again.

A link waits if it has no credit at two looks, and has sent nothing between them. Whether its client has anything to
send is not known: AMQP lets it say so, and few do.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from gateway.observability.link_events import link_ids, rule_of

if TYPE_CHECKING:
    from gateway.amqp.link.link import Link
    from gateway.observability.link_events import LinkEvents

_LOOK: Final = 2.0
"""Seconds between two looks."""
PATIENCE: Final = 10.0
"""Seconds without credit after which a client starves."""
_STEP: Final = 200
"""Links that are looked at in one turn of the loop."""
_LINES: Final = 20
"""Links that are logged at one look; the others are counted in one line."""


class _CreditWait(NamedTuple):
    since: float
    sent: int
    logged: bool


class StarvingSenders:
    """The clients' sending links without credit."""

    def __init__(self, report: LinkEvents, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` returns seconds."""
        self._report: Final = report
        self._clock: Final = clock
        self._waits: dict[Link, _CreditWait] = {}

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(_LOOK)

    async def look(self) -> None:
        """Look at every link once."""
        now = self._clock()
        waits: dict[Link, _CreditWait] = {}
        starving: list[Link] = []
        ended: list[Link] = []
        for number, link in enumerate(self._senders(), 1):
            if number % _STEP == 0:
                await asyncio.sleep(0)
            before = self._waits.get(link)
            if link.open and link.granted <= 0:
                found = waits[link] = _still_waiting(before, link.counted + link.transfers, now)
                if found.logged and (before is None or not before.logged):
                    starving.append(link)
            elif before is not None and before.logged and link.open:
                ended.append(link)
        self._waits = waits
        self._log("sender starves", starving, seconds=PATIENCE)
        self._log("sender has credit again", ended)

    def _senders(self) -> Iterator[Link]:
        for entry in [*self._report.connections.after(0)]:
            engine = entry.item.engine
            if engine is not None and not entry.item.peer.connector:
                yield from [link for link in engine.links if link.incoming]

    def _log(self, event: str, links: list[Link], **about: object) -> None:
        for link in links[:_LINES]:
            self._report.log.warning(event, **link_ids(link), rule=rule_of(link), **about)
        if len(links) > _LINES:
            self._report.log.warning(f"{event}: further links", links=len(links) - _LINES, **about)

    def counts(self) -> Counter[tuple[str, str]]:
        """The links that starve, by scope and rule."""
        return Counter((link.scope, rule_of(link)) for link, wait in self._waits.items() if wait.logged)


def _still_waiting(before: _CreditWait | None, sent: int, now: float) -> _CreditWait:
    if before is None or before.sent != sent:
        return _CreditWait(now, sent, logged=False)
    return before._replace(logged=before.logged or now - before.since >= PATIENCE)
