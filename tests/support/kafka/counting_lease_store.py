"""A lease store that counts requests in progress, for tests that send the notifications themselves."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from gateway.state.leases.store import CasResult, ChangeListener, LeaseStore, VersionedRecord


class CountingLeaseStore:
    """A store that knows how many questions are under way, and passes no notice on."""

    def __init__(self, board: LeaseStore) -> None:
        self.board, self.asked = board, 0

    @property
    def ttl(self) -> float | None:
        return self.board.ttl

    def listen(self, changed: ChangeListener) -> None:
        """Notices are the test's to give."""

    async def _ask(self, question: Any) -> Any:
        self.asked += 1
        try:
            return await question
        finally:
            self.asked -= 1

    async def join(self, member: str, about: str) -> None:
        await self._ask(self.board.join(member, about))

    async def heartbeat(self, member: str, about: str, keys: Collection[str]) -> bool:
        return bool(await self._ask(self.board.heartbeat(member, about, keys)))

    async def leave(self, member: str) -> None:
        await self._ask(self.board.leave(member))

    async def members(self) -> Mapping[str, str]:
        return await self.board.members()

    async def load(self, key: str) -> VersionedRecord:
        seen: VersionedRecord = await self._ask(self.board.load(key))
        return seen

    async def swap(self, member: str, key: str, seen: VersionedRecord, text: str) -> CasResult:
        swapped: CasResult = await self._ask(self.board.swap(member, key, seen, text))
        return swapped

    async def run(self) -> None:
        """Not used."""

    async def close(self) -> None:
        await self.board.close()
