"""Attaches links of consumer groups to a log (ES 4.5): owners of a partition, and links that share all of them."""

from __future__ import annotations

from functools import partial
from typing import Final

from bridges.kafka.admin.client import Topic
from bridges.kafka.common import partitions
from bridges.kafka.common.attach_state import still_attached
from bridges.kafka.consume.selection import Selections
from bridges.kafka.groups.assignor import PartitionAssignor
from bridges.kafka.groups.gate import LeaseGatedLink
from bridges.kafka.groups.membership import Membership, answer, group_key
from bridges.kafka.groups.owner import GroupHandler
from bridges.kafka.groups.shared import MemberEntry, SharedMember
from bridges.kafka.groups.topic_growth import TopicGrowthWatcher
from bridges.kafka.links.checkpointer import TerminusLease
from bridges.kafka.links.group_start import GroupStart
from bridges.kafka.links.log_source import LogSource
from bridges.kafka.links.receiver import LogReceiver
from bridges.kafka.links.terminus_request import group_terminus
from gateway.amqp.codec.types import Symbol
from gateway.filters.parse.filter_set import CAPABILITIES, FilterSet
from gateway.links.link import OutgoingLink
from gateway.state.leases.lease import Lease, Share, unavailable
from gateway.state.leases.manager import Leases
from policies.model.scopes.assignment import Assignment


class GroupAttach:
    """Attaches the links of all groups of one node."""

    def __init__(self, source: LogSource, assignor: PartitionAssignor, leases: Leases, rules: Assignment) -> None:
        self._source: Final = source
        self._assignor: Final = assignor
        self._leases: Final = leases
        self._rules: Final = rules
        self._annotated: Final = source.rule.annotate != "never"  # a peer that names a group uses the extension

    async def attach(self, link: OutgoingLink, parsed: FilterSet, member: Membership) -> None:
        """Answer the attach of a link; raises AmqpError for a refusal."""
        attach = self._attach_shared if self._rules.group_mode == "shared" else self._attach_owner
        await attach(link, parsed, member)

    # -- owners

    async def _attach_owner(self, link: OutgoingLink, parsed: FilterSet, member: Membership) -> None:
        """Attach a link of a consumer group, bound to the partition that it gets a lease on (ES 4.5)."""
        cluster = self._source.cluster
        topic = await self._source.topic()
        key = group_key(cluster.name, topic.name, member.group)
        growth = TopicGrowthWatcher(cluster, topic, self._leases, key, self._rules)
        lease: Lease | None = None
        try:
            lease = await self._assignor.lease(link, topic, key, member, growth)
            handler = await self._accept_owner(link, parsed, lease, growth, topic.name, member.group)
            self._leases.hold(lease, handler)
        except BaseException:
            growth.end()
            if lease is not None:
                self._leases.release(lease, orderly=False)
            raise

    async def _accept_owner(
        self, link: OutgoingLink, parsed: FilterSet, lease: Lease, growth: TopicGrowthWatcher, name: str, group: str
    ) -> GroupHandler:
        source = self._source
        cluster, checkpointer = source.cluster, source.checkpointer
        topic = await cluster.topic(name)  # once more, because it may have grown while the link waited
        node = f"{cluster.name}/{topic.name}"
        request = group_terminus(link, group, node, lease.partition, topic.identity)
        terminus = await checkpointer.acquire(request, lease.fence)
        starts, ends = await source.starts.of_owner(topic, lease.partition, parsed, terminus, group)
        gate = LeaseGatedLink(link, lease)
        receiver = LogReceiver(
            gate,
            cluster,
            topic,
            starts,
            source.counters,
            bound=True,
            selections=Selections(parsed, starts, ends, bound=True, annotated=self._annotated),
            policy=await source.delivery_policy(topic.name, ordered=True, annotated=self._annotated),
            terminus=terminus,
        )
        await checkpointer.begin(terminus, topic.name, receiver.positions)
        if not still_attached(link) or not lease.valid:
            await checkpointer.hand_over(terminus)
            raise unavailable()
        handler = GroupHandler(gate, lease, receiver, cluster, self._leases, growth)
        receiver.begin()
        link.accept(
            handler,
            properties=answer(group, lease),
            capabilities=CAPABILITIES,
            filter=parsed.in_force,
            distribution_mode="copy",
        )
        return handler

    # -- links that share

    async def _attach_shared(self, link: OutgoingLink, parsed: FilterSet, member: Membership) -> None:
        """Attach a link of a consumer group that is bound to no partition and gets a share of all (ES-4.5.1-8)."""
        source, leases = self._source, self._leases
        cluster = source.cluster
        topic = await source.topic()
        key = group_key(cluster.name, topic.name, member.group)
        growth = TopicGrowthWatcher(cluster, topic, leases, key, self._rules)
        share: Share | None = None
        handler: SharedMember | None = None
        try:
            group_start = await source.starts.group_start(topic, member.group)
            share, first = await leases.share(key, self._assignor.share(topic))
            policy = await source.delivery_policy(topic.name, ordered=True, annotated=self._annotated)
            resumed: list[int] = []
            begin_in = partial(self._begin_in, topic, parsed, group_start, resumed)
            entry = MemberEntry(source.checkpointer, cluster, topic, link, member.group, begin_in)
            handler = SharedMember(LeaseGatedLink(link, share), share, leases, growth, entry, policy, source.counters)
            await handler.acquire(first)
            if not still_attached(link) or not share.valid:
                raise unavailable()
            handler.begin()
            properties = {Symbol(partitions.GROUP): member.group}
            link.accept(
                handler,
                properties=properties,
                capabilities=CAPABILITIES,
                filter=parsed.without_position() if resumed else parsed.in_force,
                distribution_mode="copy",
            )
            leases.hold_share(share, handler)
        except BaseException:
            growth.end()
            if handler is not None:
                handler.abandon()
            if share is not None:
                leases.leave(share)
            raise

    async def _begin_in(
        self,
        topic: Topic,
        parsed: FilterSet,
        group_start: GroupStart,
        resumed: list[int],
        partition: int,
        terminus: TerminusLease,
    ) -> tuple[int, Selections]:
        """The offset at which a link that shares begins in a partition, and its selections.

        The stored position of the group takes precedence over one in the filter: otherwise reading would begin there
        again each time that a partition moves. Partitions that are resumed are added to `resumed`.
        """
        if terminus.start is not None:
            resumed.append(partition)
        starts, ends = await self._source.starts.of_member(topic, partition, parsed, terminus, group_start)
        return starts[partition], Selections(parsed, starts, ends, bound=True, annotated=self._annotated)
