"""When consumer groups began to read their logs: what was added since is new to them (KM-9).

A record says how many partitions a log had when a group began, and, where its links share, where each of them ended. It
is written once for each group, before the first link of it is answered; whoever comes later reads it, at this process
or another one. It is kept like a terminus: the number of partitions at 0, the end of partition `n` at `n + 1`.
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
"""Seconds, times the attempt: the most that a process waits before it tries again to be the one that writes."""


class Beginning(NamedTuple):
    """The number of partitions, and the end of each by its number; no ends where links own their partitions."""

    partitions: int
    ends: Mapping[int, int]

    def record(self) -> dict[int, int]:
        """As positions of a terminus."""
        return {0: self.partitions, **{partition + 1: end for partition, end in self.ends.items()}}

    def since(
        self, starts: dict[int, int], ends: dict[int, int], position: LogPosition
    ) -> tuple[dict[int, int], dict[int, int]]:
        """Where the group begins in partitions that it has no position in, where a link alone would begin now.

        What was added since may be older than the link that gets the partition, and no other link has seen it: to all
        links of the group `@latest` is the end that the log had when the group began.
        """
        then = {partition: min(end, self.ends.get(partition, end)) for partition, end in ends.items()}
        return (then if position.start is Start.LATEST else starts), then


class Beginnings:
    """The records, by way of the state that gateways share."""

    def __init__(self, termini: Termini) -> None:
        self._termini: Final = termini
        self._asked: Final[WeakValueDictionary[str, asyncio.Lock]] = WeakValueDictionary()

    async def of(self, group: str, node: str, about: object, now: Callable[[], Awaitable[Beginning]]) -> Beginning:
        """When the group began; it begins `now` where it has not. Raises `Unavailable`, and what `now` raises.

        `about` is the identity of the topic: a group begins anew on a topic that was made anew. Of processes that ask
        first at the same moment one writes, and the others read what it wrote.
        """
        key = digest(["group-began", node, group])
        async with self._asked.setdefault(key, asyncio.Lock()):  # attaches of one process share one question
            return await self._written(key, digest(about), now)

    async def _written(self, key: str, about: str, now: Callable[[], Awaitable[Beginning]]) -> Beginning:
        began: Beginning | None = None
        for attempt in range(_ATTEMPTS):
            kept = await self._termini.acquire(key, about, None)
            if kept.positions:
                return _beginning(kept.positions)
            if began is None:
                began = await now()
            (saved,) = await self._termini.save([Save(key, kept.token, began.record(), None)])
            if saved:
                return began
            await asyncio.sleep(random.uniform(0, _PAUSE) * attempt)  # noqa: S311 (not a secret)
        raise TerminiUnavailable("too many processes begin the same group")


def _beginning(kept: Mapping[int, int]) -> Beginning:
    ends = {number - 1: at for number, at in kept.items() if number}
    return Beginning(kept.get(0, 0), ends)


def digest(parts: object) -> str:
    """A name for records about `parts`, 32 hexadecimal digits; what is no JSON counts by its text."""
    return hashlib.sha256(json.dumps(parts, default=str).encode()).hexdigest()[:32]
