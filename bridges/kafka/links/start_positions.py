"""Where receive links begin to read: their filters, stored positions, and the start of their group (ES 5, KM-9)."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Final

from bridges.kafka.admin.client import Topic
from bridges.kafka.clusters.cluster import Cluster
from bridges.kafka.links.checkpointer import TerminusCheckpointer, TerminusLease
from bridges.kafka.links.group_start import GroupStart
from bridges.kafka.links.offsets import clamp, end_offsets, start_offsets
from gateway.filters.parse.filter_set import FilterSet
from gateway.filters.position.event_log import mentions_log

StartsAndEnds = tuple[dict[int, int], dict[int, int]]
"""By partition: the offset to begin at, and the offset that `@latest` stands for."""


class StartPositions:
    """The first offsets of the links of one node."""

    def __init__(self, cluster: Cluster, checkpointer: TerminusCheckpointer, isolation: str) -> None:
        self._cluster: Final = cluster
        self._checkpointer: Final = checkpointer
        self._isolation: Final = isolation

    async def of_link(
        self, topic: str, own: Iterable[int], parsed: FilterSet, terminus: TerminusLease | None, *, shared: bool = False
    ) -> StartsAndEnds:
        """For a link that reads the partitions `own`; raises AmqpError."""
        starts, ends = await start_offsets(self._cluster, topic, own, parsed.position, self._isolation)
        if terminus is None or terminus.start is None:
            return starts, ends
        resumed = terminus.resume(starts, named=not shared and mentions_log(parsed.predicate))
        resumed = clamp(topic, resumed, ends)
        terminus.done.limit(resumed, ends)
        return resumed, resumed

    async def of_owner(
        self, topic: Topic, partition: int, parsed: FilterSet, terminus: TerminusLease, group: str
    ) -> StartsAndEnds:
        """For the owner of a partition: partitions added since the group began are read from 0 (KM-9)."""
        if terminus.start is None:
            group_start = await self._checkpointer.group_start(group, f"{self._cluster.name}/{topic.name}", topic)
            if partition >= group_start.partitions:
                return {partition: 0}, {partition: 0}
        return await self.of_link(topic.name, (partition,), parsed, terminus)

    async def of_member(
        self, topic: Topic, partition: int, parsed: FilterSet, terminus: TerminusLease, group_start: GroupStart
    ) -> StartsAndEnds:
        """For a link that shares partitions: those without a position begin where the group began."""
        if terminus.start is None and partition >= group_start.partitions:
            return {partition: 0}, {partition: 0}
        starts, ends = await self.of_link(topic.name, (partition,), parsed, terminus, shared=True)
        return (starts, ends) if terminus.start is not None else group_start.since(starts, ends, parsed.position)

    async def group_start(self, topic: Topic, group: str) -> GroupStart:
        """When a group whose links share partitions began; needed before any attach is answered (ES-1-4)."""
        ends = partial(end_offsets, self._cluster, topic, self._isolation)
        return await self._checkpointer.group_start(group, f"{self._cluster.name}/{topic.name}", topic, ends)
