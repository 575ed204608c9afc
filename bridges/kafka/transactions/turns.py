"""Commits that store positions of the same link are made one after the other (KM-14; decision 105).

Of two offsets that two open transactions have for one partition Kafka keeps the one that was sent later. So each commit
must know what the one before it has made of the same link, and none may overtake another.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Hashable
from contextlib import asynccontextmanager
from typing import Final


class CommitTurns:
    """The commits that are under way, by what they store the positions of; used from the event loop only."""

    def __init__(self) -> None:
        self._under_way: Final[dict[Hashable, list[asyncio.Event]]] = {}
        """Each is set when its commit is over."""

    @asynccontextmanager
    async def turn(self, links: Collection[Hashable]) -> AsyncIterator[None]:
        """Wait until all earlier commits for any of these links are over. Whoever came first goes first.

        Who gives up waiting lets nobody pass the earlier ones.
        """
        before, over = [each for link in links for each in self._under_way.get(link, ())], asyncio.Event()
        for link in links:
            self._under_way.setdefault(link, []).append(over)
        try:
            for each in before:
                await each.wait()
            yield
        finally:
            over.set()
            for link in links:
                self._under_way[link].remove(over)
                if not self._under_way[link]:
                    del self._under_way[link]
