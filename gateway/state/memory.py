"""State of a single gateway process."""

from __future__ import annotations

from typing import Final

from gateway.state.counters.memory_store import MemoryCounterStore
from gateway.state.subscriptions.memory_store import MemorySubscriptionStore
from gateway.state.termini.store import EACH, MemoryTermini


class MemoryState:
    """State in memory: always available, lost with the process."""

    def __init__(self, user_termini: int = EACH) -> None:
        self.store: Final = MemoryCounterStore()
        self.termini: Final = MemoryTermini(each=user_termini)
        self.subscriptions: Final = MemorySubscriptionStore()

    def ready(self) -> tuple[bool, str]:
        """Always ready."""
        return True, "in memory, this process only"

    async def run(self) -> None:
        """Nothing to do."""

    async def close(self) -> None:
        """Nothing to close."""
