"""Counts and values of a single process, within a memory budget; lost with the process."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from heapq import heappop, heappush
from typing import Final

from gateway.state.counters.store import AcquireCallback, GetCallback, PutCallback

BUDGET: Final = 128 * 2**20
"""Bytes for all entries with their overhead: enough for about 200,000 counts of one use."""
_ENTRY: Final = 500
_CLAIM: Final = 120


class _StoredValue:
    """A count (`claims`) or a value, and its charge in bytes."""

    __slots__ = ("charge", "claims", "value")

    def __init__(self, value: bytes = b"") -> None:
        self.value = value
        self.claims: set[str] = set()
        self.charge = 0


class MemoryCounterStore:
    """Counts and values in memory; a full store answers "unknown" until something has expired."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, budget: int = BUDGET) -> None:
        self._clock: Final = clock
        self._left = budget
        self._entries: dict[str, _StoredValue] = {}
        self._ends: list[tuple[float, str]] = []
        self._full = 0

    def acquire(self, key: str, claim: str, limit: int, ttl_ms: int, then: AcquireCallback) -> None:
        """Answers at once."""
        self._expire()
        entry = self._entries.get(key)
        if entry is not None and claim in entry.claims:
            then(True)
        elif entry is not None and len(entry.claims) >= limit:
            then(False)
        elif entry is None and (limit < 1 or (entry := self._new(key, _StoredValue(), ttl_ms)) is None):
            then(False if limit < 1 else None)
        elif not self._charge(entry, _CLAIM):
            then(None)
        else:
            entry.claims.add(claim)
            then(True)

    def release(self, key: str, claim: str) -> None:
        """Releases the claim; the entry stays until it expires."""
        entry = self._entries.get(key)
        if entry is not None and claim in entry.claims:
            entry.claims.remove(claim)
            self._charge(entry, -_CLAIM)

    def put(self, key: str, value: bytes, ttl_ms: int, then: PutCallback) -> None:
        """Answers at once."""
        self._expire()
        then(self._new(key, _StoredValue(value), ttl_ms) is not None)

    def get(self, key: str, then: GetCallback) -> None:
        """Answers at once."""
        self._expire()
        entry = self._entries.get(key)
        then(b"" if entry is None else entry.value)

    def counts(self) -> Mapping[str, int]:
        """How often the store was full."""
        return {"full": self._full}

    async def run(self) -> None:
        """Nothing to do: expired entries are removed when new ones come."""

    def _new(self, key: str, entry: _StoredValue, ttl_ms: int) -> _StoredValue | None:
        if not self._charge(entry, _ENTRY + len(key) + len(entry.value)):
            return None
        self._entries[key] = entry
        heappush(self._ends, (self._clock() + ttl_ms / 1000, key))
        return entry

    def _charge(self, entry: _StoredValue, cost: int) -> bool:
        if cost > self._left:
            self._full += 1
            return False
        self._left -= cost
        entry.charge += cost
        return True

    def _expire(self) -> None:
        now, ends = self._clock(), self._ends
        while ends and ends[0][0] < now:
            self._left += self._entries.pop(heappop(ends)[1]).charge
