"""A receive link that gains and loses partitions while it is attached (ES-4.5.1-8, -9)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from bridges.kafka.admin.client import Topic
from bridges.kafka.clusters.cluster import Cluster
from bridges.kafka.common.counters import ClusterCounters
from bridges.kafka.consume.protocols import Selection
from bridges.kafka.consume.selection import Selections
from bridges.kafka.links.checkpointer import TerminusCheckpointer, TerminusLease
from bridges.kafka.links.delivery_policy import DeliveryPolicy
from bridges.kafka.links.log_link import LogLink
from bridges.kafka.links.progress import Progress
from bridges.kafka.links.receiver import LogReceiver
from gateway.errors import AmqpError


class MemberTerminus:
    """The stored positions of a link, one record for each of its partitions (as `DurableTerminus`)."""

    def __init__(self, checkpointer: TerminusCheckpointer) -> None:
        self.checkpointer: Final = checkpointer
        self.progress: Final = Progress()
        self.displaced: Callable[[AmqpError], None] = lambda error: None
        self.termini: Final[dict[int, TerminusLease]] = {}
        self.settling: Final[dict[int, TerminusLease]] = {}
        """The records of partitions that it gives away as soon as the outcomes are in: until then they are its own."""

    @property
    def parts(self) -> Iterable[TerminusLease]:
        """The records of all partitions that it has now."""
        return [*self.termini.values(), *self.settling.values()]

    def part_of(self, partition: int) -> TerminusLease | None:
        """See `StoredPositions`."""
        return self.termini.get(partition) or self.settling.get(partition)


class MemberSelections(dict[int, Selections]):
    """The selection for each partition that a link has now (as `PartitionSelections`)."""

    def of(self, partition: int) -> Selection | None:
        """See `PartitionSelections`."""
        return self[partition].of(partition)


class SharedReceiver(LogReceiver):
    """A `LogReceiver` that begins without partitions."""

    def __init__(
        self,
        gate: LogLink,
        cluster: Cluster,
        topic: Topic,
        counters: ClusterCounters,
        policy: DeliveryPolicy,
        terminus: MemberTerminus,
    ) -> None:
        self._members: Final = MemberSelections()
        super().__init__(
            gate,
            cluster,
            topic,
            {},
            counters,
            bound=False,
            selections=self._members,
            policy=policy,
            terminus=terminus,
        )

    def gain(self, partition: int, start: int, selections: Selections) -> None:
        """Read one more partition from offset `start`; the next event announces it (ES-4.5.1-9)."""
        self._members[partition] = selections
        self._positions[partition] = start
        self._announce = self._announces
        self._join(partition)
        self.deliver_later()

    def lose(self, partition: int) -> int:
        """Stop sending events of a partition; returns the offset of the first event that was not sent."""
        buffer, position = self._buffers.pop(partition), self._positions.pop(partition)
        buffer.remove_selection(self._selections.pop(partition))
        del self._members[partition]
        self._scheduler.leave(buffer, self, position)
        self._ready.pop(partition, None)
        self._gaps.discard(partition)
        self._outcomes.forget(partition)
        self._announce = self._announces
        self.deliver_later()  # a drain may have waited for this partition
        return position

    def next_offset(self, partition: int) -> int:
        """The first offset that was not sent."""
        return self._positions[partition]

    def topic_grew(self, topic: Topic) -> None:
        """See `TopicWatcher`. The group assigns the new partitions to its links."""
