"""Durable termini, which outlive their links, and positions of groups (AMQP 3.5.6, ES-3.2-7; KM-11).

A record has a position for each partition, and the token of its present link. A link that acquires a record gets a new
token; the older token cannot write any more, in whichever process it is (a fence). `about` describes the terminus; if
it differs, the record is reset. A record expires `ttl_ms` after its last write, or is dropped. `owner` is the user
whose limit it counts for; "" is the gateway itself. Positions in a log of this gateway are numbers; `marks` are
positions in a log of another container: text that only that log understands (ES-5.1.1-2).
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from heapq import heapify, heappop, heappush
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

MOST: Final = 100_000
"""Maximum number of records in memory."""


EACH: Final = 10_000
"""Default maximum number of records of one owner."""
_FEW: Final = 64
_FOR_EVER: Final = float("inf")


class TerminiUnavailable(Exception):
    """The state is unavailable or full."""


class Full(Exception):
    """The owner has reached its limit of records."""

    def __init__(self, most: int) -> None:
        super().__init__(most)
        self.most: Final = most


class Fenced(Exception):
    """A later owner has the record already."""


class Saved(IntEnum):
    """The result of a write; true if it was done."""

    TAKEN = 0
    """Another link has the record."""
    DONE = 1
    GONE = 2
    """The record does not exist any more: it expired or was dropped, or the state was emptied."""

    def __bool__(self) -> bool:
        return self is Saved.DONE


class TerminusRecord(NamedTuple):
    """An acquired record; `positions` None: it is new."""

    token: str
    positions: dict[int, int] | None
    marks: Mapping[str, str] = MappingProxyType({})


class Save(NamedTuple):
    """A write; `ttl_ms` None: the record stays until it is dropped. `positions` and `marks` are the changed ones.

    `removed` are marks to remove.
    """

    key: str
    token: str
    positions: Mapping[int, int]
    ttl_ms: int | None
    marks: Mapping[str, str] = MappingProxyType({})
    removed: Sequence[str] = ()


class Termini(Protocol):
    """Records by key; a key names container, link and node, or node, group and partition."""

    @property
    def lasting(self) -> bool:
        """Whether records outlive the process that wrote them."""

    async def acquire(
        self, key: str, about: str, ttl_ms: int | None, fence: int = 0, owner: str = ""
    ) -> TerminusRecord:
        """Acquire the record; raises `TerminiUnavailable`, or `Full` if `owner` may have no new one.

        `fence` is that of a lease, which grows with every owner: raises `Fenced` if the record has a greater one.
        """

    async def save(self, saves: Sequence[Save]) -> list[Saved]:
        """Write positions; a false result: not written. Raises `TerminiUnavailable`."""

    async def marks(self, key: str, names: Sequence[str]) -> list[str | None]:
        """Read marks without acquiring the record, None for each that is missing; raises `TerminiUnavailable`."""

    async def drop(self, key: str, token: str) -> None:
        """Remove the record if its token is still `token`; raises `TerminiUnavailable`."""


class _Record:
    __slots__ = ("about", "ends", "fence", "marks", "positions", "queued", "token")

    def __init__(self, about: str) -> None:
        self.about: Final = about
        self.positions: dict[int, int] | None = None
        self.marks: dict[str, str] = {}
        self.token = ""
        self.fence = 0
        self.ends = _FOR_EVER
        self.queued = _FOR_EVER
        """When its expiry is checked next: at the expiry or before."""


class MemoryTermini:
    """Durable termini of a single process; lost with it."""

    lasting: Final = False

    def __init__(self, clock: Callable[[], float] = time.monotonic, most: int = MOST, each: int = EACH) -> None:
        self._clock: Final = clock
        self._most: Final = most
        self._each: Final = each
        self._owned: Final[dict[str, set[str]]] = {}
        self._records: Final[dict[str, _Record]] = {}
        self._ends: list[tuple[float, str]] = []

    async def acquire(
        self, key: str, about: str, ttl_ms: int | None, fence: int = 0, owner: str = ""
    ) -> TerminusRecord:
        """Answers at once."""
        self._expire()
        record = self._records.get(key)
        if record is not None and record.fence > fence:
            raise Fenced
        if record is None and len(self._records) >= self._most:
            raise TerminiUnavailable(f"this process already stores {self._most} durable termini, its limit")
        if record is None and owner:
            self._count(owner, key)
        if record is None or record.about != about:
            record = self._records[key] = _Record(about)
        record.fence = fence
        record.token = secrets.token_hex(8)
        self._lives(key, record, ttl_ms)
        return TerminusRecord(
            record.token, None if record.positions is None else dict(record.positions), dict(record.marks)
        )

    def _count(self, owner: str, key: str) -> None:
        owned = self._owned.setdefault(owner, set())
        if len(owned) >= self._each:
            owned.intersection_update(self._records)
        if len(owned) >= self._each:
            raise Full(self._each)
        owned.add(key)

    async def save(self, saves: Sequence[Save]) -> list[Saved]:
        """Answers at once."""
        self._expire()
        return [self._save(save) for save in saves]

    def _save(self, save: Save) -> Saved:
        record = self._records.get(save.key)
        if record is None:
            return Saved.GONE
        if record.token != save.token:
            return Saved.TAKEN
        record.positions = {**(record.positions or {}), **save.positions}
        for name in save.removed:
            record.marks.pop(name, None)
        record.marks.update(save.marks)
        self._lives(save.key, record, save.ttl_ms)
        return Saved.DONE

    async def marks(self, key: str, names: Sequence[str]) -> list[str | None]:
        """Answers at once."""
        record = self._records.get(key)
        return [None if record is None else record.marks.get(name) for name in names]

    async def drop(self, key: str, token: str) -> None:
        """Answers at once."""
        record = self._records.get(key)
        if record is not None and record.token == token:
            del self._records[key]

    def _lives(self, key: str, record: _Record, ttl_ms: int | None) -> None:
        record.ends = _FOR_EVER if ttl_ms is None else self._clock() + ttl_ms / 1000
        if record.ends < record.queued:
            record.queued = record.ends
            heappush(self._ends, (record.ends, key))
            if len(self._ends) > 2 * len(self._records) + _FEW:  # many were dropped before they expired
                self._ends = [(each.queued, key) for key, each in self._records.items() if each.queued < _FOR_EVER]
                heapify(self._ends)

    def _expire(self) -> None:
        now = self._clock()
        while self._ends and self._ends[0][0] <= now:
            ends, key = heappop(self._ends)
            record = self._records.get(key)
            if record is None or record.queued != ends:
                continue
            if record.ends <= now:
                del self._records[key]
                continue
            record.queued = record.ends
            if record.ends < _FOR_EVER:
                heappush(self._ends, (record.ends, key))
