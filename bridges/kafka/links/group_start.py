"""When a consumer group began to read its log: partitions and events that were added later are new to it (KM-9).

A record has the number of partitions at that time and, for groups whose links share partitions, the end of each. It is
written once for each group, before the attach of its first link is answered; later links read it, at this process or
another one. It is stored as a terminus: the number of partitions at 0, the end of partition `n` at `n + 1`.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple
from weakref import WeakValueDictionary

from gateway.filters.position.event_stream import LogPosition, Start
from gateway.state.termini.store import Save, Termini, TerminiUnavailable

_ATTEMPTS: Final = 50
_PAUSE: Final = 0.005
"""Seconds, times the number of the attempt: the longest pause before a process tries again to write the record."""


class GroupStart(NamedTuple):
    """The number of partitions then, and the end of each; no ends if links own their partitions."""

    partitions: int
    ends: Mapping[int, int]

    def record(self) -> dict[int, int]:
        """The positions of a terminus that stores this."""
        return {0: self.partitions, **{partition + 1: end for partition, end in self.ends.items()}}

    def since(
        self, starts: dict[int, int], ends: dict[int, int], position: LogPosition
    ) -> tuple[dict[int, int], dict[int, int]]:
        """Starts and ends for partitions in which the group has no position, from those of a link without a group.

        Events that were added since the group began may be older than the link that gets the partition, and no other
        link has read them: for all links of the group `@latest` is the end of the log when the group began.
        """
        then = {partition: min(end, self.ends.get(partition, end)) for partition, end in ends.items()}
        return (then if position.start is Start.LATEST else starts), then


class GroupStarts:
    """The records of all groups, in the state that gateways share."""

    def __init__(self, termini: Termini) -> None:
        self._termini: Final = termini
        self._locks: Final[WeakValueDictionary[str, asyncio.Lock]] = WeakValueDictionary()

    async def of(self, group: str, node: str, about: object, now: Callable[[], Awaitable[GroupStart]]) -> GroupStart:
        """When the group began; it begins `now` if it has not yet. Raises `TerminiUnavailable`, and what `now` raises.

        `about` is the identity of the topic: a group begins again on a topic that was created again. If several
        processes ask for a new group at the same time, one writes the record and the others read it.
        """
        key = digest(["group-began", node, group])
        async with self._locks.setdefault(key, asyncio.Lock()):  # attaches of one process share one request
            return await self._written(key, digest(about), now)

    async def _written(self, key: str, about: str, now: Callable[[], Awaitable[GroupStart]]) -> GroupStart:
        began: GroupStart | None = None
        for attempt in range(_ATTEMPTS):
            record = await self._termini.acquire(key, about, None)
            if record.positions:
                return _start_of(record.positions)
            if began is None:
                began = await now()
            (saved,) = await self._termini.save([Save(key, record.token, began.record(), None)])
            if saved:
                return began
            await asyncio.sleep(random.uniform(0, _PAUSE) * attempt)  # noqa: S311 (not a secret)
        raise TerminiUnavailable("too many processes begin the same group")


def _start_of(record: Mapping[int, int]) -> GroupStart:
    ends = {number - 1: at for number, at in record.items() if number}
    return GroupStart(record.get(0, 0), ends)


def digest(parts: object) -> str:
    """A key for records about `parts`, 32 hexadecimal digits; values that JSON does not have count by their text."""
    return hashlib.sha256(json.dumps(parts, default=str).encode()).hexdigest()[:32]
