"""The session of this process in the lease store: it begins, is renewed, and ends at its deadline.

The deadline counts from before the renewal was sent, on this machine's monotonic clock, so a session ends here before
it ends in the store.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Collection
from typing import Final

from gateway.observability.logs import get_logger
from gateway.state.leases.store import LeaseStore, StoreUnavailable

LOG: Final = get_logger(__name__)
_MARGIN: Final = 0.1
"""The fraction of the time to live that allows for clock drift and for bytes not yet written to the socket."""
_PAUSE: Final = 0.2
"""Seconds between attempts to renew the session while the store is unavailable."""


class ProcessSession:
    """The session of one process; `member` is its name in the store, empty while there is none."""

    def __init__(
        self,
        store: LeaseStore,
        clock: Callable[[], float],
        keys: Callable[[], Collection[str]],
        on_expired: Callable[[], None],
    ) -> None:
        """`keys`: the groups in use; `on_expired` is called when the session has expired, or may have."""
        self._store: Final = store
        self._clock: Final = clock
        self._keys: Final = keys
        self._on_expired: Final = on_expired
        self._renewing: Final = asyncio.Lock()
        self.closing = False
        self.member = ""
        self.about = ""
        """A description of this member for the others; sent with the next heartbeat."""
        self.deadline = 0.0

    @property
    def in_time(self) -> bool:
        """Whether the session certainly has not expired."""
        return self._clock() < self.deadline

    async def heartbeat(self) -> None:
        """Renew the session, or begin a new one if it has expired; may raise `StoreUnavailable`."""
        async with self._renewing:
            if self.member and await self._renewed(self.member):
                return
            self.expired()
            member, started = secrets.token_hex(8), self._clock()
            await self._store.join(member, self.about)
            self.member, self.deadline = member, started + self._lasts

    async def _renewed(self, member: str) -> bool:
        """Renew the session; False: it has expired, so that a new one has to begin.

        An answer after the deadline does not bring the session back, as a loop that stood still may have it at the
        deadline: whoever has seen that it was not in time sends nothing, and is not called when it is again.
        """
        started = self._clock()
        if not await self._store.heartbeat(member, self.about, list(self._keys())):
            return False
        if self.closing:
            return True
        if member == self.member and self.in_time:
            self.deadline = started + self._lasts
            return True
        self.expired()
        await self._store.leave(member)  # so that nobody waits until it expires there
        return False

    @property
    def _lasts(self) -> float:
        """Seconds from a renewal to the deadline."""
        return float("inf") if self._store.ttl is None else self._store.ttl * (1 - _MARGIN)

    def expired(self) -> None:
        """The session has expired, or may have."""
        self.member, self.deadline = "", 0.0
        self._on_expired()

    @property
    def interval(self) -> float:
        """Seconds between two renewals."""
        return 1.0 if self._store.ttl is None else self._store.ttl / 3

    async def renew(self) -> None:
        """Renew the session at intervals, until it is closed."""
        while not self.closing:
            pause = self.interval
            try:
                await self.heartbeat()
            except StoreUnavailable:
                pause = _PAUSE
            await asyncio.sleep(pause)

    async def watch_deadline(self) -> None:
        """End the session at the deadline, even if a renewal is still in progress."""
        while True:
            if self.member and not self.in_time:
                self.expired()
            left = self.deadline - self._clock() if self.member else _PAUSE
            await asyncio.sleep(min(max(left, 0.01), 1.0))

    async def close(self) -> None:
        """End the session, so that other members need not wait until it expires."""
        self.closing = True
        member, self.member, self.deadline = self.member, "", 0.0
        try:
            if member:
                await self._store.leave(member)
        except StoreUnavailable:
            LOG.info("group leases left to expire")
        await self._store.close()
