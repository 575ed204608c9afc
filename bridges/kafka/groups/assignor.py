"""Which partition a link is bound to: the one it names, an assigned one, or none (ES 4, 4.1, 4.3, 4.5.1)."""

from __future__ import annotations

from typing import Final

from bridges.kafka.admin.client import Topic
from bridges.kafka.clusters.cluster import Cluster
from bridges.kafka.common import partitions
from bridges.kafka.common.attach_state import still_attached
from bridges.kafka.groups.membership import Membership
from bridges.kafka.groups.ownership import PartitionOwnership
from bridges.kafka.groups.topic_growth import TopicGrowthWatcher
from gateway.errors import INTERNAL_ERROR, NOT_ALLOWED, RESOURCE_DELETED, AmqpError, Fault
from gateway.links.link import NodeLink
from gateway.state.leases.lease import Lease, LeaseRequest
from gateway.state.leases.manager import Leases
from policies.model.scopes.assignment import Assignment

_UNKNOWN: Final = 1 << 31
"""The assumed number of partitions while Kafka is unreachable; checked again once the topic is known."""


class PartitionAssignor:
    """Assigns partitions to the links of one node, by the policy's rules."""

    def __init__(self, cluster: Cluster, topic: str, rules: Assignment, leases: Leases) -> None:
        self._cluster: Final = cluster
        self._topic: Final = topic
        self._rules: Final = rules
        self._leases: Final = leases

    async def bound(self, link: NodeLink, topic: Topic | None) -> int | None:
        """The partition of a link without a group; None: all of them. `topic` is None while Kafka is unreachable."""
        named = self._named(link, topic.partitions if topic else _UNKNOWN)
        if named is None and self._rules.binding == "agnostic":
            return None
        ownership = await self._ownership()
        if named is None:
            return self._assigned(link, topic, ownership)
        if ownership is not None and (error := ownership.redirect(link, named)) is not None:
            raise error
        return named

    def _named(self, link: NodeLink, count: int) -> int | None:
        """ES-4-10: exactly the partition that the link asks for, or an error."""
        named = partitions.bound(link.properties, count)
        if named is not None and not self._rules.grants(named):
            raise AmqpError(NOT_ALLOWED, f"this node does not permit links bound to partition {named}")
        if named is None and self._rules.binding == "client":
            raise AmqpError(NOT_ALLOWED, f"links of this node have to name their partition: {partitions.PARTITION}")
        return named

    def _assigned(self, link: NodeLink, topic: Topic | None, ownership: PartitionOwnership | None) -> int:
        """ES-4-11: round robin, so that links without a group spread over the partitions."""
        if topic is None:
            raise AmqpError(INTERNAL_ERROR, "Kafka does not return the partitions of the topic", fault=Fault.BACKEND)
        candidates = self._candidates(topic.partitions)
        local = candidates if ownership is None else ownership.local(link, candidates)
        chosen = self._cluster.round_robin(f"{self._topic}/{link.incoming}", local or candidates)
        if ownership is not None and (error := ownership.redirect(link, chosen)) is not None:
            raise error
        return chosen

    def _candidates(self, count: int) -> tuple[int, ...]:
        candidates = self._rules.among(count)
        if not candidates:
            raise AmqpError(NOT_ALLOWED, "this node has no partition that a link may be bound to")
        return candidates

    async def _ownership(self) -> PartitionOwnership | None:
        return await PartitionOwnership.now(self._leases, self._topic) if self._rules.ownership == "sharded" else None

    # -- groups

    def share(self, topic: Topic) -> LeaseRequest:
        """The request of a link that shares the partitions with other links of its group (ES-4.5.1-8)."""
        rules = self._rules
        return LeaseRequest(
            None, None, self._candidates(topic.partitions), rules.pending_limit if rules.surplus == "pend" else 0
        )

    async def lease(
        self, link: NodeLink, topic: Topic, key: str, member: Membership, growth: TopicGrowthWatcher
    ) -> Lease:
        """A lease for a link of a group; this may take a while (`surplus: pend`, or an owner that has to end first)."""
        candidates = self._candidates(topic.partitions)
        named = self._named_in_group(link, topic, member, candidates)
        ownership = await self._ownership()
        if ownership is not None:
            if named is not None and (error := ownership.redirect(link, named)) is not None:
                raise error
            if named is None:
                candidates = await self._among_local(link, ownership, key, candidates)
        rules = self._rules
        pend = rules.pending_limit if rules.surplus == "pend" else 0
        times = rules.pending_timeout, rules.epoch_retention
        equal = rules.equal_epoch == "displace"
        request = LeaseRequest(named, member.epoch, candidates, pend, *times, equal)
        try:
            return await self._leases.claim(key, request, gone=lambda: growth.gone or not still_attached(link))
        except AmqpError as error:
            if growth.gone:  # while the link waited (KM-18)
                raise AmqpError(RESOURCE_DELETED, "the event log behind this address was deleted") from error
            raise

    def _named_in_group(
        self, link: NodeLink, topic: Topic, member: Membership, candidates: tuple[int, ...]
    ) -> int | None:
        named = self._named(link, topic.partitions)
        if named is None and member.epoch is not None and len(candidates) == 1:
            return candidates[0]  # the epoch can only be meant for this one
        return named

    async def _among_local(
        self, link: NodeLink, ownership: PartitionOwnership, key: str, candidates: tuple[int, ...]
    ) -> tuple[int, ...]:
        """The partitions served by this process; raises a redirect if all of them are owned and another one is free."""
        local = ownership.local(link, candidates)
        owned = (await self._leases.view(key)).held
        if all(each in owned for each in local):
            for each in candidates:
                if each not in owned and (error := ownership.redirect(link, each)) is not None:
                    raise error
        return local or candidates


