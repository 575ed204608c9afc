"""Subscriptions in memory: they end with the process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import Final

from gateway.state.subscriptions.store import (
    AlreadyExists,
    Change,
    Changed,
    Follower,
    LimitReached,
    StoredSubscription,
    SubscriptionLimits,
)


class _Manager:
    """The stored subscriptions of one manager."""

    __slots__ = ("followers", "owned", "revision", "stored")

    def __init__(self) -> None:
        self.revision = 0
        self.stored: Final[dict[str, StoredSubscription]] = {}
        self.owned: Final[dict[str, int]] = {}
        """The number of subscriptions of each owner."""
        self.followers: Final[dict[object, Follower]] = {}

    def put(self, id: str, owner: str, document: bytes) -> StoredSubscription:
        """Store a document under the next revision."""
        self.revision += 1
        stored = self.stored[id] = StoredSubscription(id, owner, self.revision, document)
        self.notify(id)
        return stored

    def notify(self, id: str) -> None:
        """Schedule the followers on the event loop, so that none of them runs during a change."""
        loop = asyncio.get_running_loop()
        for changed in list(self.followers.values()):
            loop.call_soon(changed, (Change(self.revision, id),))


class MemorySubscriptionStore:
    """See `SubscriptionStore`; no call waits."""

    lasting: Final = False

    def __init__(self) -> None:
        self._managers: Final[dict[str, _Manager]] = {}

    def _of(self, manager: str) -> _Manager:
        return self._managers.setdefault(manager, _Manager())

    async def create(
        self, manager: str, id: str, owner: str, document: bytes, limits: SubscriptionLimits
    ) -> StoredSubscription:
        """See `SubscriptionStore`."""
        own = self._of(manager)
        if id in own.stored:
            raise AlreadyExists(id)
        if len(own.stored) >= limits.subscriptions:
            raise LimitReached("subscriptions", limits.subscriptions)
        if own.owned.get(owner, 0) >= limits.user:
            raise LimitReached("user", limits.user)
        own.owned[owner] = own.owned.get(owner, 0) + 1
        return own.put(id, owner, document)

    async def replace(self, manager: str, id: str, document: bytes, revision: int) -> StoredSubscription:
        """See `SubscriptionStore`."""
        own = self._of(manager)
        known = own.stored.get(id)
        if known is None or known.revision != revision:
            raise Changed(id)
        return own.put(id, known.owner, document)

    async def delete(self, manager: str, id: str, revision: int) -> int:
        """See `SubscriptionStore`."""
        own = self._of(manager)
        known = own.stored.get(id)
        if known is None or known.revision != revision:
            raise Changed(id)
        del own.stored[id]
        own.revision += 1
        own.owned[known.owner] -= 1
        if not own.owned[known.owner]:
            del own.owned[known.owner]
        own.notify(id)
        return own.revision

    async def load(self, manager: str) -> tuple[int, Mapping[str, StoredSubscription]]:
        """See `SubscriptionStore`."""
        own = self._of(manager)
        return own.revision, dict(own.stored)

    async def load_some(self, manager: str, ids: Collection[str]) -> Mapping[str, StoredSubscription]:
        """See `SubscriptionStore`."""
        stored = self._of(manager).stored
        return {id: stored[id] for id in ids if id in stored}

    async def revision(self, manager: str) -> int:
        """See `SubscriptionStore`."""
        return self._of(manager).revision

    def follow(self, manager: str, changed: Follower) -> Callable[[], None]:
        """See `SubscriptionStore`."""
        followers, me = self._of(manager).followers, object()
        followers[me] = changed

        def end() -> None:
            followers.pop(me, None)

        return end

    async def run(self) -> None:
        """Nothing to do: there are no other processes."""
