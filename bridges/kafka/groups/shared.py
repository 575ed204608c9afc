"""Links of a consumer group that share its partitions and are bound to none (`group_mode: shared`; ES-4.5.1-8, -9).

Each partition still has one owner, by a lease of its own, and a record of how far the group has read it. What changes:
a link may have several, or none for a while, and they move while links live. The owner sends nothing more of a
partition, awaits the outcomes of what it sent, writes how far it got, and gives the lease back. A link's next event
after a change tells which partitions it has now.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, NamedTuple

from bridges.kafka.admin.client import Bounds, Topic
from bridges.kafka.cluster import Cluster
from bridges.kafka.consume.delivery_policy import DeliveryPolicy
from bridges.kafka.consume.link import LogReceiver
from bridges.kafka.consume.progress import Progress
from bridges.kafka.consume.redelivery import EditedEvent
from bridges.kafka.consume.selection import Selections
from bridges.kafka.counters import ClusterCounters
from bridges.kafka.groups.checkpointer import TerminusCheckpointer, TerminusLease, group_wish
from bridges.kafka.groups.membership import GRACE, LeaseGatedLink, TopicGrowthWatcher
from gateway.amqp.link.handlers import takes_batches
from gateway.amqp.link.outcomes import Outcome
from gateway.errors import DETACH_FORCED, STOLEN, AmqpError
from gateway.state.leases.lease import Lease, RevocationReason, Share
from gateway.state.leases.manager import Leases


class MemberEntry(NamedTuple):
    """How a link takes up a partition: the group's record of it, where to begin, and what it wants there."""

    keeper: TerminusCheckpointer
    cluster: Cluster
    topic: Topic
    link: Any
    group: str
    begins: Callable[[int, TerminusLease], Awaitable[tuple[int, Selections]]]

    async def take(self, lease: Lease) -> tuple[TerminusLease, int, Selections]:
        """For the owner of `lease`; raises AmqpError."""
        node = f"{self.cluster.name}/{self.topic.name}"
        wish = group_wish(self.link, self.group, node, lease.partition, self.topic.identity)
        held = await self.keeper.take(wish, lease.fence)
        start, selections = await self.begins(lease.partition, held)
        await self.keeper.begin(held, self.topic.name, lambda: {lease.partition: start})
        return held, start, selections


class Records:
    """The records of a link, one for each of its partitions."""

    def __init__(self, keeper: TerminusCheckpointer) -> None:
        self.keeper: Final = keeper
        self.progress: Final = Progress()
        self.displaced: Callable[[AmqpError], None] = lambda error: None
        self.held: Final[dict[int, TerminusLease]] = {}

    @property
    def parts(self) -> Iterable[TerminusLease]:
        """All of them."""
        return self.held.values()


class SharedReadRequest(dict[int, Selections]):
    """What a link wants, for each of its partitions."""

    def of(self, partition: int) -> Any:
        """As `Selections.of`."""
        return self[partition].of(partition)


class SharedReceiver(LogReceiver):
    """A receive link whose partitions come and go."""

    def __init__(
        self,
        gate: LeaseGatedLink,
        cluster: Cluster,
        topic: Topic,
        counters: ClusterCounters,
        terms: DeliveryPolicy,
        records: Records,
    ) -> None:
        self.wanted: Final = SharedReadRequest()
        super().__init__(
            gate, cluster, topic, {}, counters, bound=False, selections=self.wanted, terms=terms, held=records
        )

    def gain(self, partition: int, start: int, selections: Selections) -> None:
        """Read one more partition; the next event says so (ES-4.5.1-9)."""
        self.wanted[partition] = selections
        self._positions[partition] = start
        self._announce = self._announces
        self._live_on(partition)
        self._pump_later()

    def lose(self, partition: int) -> int:
        """Send nothing more of a partition; the offset of the first event that was not sent."""
        log, position = self._logs.pop(partition), self._positions.pop(partition)
        log.remove_selection(self._selections.pop(partition))
        del self.wanted[partition]
        self._streams.leave(log, self, position)
        self._ready.pop(partition, None)
        self._unresolved.pop(partition, None)
        self._gaps.discard(partition)
        self._given_back.forget(partition)
        self._announce = self._announces
        self._pump_later()  # a drain may have waited for it
        return position

    def next(self, partition: int) -> int:
        """The first offset that was not sent."""
        return self._positions[partition]

    def topic_grew(self, topic: Topic) -> None:
        """New partitions are dealt to the links of the group."""

    def _repeat(self, event: EditedEvent, *, failed: bool, annotations: bytes | None = None) -> None:
        if event.partition in self._logs:  # else whoever has the partition now sends it again
            super()._repeat(event, failed=failed, annotations=annotations)

    async def _drain(self) -> None:
        if self._positions:
            await super()._drain()
        else:
            self._finish_drain({})

    def _finish_drain(self, ends: dict[int, Bounds]) -> None:
        super()._finish_drain({each: bounds for each, bounds in ends.items() if each in self._positions})


class MemberPartition:
    """One partition of a link; `held` is None while it is taken up, `awaited` counts outcomes once it is given away."""

    __slots__ = ("awaited", "held", "lease", "leaving", "over", "selections", "start")

    def __init__(self, lease: Lease) -> None:
        self.lease: Final = lease
        self.held: TerminusLease | None = None
        self.start = 0
        self.selections: Selections | None = None
        self.leaving = self.over = False
        self.awaited = 0


class SharedMember:
    """Handler of a link that shares: its receiver, and what its partitions and its place in the group do to it."""

    def __init__(
        self,
        gate: LeaseGatedLink,
        share: Share,
        leases: Leases,
        growth: TopicGrowthWatcher,
        entry: MemberEntry,
        terms: DeliveryPolicy,
        counters: ClusterCounters,
    ) -> None:
        self._gate: Final = gate
        self._share: Final = share
        self._leases: Final = leases
        self._growth: Final = growth
        self._entry: Final = entry
        self._cluster: Final = entry.cluster
        self._records: Final = Records(entry.keeper)
        self._receiver: Final = SharedReceiver(gate, entry.cluster, entry.topic, counters, terms, self._records)
        self._parts: Final[dict[int, MemberPartition]] = {}
        self._leaving: Final[dict[int, MemberPartition]] = {}
        self._ended = False
        self.on_credit: Final = self._receiver.on_credit
        self.on_outcome = self._receiver.on_outcome
        self.on_accepted = self._receiver.on_accepted

    def __getattr__(self, name: str) -> Any:
        return getattr(self._receiver, name)

    def takes_batches(self) -> bool:
        """As the handler behind it."""
        return takes_batches(self._receiver)

    async def take(self, leases: Iterable[Lease]) -> None:
        """Take up the first partitions, before the attach is answered: what is added from then on is delivered."""
        for lease in leases:
            self._parts[lease.partition] = MemberPartition(lease)
        await asyncio.gather(*(self._take(part) for part in self._parts.values()))

    async def _take(self, part: MemberPartition) -> None:
        part.held, part.start, part.selections = await self._entry.take(part.lease)

    def begin(self) -> None:
        """The attach is answered."""
        self._receiver.begin()
        for part in self._parts.values():
            self._read(part)

    def _read(self, part: MemberPartition) -> None:
        number, records, receiver, held = part.lease.partition, self._records, self._receiver, part.held
        assert held is not None
        assert part.selections is not None
        records.progress.forget(number)
        receiver.gain(number, part.start, part.selections)
        records.held[number] = held
        held.positions = lambda: {number: records.progress.position(number, receiver.next(number))}
        held.displaced = lambda error: self._lost(part)

    def abandon(self) -> None:
        """The attach is not answered after all."""
        for part in self._parts.values():
            if part.held is not None:
                self._cluster.supervisor.start(self._entry.keeper.hand_over(part.held), "terminus-end")

    # -- from the group

    def gained(self, lease: Lease) -> None:
        """One more partition."""
        part = self._parts[lease.partition] = MemberPartition(lease)
        self._cluster.supervisor.start(self._gain(part), f"share:{self._entry.topic.name}-{lease.partition}")

    async def _gain(self, part: MemberPartition) -> None:
        try:
            await self._take(part)
        except AmqpError as error:
            if error.condition != STOLEN:  # else a later owner has it already, and the group's record says so soon
                self._gate.detach(error)
            part.leaving = True
        if self._ended or part.leaving or part.lease.ended:
            await self._finish(part)
        else:
            self._read(part)

    def stop(self, lease: Lease, why: RevocationReason) -> None:
        """A partition goes to another link, or is lost."""
        part = self._parts.get(lease.partition)
        if part is None or part.lease is not lease:
            return
        if why is RevocationReason.LOST:
            self._lost(part)
        elif not part.leaving:
            part.leaving = True
            if lease.partition in self._records.held:  # else `_gain` sees it
                self._give_away(part)

    def over(self) -> None:
        """The place in the group is lost, with the session of this process."""
        self._gate.closing = True
        self._gate.detach(AmqpError(DETACH_FORCED, RevocationReason.LOST.value))

    # -- a partition goes

    def _give_away(self, part: MemberPartition) -> None:
        """Send nothing more of it, and await the outcomes of what was sent for a while (as ES-4-13)."""
        self._stop_reading(part)
        number, link = part.lease.partition, self._gate
        part.awaited = sum(1 for event in link.unsettled.contexts if event.partition == number)
        if not part.awaited:
            self._given(part)
            return
        self._leaving[number] = part
        self.on_outcome, self.on_accepted = self._outcome_awaited, self._accepted_awaited
        self._cluster.loop.call_later(GRACE, self._given, part)

    def _stop_reading(self, part: MemberPartition) -> None:
        number, progress = part.lease.partition, self._records.progress
        held, read = self._records.held.pop(number), self._receiver.lose(number)
        held.positions = lambda: {number: progress.position(number, read)}

    def _outcome_awaited(self, event: EditedEvent, outcome: Outcome) -> None:
        self._receiver.on_outcome(event, outcome)
        self._no_longer_awaited(event)

    def _accepted_awaited(self, events: list[EditedEvent]) -> None:
        self._receiver.on_accepted(events)
        for event in events:
            self._no_longer_awaited(event)

    def _no_longer_awaited(self, event: EditedEvent) -> None:
        part = self._leaving.get(event.partition)
        if part is not None:
            part.awaited -= 1
            if not part.awaited:
                self._given(part)

    def _given(self, part: MemberPartition) -> None:
        if not part.over:
            self._leaving.pop(part.lease.partition, None)
            if not self._leaving:
                self.on_outcome, self.on_accepted = self._receiver.on_outcome, self._receiver.on_accepted
            self._cluster.supervisor.start(self._finish(part), "share-given-away")

    async def _finish(self, part: MemberPartition) -> None:
        """Write how far it got, then let the other one have it."""
        if part.over:
            return
        part.over = True
        number = part.lease.partition
        if part.held is not None:
            await self._entry.keeper.hand_over(part.held)
        if self._parts.get(number) is part:
            del self._parts[number]
            self._records.progress.forget(number)
        self._leases.release(part.lease, orderly=True)

    def _lost(self, part: MemberPartition) -> None:
        """Somebody else may have it by now."""
        part.leaving = True
        if part.lease.partition in self._records.held and self._parts.get(part.lease.partition) is part:
            self._stop_reading(part)
            self._given(part)

    # -- from the link

    def on_detach(self, error: AmqpError | None) -> None:
        """The link is over: others get its partitions."""
        self._ended = True
        self._growth.end()
        for part in list(self._leaving.values()):
            self._given(part)
        self._receiver.on_detach(error)
        self._cluster.supervisor.start(self._leave(), "share-left")

    async def _leave(self) -> None:
        await self._entry.keeper.flush()  # who goes on finds what was accepted
        self._leases.leave(self._share)
