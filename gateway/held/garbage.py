"""Frees what connections and links leave when they end, should it be in circles, which nothing but the collector finds.

What ends has no circles (`LinkState.release`, `Restraint.forget`): its references are counted, and it is freed at once.
This is the net below that. The collector of the process scans new objects only (`gateway/server/process.py`), for a
scan of all stops everything. So all are scanned only if as many connections and links stay as there are.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from typing import Final

INTERVAL: Final = 5.0
"""Seconds between two looks."""
LEAST: Final = 1_000
"""Connections and links that have ended and stay before a scan is worth its while."""


class EndedCollector:
    """Scans all objects when too many of the connections and links that have ended are still in memory."""

    def __init__(
        self, alive: Callable[[], int], present: Callable[[], int], collect: Callable[[], object] = gc.collect
    ) -> None:
        """`alive`: how many connections and links are in memory; `present`: how many there are."""
        self._alive: Final = alive
        self._present: Final = present
        self._collect: Final = collect
        self._held = 0
        """Those that have ended and that a scan has not freed: a node still has them, for their messages."""

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await asyncio.sleep(INTERVAL)
            self.look()

    def look(self) -> None:
        """Scan all objects if that is due."""
        present = self._present()
        ended = self._alive() - present
        self._held = min(self._held, ended)
        if ended - self._held >= max(LEAST, present):
            self._collect()
            self._held = self._alive() - present
