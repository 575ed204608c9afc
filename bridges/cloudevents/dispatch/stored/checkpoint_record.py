"""The checkpoints of a manager's subscriptions in shared state, by bucket: read once, then written when they change.

Acquiring a record sets the fence of this process's lease. A later owner acquires it with a higher fence, and further
writes of this process are then rejected.
"""

from __future__ import annotations

import hashlib
from typing import Final

from gateway.state.termini.store import Save, Termini

_DESCRIPTION: Final = "subscriptions 1"
APPLIED: Final = ""
"""The entry, of no subscription, that holds the last revision of the manager that the owner has applied."""
BUCKETS: Final = 64
"""Number of records of a manager. It is constant, so that a checkpoint stays in its record when gateways are added."""


def bucket_of(id: str) -> int:
    """The record that holds the subscription's checkpoint."""
    return int.from_bytes(hashlib.sha256(id.encode("utf-8", "surrogatepass")).digest()[:4], "big") % BUCKETS


def record_key(manager: str, bucket: int) -> str:
    """The key of a record; `manager`: its scope and name."""
    return hashlib.sha256(f"subscriptions\0{manager}\0{bucket}".encode()).hexdigest()[:32]


class CheckpointRecord:
    """The record of one bucket."""

    def __init__(self, termini: Termini, manager: str, bucket: int) -> None:
        """`manager`: its scope and name."""
        self._termini: Final = termini
        self._key: Final = record_key(manager, bucket)
        self._token = ""
        self._checkpoints: Final[dict[str, str]] = {}
        self._changed: dict[str, str | None] = {}
        self._writing: dict[str, str | None] = {}

    async def acquire(self, fence: int) -> None:
        """Acquire the record; raises TerminiUnavailable, or Fenced if a later owner has it."""
        record = await self._termini.acquire(self._key, _DESCRIPTION, None, fence)
        self._token = record.token
        self._checkpoints.update(record.marks)

    def get(self, id: str) -> str | None:
        """The stored checkpoint of a subscription."""
        return self._checkpoints.get(id)

    def put(self, id: str, checkpoint: str) -> None:
        """Set a checkpoint; the next `take_changes` includes it."""
        if self._checkpoints.get(id) != checkpoint:
            self._checkpoints[id] = self._changed[id] = checkpoint

    def remove(self, id: str) -> None:
        """Remove a checkpoint; the next `take_changes` includes that."""
        if self._checkpoints.pop(id, None) is not None:
            self._changed[id] = None

    def take_changes(self, *, check_owner: bool) -> Save | None:
        """The write that is due, or None. `check_owner`: write even without changes, to detect a new owner."""
        if not self._changed and not check_owner:
            return None
        self._writing, self._changed = self._changed, {}
        checkpoints = {id: checkpoint for id, checkpoint in self._writing.items() if checkpoint is not None}
        removed = [id for id, checkpoint in self._writing.items() if checkpoint is None]
        return Save(self._key, self._token, {}, None, checkpoints, removed)

    def restore_changes(self) -> None:
        """Mark the last `take_changes` as not written, so that the next one repeats it."""
        self._changed = {**self._writing, **self._changed}
