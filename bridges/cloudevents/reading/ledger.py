"""The marks of a part of a manager's subscriptions in the shared state: read once, then written as they change.

A record is taken with the fence of the lease that this process has; whoever takes it later has it alone, and what this
process writes then is refused.
"""

from __future__ import annotations

import hashlib
from typing import Final

from gateway.state.termini.store import Save, Termini

_ABOUT: Final = "subscriptions 1"
BUCKETS: Final = 64
"""Records of one manager: however many gateways share its subscriptions, a subscription's mark stays in its record."""


def bucket_of(id: str) -> int:
    """The record that a subscription's mark is in."""
    return int.from_bytes(hashlib.sha256(id.encode("utf-8", "surrogatepass")).digest()[:4], "big") % BUCKETS


class Ledger:
    """One record."""

    def __init__(self, termini: Termini, manager: str, bucket: int) -> None:
        """`manager`: scope and name."""
        self._termini: Final = termini
        self._key: Final = hashlib.sha256(f"subscriptions\0{manager}\0{bucket}".encode()).hexdigest()[:32]
        self._token = ""
        self._marks: Final[dict[str, str]] = {}
        self._changed: dict[str, str | None] = {}
        self._writing: dict[str, str | None] = {}

    async def acquire(self, fence: int) -> None:
        """Have the record; raises TerminiUnavailable, or Fenced when a later owner has it."""
        record = await self._termini.acquire(self._key, _ABOUT, None, fence)
        self._token = record.token
        self._marks.update(record.marks)

    def mark(self, id: str) -> str | None:
        """The mark of a subscription."""
        return self._marks.get(id)

    def put(self, id: str, mark: str) -> None:
        """Write it soon."""
        if self._marks.get(id) != mark:
            self._marks[id] = self._changed[id] = mark

    def remove(self, id: str) -> None:
        """Remove it soon."""
        if self._marks.pop(id, None) is not None:
            self._changed[id] = None

    def keep_only(self, ids: set[str]) -> None:
        """Remove the marks of subscriptions that are no more."""
        for id in self._marks.keys() - ids:
            self.remove(id)

    def take(self, *, beat: bool) -> Save | None:
        """What to write now; None: nothing. `beat`: write even if nothing has changed, to learn who has the record."""
        if not self._changed and not beat:
            return None
        self._writing, self._changed = self._changed, {}
        marks = {id: mark for id, mark in self._writing.items() if mark is not None}
        removed = [id for id, mark in self._writing.items() if mark is None]
        return Save(self._key, self._token, {}, None, marks, removed)

    def put_back(self) -> None:
        """What was taken last could not be written."""
        self._changed = {**self._writing, **self._changed}
