"""The log of a topic for somebody who is no link: where it begins and ends, and its batches (KM-16)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, NamedTuple, Protocol

from bridges.kafka.admin.client import Topic
from bridges.kafka.clusters.cluster import COMMITTED, Cluster
from bridges.kafka.consume.batches import FetchedBatch, PartitionBuffer
from bridges.kafka.consume.fetch_scheduler import FetchScheduler
from gateway.errors import AmqpError


class LogStart(NamedTuple):
    """An offset of each partition of one log; `identity` is another one when the topic was created again."""

    identity: str
    offsets: Mapping[int, int]


class TapListener(Protocol):
    """Who reads; an error that it raises is reported, and ends nothing."""

    def on_records(self, partition: int) -> None:
        """The batch that it waited for is there."""

    def on_truncated(self, partition: int, low: int) -> None:
        """Retention has deleted the events before offset `low`: what it waited for is gone."""

    def on_failed(self, error: AmqpError) -> None:
        """Kafka does not permit reading."""

    def on_partitions_added(self, partitions: int) -> None:
        """The topic has so many partitions now."""

    def on_topic_gone(self) -> None:
        """The topic was deleted, or created anew: its offsets mean nothing any more."""


class TopicLog:
    """The log of a route, read with the route's isolation."""

    __slots__ = ("_cluster", "_isolation", "_topic")

    def __init__(self, cluster: Cluster, topic: str, isolation: str = COMMITTED) -> None:
        self._cluster: Final = cluster
        self._topic: Final = topic
        self._isolation: Final = isolation

    async def find(self) -> Topic:
        """The topic as it is now; raises AmqpError."""
        return await self._cluster.topic(self._topic)

    async def ends(self) -> LogStart:
        """Where each partition ends; raises AmqpError."""
        topic = await self.find()
        bounds = await self._cluster.bounds(self._topic, range(topic.partitions), self._isolation)
        return LogStart(identity_of(topic), {partition: each.high for partition, each in bounds.items()})

    async def beginnings(self) -> LogStart:
        """The oldest offset of each partition; raises AmqpError."""
        topic = await self.find()
        bounds = await self._cluster.bounds(self._topic, range(topic.partitions), self._isolation)
        return LogStart(identity_of(topic), {partition: each.low for partition, each in bounds.items()})

    async def since(self, time_ms: int) -> LogStart:
        """The first offset of each partition that was stored at `time_ms` or later; raises AmqpError.

        A cluster that cannot look up by time (the embedded one) begins at the oldest offset.
        """
        if self._cluster.plain:
            return await self.beginnings()
        ends = await self.ends()
        found = await self._cluster.first_since(self._topic, tuple(ends.offsets), time_ms)
        offsets = {each: found[each] if found[each] >= 0 else end for each, end in ends.offsets.items()}
        return ends._replace(offsets=offsets)

    async def behind(self, positions: Mapping[int, int]) -> int:
        """How many offsets lie behind these positions; raises AmqpError."""
        bounds = await self._cluster.bounds(self._topic, tuple(positions), self._isolation)
        return sum(max(0, each.high - max(each.low, positions[partition])) for partition, each in bounds.items())

    async def commit(self, group: str, offsets: Mapping[int, int]) -> None:
        """Commit offsets of a group for lag tools; a failure is logged once for each topic, and otherwise ignored."""
        await self._cluster.commit(group, self._topic, offsets)

    def tap(self, topic: Topic, owner: TapListener, *, single: bool = False) -> Tap:
        """Read the log as it was `find`ed; `single`: single records, so that little of what follows is fetched."""
        return Tap(self._cluster, topic, owner, self._cluster.scheduler_of(self._isolation, single=single))

    def find_batch(self, partition: int, offset: int) -> FetchedBatch | None:
        """The batch with `offset` if others have just read it; None: it is not in memory."""
        return self._cluster.scheduler_of(self._isolation).find(self._topic, partition, offset)


def identity_of(topic: Topic) -> str:
    """What tells a topic from another one of the same name."""
    return str(topic.identity)


class Tap:
    """One reader of a topic: it has one position in each partition."""

    __slots__ = ("_buffers", "_cluster", "_open", "_owner", "_scheduler", "_topic", "_waiting")

    def __init__(self, cluster: Cluster, topic: Topic, owner: TapListener, scheduler: FetchScheduler) -> None:
        self._cluster: Final = cluster
        self._topic: Final = topic.name
        self._owner: Final = owner
        self._scheduler: Final = scheduler
        self._buffers: dict[int, PartitionBuffer] = {}
        self._waiting: dict[int, int] = {}
        self._open = True
        cluster.watch(topic, self)

    def take(self, partition: int, offset: int) -> FetchedBatch | None:
        """The batch that holds `offset`; None: the owner's `arrived`, or `lost`, is called when there is one."""
        buffer = self._buffers.get(partition)
        if buffer is not None and self._waiting.get(partition, offset) != offset:
            self._leave(partition, buffer)
            buffer = None
        if buffer is None:
            buffer = self._buffers[partition] = self._scheduler.join(self._topic, partition, self)
        if self._waiting.get(partition) == offset:
            return None
        batch = buffer.take(offset, self)
        if batch is None:
            self._waiting[partition] = offset
        return batch

    def leave(self, partition: int) -> None:
        """Read nothing of this partition before the next `take`."""
        if (buffer := self._buffers.get(partition)) is not None:
            self._leave(partition, buffer)

    def _leave(self, partition: int, buffer: PartitionBuffer) -> None:
        del self._buffers[partition]
        self._scheduler.leave(buffer, self, self._waiting.pop(partition, -1))
        if not self._buffers:
            self._buffers, self._waiting = {}, {}  # an emptied dict keeps its size, and many taps read nothing

    def close(self) -> None:
        """Read no more."""
        if self._open:
            self._open = False
            self._cluster.unwatch(self._topic, self)
            for partition, buffer in list(self._buffers.items()):
                self._leave(partition, buffer)

    # -- from the buffers and the cluster

    def arrived(self, partition: int) -> None:
        """See `Waiter`."""
        self._waiting.pop(partition, None)
        self._guarded(partial(self._owner.on_records, partition))

    def lost(self, partition: int, low: int) -> None:
        """See `Waiter`."""
        self._waiting.pop(partition, None)
        self._guarded(partial(self._owner.on_truncated, partition, low))

    def failed(self, error: AmqpError) -> None:
        """See `Waiter`."""
        self._guarded(partial(self._owner.on_failed, error))

    def topic_grew(self, topic: Topic) -> None:
        """See `TopicWatcher`."""
        self._guarded(partial(self._owner.on_partitions_added, topic.partitions))

    def topic_gone(self) -> None:
        """See `TopicWatcher`."""
        self._guarded(self._owner.on_topic_gone)

    def _guarded(self, step: Callable[[], None]) -> None:
        if self._open:
            self._cluster.supervisor.attempt(step, "kafka-tap")
