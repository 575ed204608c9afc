"""Frees what connections and links leave when they end: objects in circles, which nothing but the collector finds.

The collector of the process scans new objects only (`gateway/server/process.py`), for a scan of all stops everything,
and what has lived for a while is not new. So all are scanned after as many ends as there are links and connections: a
scan that looks at many is rare, and what is left behind is never much more than what is there.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from typing import Final

INTERVAL: Final = 5.0
"""Seconds between two looks."""
LEAST: Final = 1_000
"""Ends of connections and links before a scan is worth its while."""


class EndedCollector:
    """Scans all objects when enough of the connections and links have ended."""

    def __init__(
        self, ended: Callable[[], int], present: Callable[[], int], collect: Callable[[], object] = gc.collect
    ) -> None:
        """`ended`: how many connections and links have ended so far; `present`: how many there are."""
        self._ended: Final = ended
        self._present: Final = present
        self._collect: Final = collect
        self._seen = 0

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await asyncio.sleep(INTERVAL)
            self.look()

    def look(self) -> None:
        """Scan all objects if that is due."""
        ended = self._ended()
        if ended - self._seen >= LEAST and ended - self._seen >= self._present():
            self._seen = ended
            self._collect()
