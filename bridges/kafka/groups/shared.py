"""Links of a consumer group that share its partitions and are bound to none (`group_mode: shared`; ES-4.5.1-8, -9).

Each partition has one owner, by a lease of its own, and a record of how far the group has read it. A link may have
several partitions, or none for a while, and partitions move between attached links: the owner stops sending events of
the partition, waits for the outcomes of those it sent, writes its position and releases the lease. After a change, the
next event of a link announces which partitions it has now.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, NamedTuple

from bridges.kafka.admin.client import Topic
from bridges.kafka.clusters.cluster import Cluster
from bridges.kafka.common.counters import ClusterCounters
from bridges.kafka.common.states import next_state
from bridges.kafka.consume.selection import Selections
from bridges.kafka.groups.gate import LeaseGatedLink
from bridges.kafka.groups.group_handler import ForwardingHandler
from bridges.kafka.groups.owner import GRACE
from bridges.kafka.groups.partition_state import TRANSITIONS, PartitionEvent, PartitionState
from bridges.kafka.groups.shared_receiver import MemberTerminus, SharedReceiver
from bridges.kafka.groups.topic_growth import TopicGrowthWatcher
from bridges.kafka.links.checkpointer import TerminusCheckpointer, TerminusLease
from bridges.kafka.links.delivery_policy import DeliveryPolicy
from bridges.kafka.links.terminus_request import group_terminus
from bridges.kafka.records.event import EncodedEvent
from gateway.amqp.link.outcomes import Outcome
from gateway.errors import DETACH_FORCED, STOLEN, AmqpError
from gateway.links.link import OutgoingLink
from gateway.state.leases.lease import Lease, RevocationReason, Share
from gateway.state.leases.manager import Leases

_CAME_BACK: Final = (
    "partition {} came back to the link, which has {} events of it without an outcome from before: attach again"
)


class MemberEntry(NamedTuple):
    """How a link begins to read a partition: the position of the group, the offset to begin at, and the selection."""

    checkpointer: TerminusCheckpointer
    cluster: Cluster
    topic: Topic
    link: OutgoingLink
    group: str
    begin_in: Callable[[int, TerminusLease], Awaitable[tuple[int, Selections]]]

    async def acquire(self, lease: Lease) -> tuple[TerminusLease, int, Selections]:
        """For the owner of `lease`; raises AmqpError."""
        node = f"{self.cluster.name}/{self.topic.name}"
        request = group_terminus(self.link, self.group, node, lease.partition, self.topic.identity)
        terminus = await self.checkpointer.acquire(request, lease.fence)
        start, selections = await self.begin_in(lease.partition, terminus)
        await self.checkpointer.begin(terminus, self.topic.name, lambda: {lease.partition: start})
        return terminus, start, selections


class MemberPartition:
    """One partition of a link, and its state (`partition_state`)."""

    __slots__ = ("awaited", "lease", "selections", "start", "state", "terminus")

    def __init__(self, lease: Lease) -> None:
        self.lease: Final = lease
        self.terminus: TerminusLease | None = None
        self.start = 0
        self.selections: Selections | None = None
        self.state = PartitionState.ACQUIRING
        self.awaited = 0
        """Outcomes that are still to come, in state SETTLING."""

    def enter(self, event: PartitionEvent) -> bool:
        """Whether `event` has changed the state."""
        before, self.state = self.state, next_state(TRANSITIONS, self.state, event)
        return self.state is not before


class SharedMember(ForwardingHandler[SharedReceiver]):
    """Handler of a link that shares partitions: feeds its receiver, and gains and releases partitions."""

    def __init__(
        self,
        gate: LeaseGatedLink,
        share: Share,
        leases: Leases,
        growth: TopicGrowthWatcher,
        entry: MemberEntry,
        policy: DeliveryPolicy,
        counters: ClusterCounters,
    ) -> None:
        self._terminus: Final = MemberTerminus(entry.checkpointer)
        super().__init__(SharedReceiver(gate, entry.cluster, entry.topic, counters, policy, self._terminus))
        self._gate: Final = gate
        self._share: Final = share
        self._leases: Final = leases
        self._growth: Final = growth
        self._entry: Final = entry
        self._cluster: Final = entry.cluster
        self._progress: Final = self._terminus.progress
        self._parts: Final[dict[int, MemberPartition]] = {}
        self._settling: Final[dict[int, MemberPartition]] = {}
        self._detached = False

    async def acquire(self, leases: Iterable[Lease]) -> None:
        """Acquire the first partitions before the attach is answered: events that are added later are delivered.

        Raises:
            AmqpError: one was not acquired; all others are decided by then, so that `abandon` releases them.
        """
        for lease in leases:
            self._parts[lease.partition] = MemberPartition(lease)
        acquired = await asyncio.gather(*map(self._acquire, self._parts.values()), return_exceptions=True)
        for error in acquired:
            if error is not None:
                raise error

    async def _acquire(self, part: MemberPartition) -> None:
        part.terminus, part.start, part.selections = await self._entry.acquire(part.lease)

    def begin(self) -> None:
        """Begin to read; called just before the attach is answered."""
        self._receiver.begin()
        for part in self._parts.values():
            part.enter(PartitionEvent.ACQUIRED)
            if part.state is PartitionState.READING:
                self._read(part)
            else:
                self._start_release(part)

    def _read(self, part: MemberPartition) -> None:
        number, receiver, progress, terminus = part.lease.partition, self._receiver, self._progress, part.terminus
        assert terminus is not None
        assert part.selections is not None
        progress.forget(number)
        progress.begin(number, terminus.done.of(number))
        receiver.gain(number, part.start, part.selections)
        self._terminus.termini[number] = terminus
        self._terminus.settling.pop(number, None)
        terminus.positions = lambda: {number: progress.position(number, receiver.next_offset(number))}
        terminus.displaced = lambda error: self._lost(part)

    def abandon(self) -> None:
        """Release the partitions of an attach that is refused after all."""
        for part in self._parts.values():
            if part.terminus is not None:
                self._cluster.supervisor.start(self._entry.checkpointer.hand_over(part.terminus), "terminus-end")

    # -- from the group

    def gained(self, lease: Lease) -> None:
        """See `ShareListener`."""
        part = self._parts[lease.partition] = MemberPartition(lease)
        if self._detached:
            part.enter(PartitionEvent.DETACHED)
        self._cluster.supervisor.start(self._gain(part), f"share:{self._entry.topic.name}-{lease.partition}")

    async def _gain(self, part: MemberPartition) -> None:
        event = PartitionEvent.ACQUIRED
        try:
            await self._acquire(part)
        except AmqpError as error:
            if error.condition != STOLEN:  # STOLEN: a later owner has the record, and the lease will end soon
                self._gate.detach(error)
            event = PartitionEvent.REFUSED
        if part.lease.ended:
            part.enter(PartitionEvent.LOST)
        part.enter(event)
        if part.state is PartitionState.READING:
            self._read_again(part)
        else:
            await self._release(part)

    def _read_again(self, part: MemberPartition) -> None:
        """Read a partition, which the link may have had before: a peer with transactions may not have an event twice.

        Outcomes do not tell the deliveries apart, and both could be committed. To others each event may come twice.
        """
        left = self._left(part.lease.partition) if self._gate.engine.peer.transactions is not None else 0
        self._read(part)
        if left:
            self._gate.detach(AmqpError(DETACH_FORCED, _CAME_BACK.format(part.lease.partition, left)))

    def stop(self, lease: Lease, why: RevocationReason) -> None:
        """See `ShareListener`."""
        part = self._parts.get(lease.partition)
        if part is None or part.lease is not lease:
            return
        if why is RevocationReason.LOST:
            self._lost(part)
        elif part.enter(PartitionEvent.REVOKED) and part.state is PartitionState.SETTLING:
            self._await_outcomes(part)

    def over(self) -> None:
        """See `ShareListener`."""
        self._gate.closing = True
        self._gate.detach(AmqpError(DETACH_FORCED, RevocationReason.LOST.value))

    # -- releasing a partition

    def _await_outcomes(self, part: MemberPartition) -> None:
        """Stop sending its events, and wait up to `GRACE` seconds for the outcomes of those sent (as ES-4-13)."""
        self._stop_reading(part)
        number = part.lease.partition
        part.awaited = self._left(number)
        if not part.awaited:
            self._settled(part)
            return
        self._settling[number] = part
        self.on_outcome, self.on_accepted = self._outcome_awaited, self._accepted_awaited
        self._cluster.loop.call_later(GRACE, self._settled, part)

    def _left(self, partition: int) -> int:
        """The number of events of a partition whose outcomes are still to come."""
        unsettled = sum(1 for event in self._gate.unsettled.contexts if event.partition == partition)
        return unsettled + self._receiver.retirements.of(partition)

    def _stop_reading(self, part: MemberPartition) -> None:
        number, progress = part.lease.partition, self._progress
        terminus, read = self._terminus.termini.pop(number), self._receiver.lose(number)
        self._terminus.settling[number] = terminus  # transactions may still commit positions
        terminus.positions = lambda: {number: progress.position(number, read)}

    def _outcome_awaited(self, event: EncodedEvent, outcome: Outcome) -> None:
        self._receiver.on_outcome(event, outcome)
        self._no_longer_awaited(event)

    def _accepted_awaited(self, events: list[EncodedEvent]) -> None:
        self._receiver.on_accepted(events)
        for event in events:
            self._no_longer_awaited(event)

    def _no_longer_awaited(self, event: EncodedEvent) -> None:
        part = self._settling.get(event.partition)
        if part is not None:
            part.awaited -= 1
            if not part.awaited:
                self._settled(part)

    def _settled(self, part: MemberPartition) -> None:
        if part.enter(PartitionEvent.SETTLED):
            self._start_release(part)

    def _start_release(self, part: MemberPartition) -> None:
        number = part.lease.partition
        self._settling.pop(number, None)
        if self._terminus.settling.get(number) is part.terminus:
            self._terminus.settling.pop(number, None)
        if not self._settling:
            self.on_outcome, self.on_accepted = self._receiver.on_outcome, self._receiver.on_accepted
        self._cluster.supervisor.start(self._release(part), "share-given-away")

    async def _release(self, part: MemberPartition) -> None:
        """Write its position, then release the lease to another link."""
        number = part.lease.partition
        if part.terminus is not None:
            await self._entry.checkpointer.hand_over(part.terminus)
        if self._parts.get(number) is part:
            del self._parts[number]
            self._progress.forget(number)
        self._leases.release(part.lease, orderly=True)

    def _lost(self, part: MemberPartition) -> None:
        if self._parts.get(part.lease.partition) is not part:
            return
        if part.enter(PartitionEvent.LOST) and part.state is PartitionState.RELEASED:
            self._stop_reading(part)
            self._start_release(part)

    # -- from the link

    def on_detach(self, error: AmqpError | None) -> None:
        """The link is over: other links get its partitions."""
        self._detached = True
        self._growth.end()
        for part in dict.fromkeys((*self._parts.values(), *self._settling.values())):
            if part.enter(PartitionEvent.DETACHED) and part.state is PartitionState.RELEASED:
                self._start_release(part)
        self._receiver.on_detach(error)
        self._cluster.supervisor.start(self._leave(), "share-left")

    async def _leave(self) -> None:
        await self._entry.checkpointer.flush()  # the next owner resumes after what was accepted
        self._leases.leave(self._share)
