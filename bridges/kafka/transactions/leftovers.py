"""What failed clients may have left open in logs that Kafka believes to be ended (KM-14; decision 108).

Kafka 4.3 writes no marker of a transaction's end into a partition that has no leader at that moment (KAFKA-20734). The
transaction stays open in that log for good: readers of committed records wait, and the next commit under the same
transactional.id commits its records as well. Only the end of another transaction under that id ends it there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from bridges.kafka.common.ahead import StoredPosition
from gateway.errors import NOT_FOUND, UNAUTHORIZED_ACCESS, AmqpError

if TYPE_CHECKING:
    from bridges.kafka.clusters.cluster import Cluster

_UNCOMMITTED: Final = "read_uncommitted"
_LASTING: Final = 1.0
"""Seconds after which a transaction that is open in a partition is not taken for one that others are busy with."""
Place: TypeAlias = tuple[str, int]
"""A topic and a partition."""


class SentOffsets(NamedTuple):
    """Positions of a group, which were to be a part of a transaction."""

    group: str
    topic: str
    positions: Mapping[int, StoredPosition]


class Leftovers(NamedTuple):
    """Where the transactions of a client may still be open."""

    topics: frozenset[str] = frozenset()
    offsets: tuple[SentOffsets, ...] = ()

    def with_more(self, topics: Iterable[str], offsets: Iterable[SentOffsets]) -> Leftovers:
        """These and others, of each group once."""
        groups = {each.group: each for each in (*self.offsets, *offsets)}
        return Leftovers(self.topics.union(topics), tuple(groups.values()))

    def __bool__(self) -> bool:
        return bool(self.topics or self.offsets)


class OpenPlaces:
    """Finds the partitions in which a transaction stays open."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster: Final = cluster

    async def find(self, topics: Iterable[str]) -> list[Place]:
        """Those of these topics, as far as they exist and may be seen. Raises AmqpError if Kafka does not answer."""
        before = await self._open(topics)
        if not before:
            return []
        await asyncio.sleep(_LASTING)
        now = await self._open({topic for topic, _ in before})
        return [place for place, stable in now.items() if before.get(place) == stable]

    async def _open(self, topics: Iterable[str]) -> dict[Place, int]:
        found = dict[Place, int]()
        for topic in sorted(topics):
            try:
                found |= await self._open_in(topic)
            except AmqpError as error:
                if error.condition not in (NOT_FOUND, UNAUTHORIZED_ACCESS):
                    raise
        return found

    async def _open_in(self, topic: str) -> dict[Place, int]:
        """The partitions that have more than the readers of committed records see, and how far these see."""
        partitions = range((await self._cluster.topic(topic)).partitions)
        ends = await self._cluster.bounds(topic, partitions, _UNCOMMITTED)
        stable = await self._cluster.bounds(topic, partitions)
        return {(topic, each): stable[each].high for each in partitions if stable[each].high < ends[each].high}
