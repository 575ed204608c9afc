"""The marks of a manager's subscriptions in shared state, by bucket: read once, then written when they change.

Acquiring a record sets the fence of this process's lease. A later owner acquires it with a higher fence, and further
writes of this process are then rejected.
"""

from __future__ import annotations

import hashlib
from typing import Final

from gateway.state.termini.store import Save, Termini

_ABOUT: Final = "subscriptions 1"
BUCKETS: Final = 64
"""Records of a manager. It is constant, so that a mark stays in its record however many gateways share the manager."""


def bucket_of(id: str) -> int:
    """The record that holds the subscription's mark."""
    return int.from_bytes(hashlib.sha256(id.encode("utf-8", "surrogatepass")).digest()[:4], "big") % BUCKETS


class Ledger:
    """The record of one bucket."""

    def __init__(self, termini: Termini, manager: str, bucket: int) -> None:
        """`manager`: its scope and name."""
        self._termini: Final = termini
        self._key: Final = hashlib.sha256(f"subscriptions\0{manager}\0{bucket}".encode()).hexdigest()[:32]
        self._token = ""
        self._marks: Final[dict[str, str]] = {}
        self._changed: dict[str, str | None] = {}
        self._writing: dict[str, str | None] = {}

    async def acquire(self, fence: int) -> None:
        """Acquire the record; raises TerminiUnavailable, or Fenced if a later owner has it."""
        record = await self._termini.acquire(self._key, _ABOUT, None, fence)
        self._token = record.token
        self._marks.update(record.marks)

    def mark(self, id: str) -> str | None:
        """The stored mark of a subscription."""
        return self._marks.get(id)

    def put(self, id: str, mark: str) -> None:
        """Set a mark; the next `take` includes it."""
        if self._marks.get(id) != mark:
            self._marks[id] = self._changed[id] = mark

    def remove(self, id: str) -> None:
        """Remove a mark; the next `take` includes that."""
        if self._marks.pop(id, None) is not None:
            self._changed[id] = None

    def take(self, *, beat: bool) -> Save | None:
        """The write that is due, or None. `beat`: write even without changes, to detect a new owner."""
        if not self._changed and not beat:
            return None
        self._writing, self._changed = self._changed, {}
        marks = {id: mark for id, mark in self._writing.items() if mark is not None}
        removed = [id for id, mark in self._writing.items() if mark is None]
        return Save(self._key, self._token, {}, None, marks, removed)

    def put_back(self) -> None:
        """Mark the last `take` as not written, so that the next one repeats it."""
        self._changed = {**self._writing, **self._changed}
