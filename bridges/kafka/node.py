"""An event-stream node: a Kafka topic at an AMQP address (ES 3, 4; KM-15, KM-16).

Answers attaches: what a peer asks for is granted, refused with the error of docs/conformance.md 0.3, or left out of the
answer. `PartitionAssignor` decides which partition a link is bound to; a link of a consumer group needs a lease on it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Final

import structlog

from bridges.kafka.admin.client import Topic
from bridges.kafka.clusters.cluster import Cluster
from bridges.kafka.common import partitions
from bridges.kafka.common.attach_state import still_attached
from bridges.kafka.common.counters import ClusterCounters
from bridges.kafka.consume.selection import Selections
from bridges.kafka.groups.assignor import PartitionAssignor
from bridges.kafka.groups.gate import LeaseGatedLink
from bridges.kafka.groups.membership import Membership, answer, group_key, membership
from bridges.kafka.groups.owner import GroupHandler
from bridges.kafka.groups.shared import MemberEntry, SharedMember
from bridges.kafka.groups.topic_growth import TopicGrowthWatcher
from bridges.kafka.links.checkpointer import TerminusCheckpointer, TerminusLease
from bridges.kafka.links.delivery_policy import DeliveryPolicy
from bridges.kafka.links.group_start import GroupStart
from bridges.kafka.links.offsets import clamp, end_offsets, start_offsets
from bridges.kafka.links.receiver import LogReceiver
from bridges.kafka.links.sender import LogSender
from bridges.kafka.links.terminus_request import durable_terminus, group_terminus
from bridges.kafka.produce.dead_letters import DeadLetters
from bridges.kafka.produce.producer import ClusterProducer
from bridges.kafka.records.mapping import RecordWriter
from bridges.kafka.route import NodeRoute
from bridges.kafka.transactions.pool import TransactionalClients
from gateway.amqp.codec.types import Symbol
from gateway.amqp.message.hop import TARGETED
from gateway.errors import INTERNAL_ERROR, PRECONDITION_FAILED, AmqpError, Fault
from gateway.filters.parse.filter_set import CAPABILITIES, RULES, FilterSet, read
from gateway.filters.position.event_log import beyond_position, mentions_log
from gateway.links.link import IncomingLink, NodeLink, OutgoingLink, is_incoming, is_outgoing
from gateway.state.leases.lease import Lease, Share, unavailable
from gateway.state.leases.manager import Leases

log = structlog.get_logger(logger_name="kafka")
_OVERHEAD: Final = 512
"""Bytes of a Kafka record batch that are not the message (KM-19)."""
EVENT_STREAMS: Final = "AMQP_EVENT_STREAMS_V1_0"
EXTENSION: Final = "event-streams-"
"""The prefix of the link properties of the extension."""


def _max_message_size(link: NodeLink, topic: Topic | None) -> int:
    """KM-19: the bytes that both the topic and the listener accept; 0: any size."""
    log = 0 if topic is None else topic.max_bytes - _OVERHEAD
    return min(filter(None, (link.engine.config.max_message_size, log)), default=0)


class KafkaNode:
    """Attaches links for one route; it has no state that outlives them."""

    def __init__(
        self,
        cluster: Cluster,
        producer: ClusterProducer,
        checkpointer: TerminusCheckpointer,
        counters: ClusterCounters,
        route: NodeRoute,
        leases: Leases,
        transactions: TransactionalClients | None = None,
    ) -> None:
        self._cluster: Final = cluster
        self._producer: Final = producer
        self._checkpointer: Final = checkpointer
        self._counters: Final = counters
        self._route: Final = route
        self._leases: Final = leases
        self._transactions: Final = transactions
        self._assignor: Final = PartitionAssignor(cluster, route.topic, route.assignment, leases)
        shared = route.assignment.group_mode == "shared"
        self._attach_member: Final = self._attach_shared if shared else self._attach_owner

    def attach(self, link: NodeLink) -> None:
        """Answer the attach as soon as Kafka has returned what is needed for it; raises AmqpError for a refusal."""
        if is_incoming(link):
            self._start(link, partial(self._attach_sender, link))
        elif is_outgoing(link):
            self._start(link, self._attach_of(link))

    def _attach_of(self, link: OutgoingLink) -> Callable[[], Awaitable[None]]:
        """The coroutine that attaches a receive link; raises AmqpError for invalid filters or properties."""
        member = membership(link.properties, self._route.assignment)
        rules = link.filter_rules or RULES
        if self._route.reading.filter_without_position == "earliest":
            rules = rules._replace(earliest=True)
        parsed = read(link.source.filter, rules)
        if member is None:
            return partial(self._attach_receiver, link, parsed)
        return partial(self._attach_member, link, parsed, member)

    def _start(self, link: NodeLink, attach: Callable[[], Awaitable[None]]) -> None:
        self._cluster.supervisor.start(self._answer(link, attach), "attach")

    async def _answer(self, link: NodeLink, attach: Callable[[], Awaitable[None]]) -> None:
        try:
            await attach()
        except AmqpError as error:
            if still_attached(link):
                link.refuse(error)
        except Exception:  # a bug, or invalid shared state: answer the peer anyway
            if still_attached(link):
                text = "the attach failed in the gateway; its log says why"
                link.refuse(AmqpError(INTERNAL_ERROR, text, fault=Fault.GATEWAY))
            raise

    # -- send links

    async def _attach_sender(self, link: IncomingLink) -> None:
        topic = await self._topic_if_reachable()
        if topic is not None:
            await self._producer.refresh_partitions(topic)
        bound = await self._assignor.bound(link, topic)
        if not still_attached(link):
            return
        compacted = topic is not None and topic.compacted
        route = self._route
        writer = RecordWriter(route.mode, tombstones=route.tombstones, compacted=compacted, keys=route.key_from)
        sender = LogSender(
            link,
            self._cluster,
            self._producer,
            topic or self._route.topic,
            writer,
            self._route.mode == "auto" and topic is not None and not compacted,
            self._counters,
            bound=bound,
            window=self._route.credit,
            transactions=self._transactions,
        )
        link.accept(
            sender,
            properties=partitions.properties_of(bound),
            max_message_size=_max_message_size(link, topic),
            understands=TARGETED,
        )
        sender.begin()

    async def _topic_if_reachable(self) -> Topic | None:
        """None: Kafka is unreachable. Senders may attach anyway, and get `released`."""
        try:
            return await self._topic()
        except AmqpError as error:
            if error.condition == INTERNAL_ERROR:
                return None
            raise

    async def _topic(self) -> Topic:
        """The topic; raises AmqpError if it does not meet the policy (KM-3)."""
        topic = await self._cluster.topic(self._route.topic)
        if self._route.reading.strict_timestamps and not topic.append_time:
            text = "the event log stores producers' timestamps; strict_timestamps requires LogAppendTime"
            raise AmqpError(PRECONDITION_FAILED, text)
        return topic

    # -- receive links

    async def _attach_receiver(self, link: OutgoingLink, parsed: FilterSet) -> None:
        cluster = self._cluster
        topic = await self._topic()
        bound = await self._assignor.bound(link, topic)
        own = range(topic.partitions) if bound is None else (bound,)
        terminus = await self._terminus(link, topic, bound, parsed)
        annotated = self._annotated(link, parsed)
        starts, ends = await self._starts(topic.name, own, parsed, terminus)
        receiver = LogReceiver(
            link,
            cluster,
            topic,
            starts,
            self._counters,
            bound=bound is not None,
            selections=Selections(parsed, starts, ends, bound=bound is not None, annotated=annotated),
            policy=await self._delivery_policy(topic.name, ordered=terminus is not None, annotated=annotated),
            terminus=terminus,
        )
        if terminus is not None:
            await self._checkpointer.begin(terminus, topic.name, receiver.positions)
        if not still_attached(link):
            if terminus is not None:
                await self._checkpointer.hand_over(terminus)
            return
        receiver.begin()
        link.accept(
            receiver,
            properties=partitions.properties_of(bound),
            capabilities=CAPABILITIES,
            filter=parsed.in_force,
            distribution_mode="copy",
            durable=terminus is not None,
            volatile=not self._checkpointer.lasting,
        )

    async def _terminus(
        self, link: OutgoingLink, topic: Topic, bound: int | None, parsed: FilterSet
    ) -> TerminusLease | None:
        """The durable terminus that a link asks for; an earlier link loses it (ES-3.2-7)."""
        about = [topic.identity, bound, repr(beyond_position(parsed.predicate))]
        request = durable_terminus(link, f"{self._cluster.name}/{topic.name}", about)
        return None if request is None else await self._checkpointer.acquire(request, link.fence)

    async def _starts(
        self, topic: str, own: Iterable[int], parsed: FilterSet, terminus: TerminusLease | None, *, shared: bool = False
    ) -> tuple[dict[int, int], dict[int, int]]:
        """The offset to begin at in each partition, and the offset that `@latest` stands for."""
        isolation = self._route.reading.isolation
        starts, ends = await start_offsets(self._cluster, topic, own, parsed.position, isolation)
        if terminus is None or terminus.start is None:
            return starts, ends
        resumed = terminus.resume(starts, named=not shared and mentions_log(parsed.predicate))
        resumed = clamp(topic, resumed, ends)
        return resumed, resumed

    async def _starts_in_group(
        self, topic: Topic, partition: int, parsed: FilterSet, terminus: TerminusLease, group: str
    ) -> tuple[dict[int, int], dict[int, int]]:
        """The same for a partition of a group: partitions added since the group began are read from 0 (KM-9)."""
        if terminus.start is None:
            group_start = await self._checkpointer.group_start(group, f"{self._cluster.name}/{topic.name}", topic)
            if partition >= group_start.partitions:
                return {partition: 0}, {partition: 0}
        return await self._starts(topic.name, (partition,), parsed, terminus)

    async def _group_start(self, topic: Topic, group: str) -> GroupStart:
        """When a group whose links share partitions began; needed before any attach is answered (ES-1-4)."""
        ends = partial(end_offsets, self._cluster, topic, self._route.reading.isolation)
        return await self._checkpointer.group_start(group, f"{self._cluster.name}/{topic.name}", topic, ends)

    async def _starts_shared(
        self, topic: Topic, partition: int, parsed: FilterSet, terminus: TerminusLease, group_start: GroupStart
    ) -> tuple[dict[int, int], dict[int, int]]:
        """As `_starts_in_group` for links that share: partitions without a position begin where it began."""
        if terminus.start is None and partition >= group_start.partitions:
            return {partition: 0}, {partition: 0}
        starts, ends = await self._starts(topic.name, (partition,), parsed, terminus, shared=True)
        return (starts, ends) if terminus.start is not None else group_start.since(starts, ends, parsed.position)

    def _annotated(self, link: OutgoingLink, parsed: FilterSet) -> bool:
        """Whether events carry the annotations of the log (ledger A1); `negotiated`: if the peer uses the extension."""
        rule = self._route.reading.annotate
        if rule != "negotiated":
            return rule == "always"
        asks = mentions_log(parsed.predicate) or any(str(key).startswith(EXTENSION) for key in link.properties)
        return asks or EVENT_STREAMS in link.engine.desired

    async def _delivery_policy(self, topic: str, *, ordered: bool, annotated: bool = True) -> DeliveryPolicy:
        reading = self._route.reading
        letters = None if reading.dead_letter is None else await self._dead_letters(topic, reading.dead_letter)
        strict = ordered if reading.strict_order is None else reading.strict_order
        return DeliveryPolicy(
            reading.max_redeliveries,
            strict,
            letters,
            reading.on_truncation == "detach",
            reading.drop_expired,
            annotated,
            reading.isolation,
        )

    async def _dead_letters(self, topic: str, to: str) -> DeadLetters:
        """The dead letters of a topic; if their topic is missing, that is logged now and not at the first rejection."""
        try:
            await self._producer.refresh_partitions(await self._cluster.topic(to))
        except AmqpError as error:
            log.warning("dead-letter topic cannot be used now", topic=topic, to=to, reason=error.description)
        loop, keys = self._cluster.loop, self._route.key_from
        return DeadLetters(self._producer, loop, self._counters, topic, to, keys=keys)

    async def _attach_owner(self, link: OutgoingLink, parsed: FilterSet, member: Membership) -> None:
        """Attach a link of a consumer group, bound to the partition that it gets a lease on (ES 4.5)."""
        cluster, rules = self._cluster, self._route.assignment
        topic = await self._topic()
        key = group_key(cluster.name, topic.name, member.group)
        growth = TopicGrowthWatcher(cluster, topic, self._leases, key, rules)
        lease: Lease | None = None
        try:
            lease = await self._assignor.lease(link, topic, key, member, growth)
            handler = await self._accept_owner(link, parsed, lease, growth, member.group)
            self._leases.hold(lease, handler)
        except BaseException:
            growth.end()
            if lease is not None:
                self._leases.release(lease, orderly=False)
            raise

    async def _accept_owner(
        self, link: OutgoingLink, parsed: FilterSet, lease: Lease, growth: TopicGrowthWatcher, group: str
    ) -> GroupHandler:
        cluster = self._cluster
        topic = await cluster.topic(self._route.topic)  # once more, because it may have grown while the link waited
        node = f"{cluster.name}/{topic.name}"
        request = group_terminus(link, group, node, lease.partition, topic.identity)
        terminus = await self._checkpointer.acquire(request, lease.fence)
        starts, ends = await self._starts_in_group(topic, lease.partition, parsed, terminus, group)
        annotated = self._route.reading.annotate != "never"  # a peer that names a group uses the extension
        gate = LeaseGatedLink(link, lease)
        receiver = LogReceiver(
            gate,
            cluster,
            topic,
            starts,
            self._counters,
            bound=True,
            selections=Selections(parsed, starts, ends, bound=True, annotated=annotated),
            policy=await self._delivery_policy(topic.name, ordered=True, annotated=annotated),
            terminus=terminus,
        )
        await self._checkpointer.begin(terminus, topic.name, receiver.positions)
        if not still_attached(link) or not lease.valid:
            await self._checkpointer.hand_over(terminus)
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

    async def _attach_shared(self, link: OutgoingLink, parsed: FilterSet, member: Membership) -> None:
        """Attach a link of a consumer group that is bound to no partition and gets a share of all (ES-4.5.1-8)."""
        cluster, rules, leases = self._cluster, self._route.assignment, self._leases
        topic = await self._topic()
        key = group_key(cluster.name, topic.name, member.group)
        growth = TopicGrowthWatcher(cluster, topic, leases, key, rules)
        share: Share | None = None
        handler: SharedMember | None = None
        try:
            group_start = await self._group_start(topic, member.group)
            share, first = await leases.share(key, self._assignor.share(topic))
            annotated = self._route.reading.annotate != "never"
            policy = await self._delivery_policy(topic.name, ordered=True, annotated=annotated)
            resumed: list[int] = []
            begin_in = partial(self._begin_in, topic, parsed, group_start, annotated, resumed)
            entry = MemberEntry(self._checkpointer, cluster, topic, link, member.group, begin_in)
            handler = SharedMember(LeaseGatedLink(link, share), share, leases, growth, entry, policy, self._counters)
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
        annotated: bool,
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
        starts, ends = await self._starts_shared(topic, partition, parsed, terminus, group_start)
        return starts[partition], Selections(parsed, starts, ends, bound=True, annotated=annotated)
