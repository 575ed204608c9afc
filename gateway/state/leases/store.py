"""Stores of group records: the protocol, and the store in memory (KM-10).

A store swaps whole records by compare and set, knows which members are alive, and notifies every member of changes.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Collection, Mapping
from enum import Enum
from typing import Final, NamedTuple, Protocol

from gateway.observability.logs import get_logger
from gateway.state.leases.claim import Now
from gateway.state.leases.group import Group, parse

LOG: Final = get_logger(__name__)
EVERYTHING: Final = "*"
"""Passed to listeners instead of a key if notifications may have been lost: read every record."""
ChangeListener = Callable[[str], None]


class StoreUnavailable(Exception):
    """The store cannot be reached or does not respond in time; the call may have succeeded nevertheless."""


class VersionedRecord(NamedTuple):
    """A record as it was read: a swap compares `version`; `now` is the context at that time."""

    version: int
    text: str
    now: Now


class CasResult(Enum):
    """The result of a swap."""

    DONE = 1
    AGAIN = 0
    EXPIRED = -1


class LeaseStore(Protocol):
    """A store of group records; every method except `listen` and `run` may raise `StoreUnavailable`."""

    @property
    def ttl(self) -> float | None:
        """Seconds that a session lasts without a heartbeat; None: as long as the process."""

    def listen(self, changed: ChangeListener) -> None:
        """Call `changed` with the key of each record that changes, including changes by this process."""

    async def join(self, member: str, about: str) -> None:
        """Begin the session of a new member; `about` describes it to other members."""

    async def heartbeat(self, member: str, about: str, keys: Collection[str]) -> bool:
        """Renew a session and the lifetime of these records; False: the session has expired and cannot be renewed."""

    async def leave(self, member: str) -> None:
        """End a session; its member owns nothing any more."""

    async def members(self) -> Mapping[str, str]:
        """The members that are alive, and their descriptions."""

    async def load(self, key: str) -> VersionedRecord:
        """Read a record, with the time, a new fence and the members that are alive."""

    async def swap(self, member: str, key: str, seen: VersionedRecord, text: str) -> CasResult:
        """Store `text` if the record is unchanged since `seen` and the member is alive; empty text deletes it."""

    async def run(self) -> None:
        """Receive notifications from other processes, until cancelled."""

    async def close(self) -> None:
        """Close the connection."""


class LeaseTable:
    """The data that several stores in one process share; `now_ms` is any monotonic clock."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self.now_ms: Final = now_ms
        self.records: Final[dict[str, tuple[int, str]]] = {}
        self.members: Final[dict[str, tuple[float, str]]] = {}
        self.listeners: Final[list[ChangeListener]] = []
        self.fences: Final = itertools.count(1)

    def alive(self) -> dict[str, str]:
        """The members whose sessions have not expired, with their descriptions."""
        now = self.now_ms()
        return {member: about for member, (until, about) in self.members.items() if until > now}

    def notify(self, key: str) -> None:
        """Notify all listeners that a record has changed."""
        for changed in self.listeners:
            changed(key)


class MemoryLeaseStore:
    """Records in memory; sessions end only if there is a `ttl`. Stores with one table act as several processes."""

    def __init__(self, table: LeaseTable | None = None, ttl: float | None = None) -> None:
        self._table: Final = table or LeaseTable(lambda: time.monotonic_ns() // 1_000_000)
        self._ttl: Final = ttl

    @property
    def ttl(self) -> float | None:
        return self._ttl

    def listen(self, changed: ChangeListener) -> None:
        self._table.listeners.append(changed)

    def _until(self) -> float:
        return float("inf") if self._ttl is None else self._table.now_ms() + self._ttl * 1000

    async def join(self, member: str, about: str) -> None:
        self._table.members[member] = (self._until(), about)

    async def heartbeat(self, member: str, about: str, keys: Collection[str]) -> bool:
        if member not in self._table.alive():
            self._table.members.pop(member, None)
            return False
        self._table.members[member] = (self._until(), about)
        return True

    async def leave(self, member: str) -> None:
        self._table.members.pop(member, None)
        self._table.notify(EVERYTHING)

    async def members(self) -> Mapping[str, str]:
        return self._table.alive()

    async def load(self, key: str) -> VersionedRecord:
        version, text = self._table.records.get(key, (0, ""))
        now = Now(self._table.now_ms(), next(self._table.fences), frozenset(self._table.alive()))
        return VersionedRecord(version, text, now)

    async def swap(self, member: str, key: str, seen: VersionedRecord, text: str) -> CasResult:
        if member not in self._table.alive():
            return CasResult.EXPIRED
        if self._table.records.get(key, (0, ""))[0] != seen.version:
            return CasResult.AGAIN
        if text:
            self._table.records[key] = (seen.now.fence, text)
        else:
            self._table.records.pop(key, None)
        self._table.notify(key)
        return CasResult.DONE

    async def run(self) -> None:
        """Nothing to do: there are no other processes."""

    async def close(self) -> None:
        """Nothing to close."""

def read_group(key: str, text: str) -> Group:
    """Parse the record of a group.

    Raises:
        StoreUnavailable: the record was not written by this project.
    """
    try:
        return parse(text)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        LOG.error("record of a group cannot be read; delete it in the shared state", group=key)
        raise StoreUnavailable("the record of the group cannot be read") from error
