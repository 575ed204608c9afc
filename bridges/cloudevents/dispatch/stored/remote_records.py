"""What other gateways deliver, from the records that they write: checkpoints, and the revision in force."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from bridges.cloudevents.delivery.checkpoint import DeliveryCheckpoint, load_checkpoint
from bridges.cloudevents.dispatch.stored.checkpoint_record import APPLIED, bucket_of, record_key
from gateway.state.termini.store import Termini, TerminiUnavailable

_POLL_INTERVAL: Final = 0.05
"""Seconds between two readings of a record."""
_TIMEOUT: Final = 2.0
"""Seconds after which a change is answered although its owner has not applied it."""


class RemoteRecords:
    """The records of one manager, read without acquiring them."""

    def __init__(self, termini: Termini, manager: str) -> None:
        """`manager`: its scope and name."""
        self._termini: Final = termini
        self._manager: Final = manager

    async def read(self, id: str) -> tuple[DeliveryCheckpoint | None, int | None]:
        """The stored checkpoint of a subscription, and the last revision of the manager that its owner has applied.

        Both are None if there is none, or the state does not answer.
        """
        with suppress(TerminiUnavailable, ValueError):
            found, applied = await self._termini.marks(record_key(self._manager, bucket_of(id)), (id, APPLIED))
            return None if found is None else load_checkpoint(found), None if applied is None else int(applied)
        return None, None

    async def wait(self, id: str, revision: int, owned: Callable[[], bool]) -> bool:
        """Wait, for two seconds at most, until the owner has applied a revision; returns whether it has.

        `owned`: whether this process has become the owner.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(_TIMEOUT):
                while not owned():
                    _, applied = await self.read(id)
                    if applied is not None and applied >= revision:
                        return True
                    await asyncio.sleep(_POLL_INTERVAL)
                return True
        return False
