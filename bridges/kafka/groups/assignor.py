"""The partition that a link is bound to: the one it names, an assigned one, or none (ES 4, 4.1, 4.3, 4.5.1)."""

from __future__ import annotations

from typing import Final

from bridges.kafka import partitions
from bridges.kafka.admin.client import Topic
from bridges.kafka.attach_state import still_attached
from bridges.kafka.cluster import Cluster
from bridges.kafka.groups.membership import Membership
from bridges.kafka.groups.ownership import PartitionOwnership
from bridges.kafka.groups.topic_growth import TopicGrowthWatcher
from gateway.errors import INTERNAL_ERROR, NOT_ALLOWED, RESOURCE_DELETED, AmqpError, Fault
from gateway.nodes.link import Link
from gateway.state.leases.lease import Lease, LeaseRequest
from gateway.state.leases.manager import Leases
from policies.model.scopes.assignment import Assignment

_UNKNOWN: Final = 1 << 31
"""Stands for the number of partitions while Kafka is away; checked again once the topic is known."""


class PartitionAssignor:
    """The decisions of one node, as the policy's rules say."""

    def __init__(self, cluster: Cluster, topic: str, rules: Assignment, leases: Leases) -> None:
        self._cluster: Final = cluster
        self._topic: Final = topic
        self._rules: Final = rules
        self._leases: Final = leases

    async def bound(self, link: Link, topic: Topic | None) -> int | None:
        """The partition of a link without a group, None: all of them; the topic is None while Kafka is away."""
        named = self._named(link, topic.partitions if topic else _UNKNOWN)
        if named is None and self._rules.binding == "agnostic":
            return None
        shards = await self._shards()
        if named is None:
            return self._assigned(link, topic, shards)
        if shards is not None and (error := shards.elsewhere(link, named)) is not None:
            raise error
        return named

    def _named(self, link: Link, count: int) -> int | None:
        """ES-4-10: exactly what the link asks for, or a refusal."""
        named = partitions.bound(link.properties, count)
        if named is not None and not self._rules.grants(named):
            raise AmqpError(NOT_ALLOWED, f"this node does not permit links bound to partition {named}")
        if named is None and self._rules.binding == "client":
            raise AmqpError(NOT_ALLOWED, f"links of this node have to name their partition: {partitions.PARTITION}")
        return named

    def _assigned(self, link: Link, topic: Topic | None, shards: PartitionOwnership | None) -> int:
        """ES-4-11: each in its turn, so that links without a group spread."""
        if topic is None:
            raise AmqpError(INTERNAL_ERROR, "Kafka does not return the partitions of the topic", fault=Fault.BACKEND)
        among = self._among(topic.partitions)
        mine = among if shards is None else shards.mine(link, among)
        chosen = self._cluster.turn(f"{self._topic}/{link.incoming}", mine or among)
        if shards is not None and (error := shards.elsewhere(link, chosen)) is not None:
            raise error
        return chosen

    def _among(self, count: int) -> tuple[int, ...]:
        among = self._rules.among(count)
        if not among:
            raise AmqpError(NOT_ALLOWED, "this node has no partition that a link may be bound to")
        return among

    async def _shards(self) -> PartitionOwnership | None:
        return await PartitionOwnership.now(self._leases, self._topic) if self._rules.ownership == "sharded" else None

    # -- groups

    def share(self, topic: Topic) -> LeaseRequest:
        """What a link asks for that shares the partitions with others of its group (ES-4.5.1-8)."""
        rules = self._rules
        return LeaseRequest(
            None, None, self._among(topic.partitions), rules.pending_limit if rules.surplus == "pend" else 0
        )

    async def lease(self, link: Link, topic: Topic, key: str, member: Membership, growth: TopicGrowthWatcher) -> Lease:
        """A lease for a link of a group; it may take a while (surplus: pend, or an owner that has to end)."""
        among = self._among(topic.partitions)
        named = self._named_in_group(link, topic, member, among)
        shards = await self._shards()
        if shards is not None:
            if named is not None and (error := shards.elsewhere(link, named)) is not None:
                raise error
            if named is None:
                among = await self._among_shards(link, shards, key, among)
        rules = self._rules
        pend = rules.pending_limit if rules.surplus == "pend" else 0
        wish = LeaseRequest(named, member.epoch, among, pend, rules.pending_timeout, rules.epoch_retention)
        try:
            return await self._leases.claim(key, wish, gone=lambda: growth.gone or not still_attached(link))
        except AmqpError as error:
            if growth.gone:  # while the link waited (KM-18)
                raise AmqpError(RESOURCE_DELETED, "the event log behind this address was deleted") from error
            raise

    def _named_in_group(
        self, link: Link, topic: Topic, member: Membership, among: tuple[int, ...]
    ) -> int | None:
        named = self._named(link, topic.partitions)
        if named is None and member.epoch is not None and len(among) == 1:
            return among[0]  # there is only one that the epoch can be meant for
        return named

    async def _among_shards(
        self, link: Link, shards: PartitionOwnership, key: str, among: tuple[int, ...]
    ) -> tuple[int, ...]:
        """Those served here; where none of them is free but another is: the redirect to that."""
        mine = shards.mine(link, among)
        held = (await self._leases.view(key)).held
        if all(each in held for each in mine):
            for each in among:
                if each not in held and (error := shards.elsewhere(link, each)) is not None:
                    raise error
        return mine or among


