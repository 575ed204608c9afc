"""An event-stream node: a Kafka topic at an AMQP address (ES 3, 4; KM-15, KM-16).

Decides on links: what a peer asks for is granted, refused with the error of docs/conformance.md 0.3, or left
out of the answer. Which partition a link is bound to says `placing`; a link of a consumer group needs a lease on it.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, Final

import structlog

from bridges.kafka import partitions
from bridges.kafka.admin.client import Topic
from bridges.kafka.attach_state import wanted
from bridges.kafka.cluster import Cluster
from bridges.kafka.consume.delivery_policy import DeliveryPolicy
from bridges.kafka.consume.link import LogReceiver
from bridges.kafka.consume.selection import Selections
from bridges.kafka.consume.start_offsets import ends_of, resolve, within
from bridges.kafka.counters import ClusterCounters
from bridges.kafka.groups.assignor import PartitionAssignor
from bridges.kafka.groups.beginnings import Beginning
from bridges.kafka.groups.checkpointer import TerminusCheckpointer, TerminusLease, durable_wish, group_wish
from bridges.kafka.groups.membership import (
    GroupHandler,
    LeaseGatedLink,
    Membership,
    TopicGrowthWatcher,
    answer,
    group_key,
    membership,
)
from bridges.kafka.groups.shared import MemberEntry, SharedMember
from bridges.kafka.produce.dead_letters import DeadLetters
from bridges.kafka.produce.link import LogSender
from bridges.kafka.produce.producer import ClusterProducer
from bridges.kafka.records.mapping import RecordWriter
from bridges.kafka.route import KafkaRoute
from gateway.amqp.codec.types import Symbol
from gateway.amqp.message.hop import TARGETED
from gateway.errors import INTERNAL_ERROR, PRECONDITION_FAILED, AmqpError, Fault
from gateway.filters.parse.filter_set import CAPABILITIES, RULES, FilterSet, read
from gateway.filters.position.event_log import beyond_position, mentions_log
from gateway.state.leases.lease import Lease, Share, unavailable
from gateway.state.leases.manager import Leases

log = structlog.get_logger(logger_name="kafka")
_OVERHEAD: Final = 512
"""Room in a Kafka record batch for what is not the message (KM-19)."""


EVENT_STREAMS: Final = "AMQP_EVENT_STREAMS_V1_0"
EXTENSION: Final = "event-streams-"
"""How the link properties of the extension begin."""


def _size(link: Any, topic: Topic | None) -> int:
    """KM-19: what the topic takes, and the listener; 0: any size, for links inside the gateway, which have limits."""
    engine = getattr(link, "engine", None)
    listener = 0 if engine is None else engine.config.max_message_size
    log = 0 if topic is None else topic.max_bytes - _OVERHEAD
    return min(filter(None, (listener, log)), default=0)


class KafkaNode:
    """Takes links for one route; it holds nothing that outlives them."""

    def __init__(
        self,
        cluster: Cluster,
        producer: ClusterProducer,
        keeper: TerminusCheckpointer,
        counters: ClusterCounters,
        route: KafkaRoute,
        leases: Leases,
    ) -> None:
        self._cluster: Final = cluster
        self._producer: Final = producer
        self._keeper: Final = keeper
        self._counters: Final = counters
        self._route: Final = route
        self._leases: Final = leases
        self._placing: Final = PartitionAssignor(cluster, route.topic, route.assignment, leases)
        shared = route.assignment.group_mode == "shared"
        self._attach_member: Final = self._attach_sharer if shared else self._attach_owner

    def attach(self, link: Any) -> None:
        """Answer the attach as soon as Kafka has said what is needed for it."""
        if link.incoming:
            self._cluster.supervisor.start(self._answer(link, self._attach_sender), "attach")
            return
        member = membership(link.properties, self._route.assignment)
        rules = link.filter_rules or RULES
        if self._route.reading.filter_without_position == "earliest":
            rules = rules._replace(earliest=True)
        parsed = read(link.source.filter, rules)

        async def attach(link: Any) -> None:
            if member is None:
                await self._attach_receiver(link, parsed)
            else:
                await self._attach_member(link, parsed, member)

        self._cluster.supervisor.start(self._answer(link, attach), "attach")

    async def _answer(self, link: Any, attach: Any) -> None:
        try:
            await attach(link)
        except AmqpError as error:
            if wanted(link):
                link.refuse(error)
        except Exception:  # a bug, or state that somebody else has written: the peer gets an answer all the same
            if wanted(link):
                text = "the attach failed in the gateway; its log says why"
                link.refuse(AmqpError(INTERNAL_ERROR, text, fault=Fault.GATEWAY))
            raise

    # -- the peer sends

    async def _attach_sender(self, link: Any) -> None:
        topic = await self._topic_if_reachable()
        if topic is not None:
            await self._producer.learn(topic)
        bound = await self._placing.bound(link, topic)
        if not wanted(link):
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
        )
        link.accept(
            sender,
            properties=partitions.properties_of(bound),
            max_message_size=_size(link, topic),
            understands=TARGETED,
        )
        sender.begin()

    async def _topic_if_reachable(self) -> Topic | None:
        """None: Kafka is away. Senders may attach all the same and get `released` (issue: bad input)."""
        try:
            return await self._topic()
        except AmqpError as error:
            if error.condition == INTERNAL_ERROR:
                return None
            raise

    async def _topic(self) -> Topic:
        """The topic, if it is as the policy wants it (KM-3)."""
        topic = await self._cluster.topic(self._route.topic)
        if self._route.reading.strict_timestamps and not topic.append_time:
            why = "the event log stores producers' timestamps; strict_timestamps requires LogAppendTime"
            raise AmqpError(PRECONDITION_FAILED, why)
        return topic

    # -- the peer receives

    async def _attach_receiver(self, link: Any, parsed: FilterSet) -> None:
        cluster = self._cluster
        topic = await self._topic()
        bound = await self._placing.bound(link, topic)
        mine = range(topic.partitions) if bound is None else (bound,)
        held = await self._terminus(link, topic, bound, parsed)
        annotated = self._annotated(link, parsed)
        starts, ends = await self._starts(topic.name, mine, parsed, held)
        receiver = LogReceiver(
            link,
            cluster,
            topic,
            starts,
            self._counters,
            bound=bound is not None,
            selections=Selections(parsed, starts, ends, bound=bound is not None, annotated=annotated),
            terms=await self._terms(topic.name, ordered=held is not None, annotated=annotated),
            held=held,
        )
        if held is not None:
            await self._keeper.begin(held, topic.name, receiver.positions)
        if not wanted(link):
            if held is not None:
                await self._keeper.hand_over(held)
            return
        receiver.begin()
        link.accept(
            receiver,
            properties=partitions.properties_of(bound),
            capabilities=CAPABILITIES,
            filter=parsed.in_force,
            distribution_mode="copy",
            durable=held is not None,
            volatile=not self._keeper.lasting,
        )

    async def _terminus(self, link: Any, topic: Topic, bound: int | None, parsed: FilterSet) -> TerminusLease | None:
        """The durable terminus a link asks for, taken from whoever had it (ES-3.2-7)."""
        about = [topic.identity, bound, repr(beyond_position(parsed.predicate))]
        wish = durable_wish(link, f"{self._cluster.name}/{topic.name}", about)
        return None if wish is None else await self._keeper.take(wish, getattr(link, "fence", 0))

    async def _starts(
        self, topic: str, mine: Iterable[int], parsed: FilterSet, held: TerminusLease | None, *, shared: bool = False
    ) -> tuple[dict[int, int], dict[int, int]]:
        """Where the link begins in each of its partitions, and what is `@latest` to it there."""
        isolation = self._route.reading.isolation
        starts, ends = await resolve(self._cluster, topic, mine, parsed.position, isolation)
        if held is None or held.start is None:
            return starts, ends
        resumed = held.resume(starts, named=not shared and mentions_log(parsed.predicate))
        resumed = within(topic, resumed, ends)
        return resumed, resumed

    async def _starts_in_group(
        self, topic: Topic, partition: int, parsed: FilterSet, held: TerminusLease, group: str
    ) -> tuple[dict[int, int], dict[int, int]]:
        """The same in a partition of a group: all of what was added since the group began is new to it (KM-9)."""
        if held.start is None:
            began = await self._keeper.began(group, f"{self._cluster.name}/{topic.name}", topic)
            if partition >= began.partitions:
                return {partition: 0}, {partition: 0}
        return await self._starts(topic.name, (partition,), parsed, held)

    async def _began(self, topic: Topic, group: str) -> Beginning:
        """When a group began whose links share: asked before any of them is answered (ES-1-4)."""
        ends = partial(ends_of, self._cluster, topic, self._route.reading.isolation)
        return await self._keeper.began(group, f"{self._cluster.name}/{topic.name}", topic, ends)

    async def _starts_shared(
        self, topic: Topic, partition: int, parsed: FilterSet, held: TerminusLease, began: Beginning
    ) -> tuple[dict[int, int], dict[int, int]]:
        """As `_starts_in_group`, where links share: what no link has begun to read yet is read from the beginning."""
        if held.start is None and partition >= began.partitions:
            return {partition: 0}, {partition: 0}
        starts, ends = await self._starts(topic.name, (partition,), parsed, held, shared=True)
        return (starts, ends) if held.start is not None else began.since(starts, ends, parsed.position)

    def _annotated(self, link: Any, parsed: FilterSet) -> bool:
        """Whether events say where they are from (ledger A1); who asks for anything of the extension understands it."""
        rule = self._route.reading.annotate
        if rule != "negotiated":
            return rule == "always"
        asks = mentions_log(parsed.predicate) or any(str(key).startswith(EXTENSION) for key in link.properties)
        return asks or EVENT_STREAMS in link.engine.desired

    async def _terms(self, topic: str, *, ordered: bool, annotated: bool = True) -> DeliveryPolicy:
        reading = self._route.reading
        letters = None if reading.dead_letter is None else await self._letters(topic, reading.dead_letter)
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

    async def _letters(self, topic: str, to: str) -> DeadLetters:
        """A dead-letter topic that is not there is said when a link attaches, not when the first event is rejected."""
        try:
            await self._producer.learn(await self._cluster.topic(to))
        except AmqpError as error:
            log.warning("dead-letter topic cannot be used now", topic=topic, to=to, reason=error.description)
        loop, keys = self._cluster.loop, self._route.key_from
        return DeadLetters(self._producer, loop, self._counters, topic, to, keys=keys)

    async def _attach_owner(self, link: Any, parsed: FilterSet, member: Membership) -> None:
        """A link of a consumer group: bound to the partition that it gets a lease on (ES 4.5)."""
        cluster, rules = self._cluster, self._route.assignment
        topic = await self._topic()
        key = group_key(cluster.name, topic.name, member.group)
        growth = TopicGrowthWatcher(cluster, topic, self._leases, key, rules)
        lease: Lease | None = None
        try:
            lease = await self._placing.lease(link, topic, key, member, growth)
            handler = await self._member(link, parsed, lease, growth, member.group)
            self._leases.hold(lease, handler)
        except BaseException:
            growth.end()
            if lease is not None:
                self._leases.release(lease, orderly=False)
            raise

    async def _member(
        self, link: Any, parsed: FilterSet, lease: Lease, growth: TopicGrowthWatcher, group: str
    ) -> GroupHandler:
        cluster = self._cluster
        topic = await cluster.topic(self._route.topic)  # again: it may have grown while the link waited
        node = f"{cluster.name}/{topic.name}"
        held = await self._keeper.take(group_wish(link, group, node, lease.partition, topic.identity), lease.fence)
        starts, ends = await self._starts_in_group(topic, lease.partition, parsed, held, group)
        annotated = self._route.reading.annotate != "never"  # whose link names a group understands them
        gate, selections = (
            LeaseGatedLink(link, lease),
            Selections(parsed, starts, ends, bound=True, annotated=annotated),
        )
        receiver = LogReceiver(
            gate,
            cluster,
            topic,
            starts,
            self._counters,
            bound=True,
            selections=selections,
            terms=await self._terms(topic.name, ordered=True, annotated=annotated),
            held=held,
        )
        await self._keeper.begin(held, topic.name, receiver.positions)
        if not wanted(link) or not lease.valid:
            await self._keeper.hand_over(held)
            raise unavailable()
        handler = GroupHandler(gate, receiver, cluster, self._leases, growth)
        receiver.begin()
        link.accept(
            handler,
            properties=answer(group, lease),
            capabilities=CAPABILITIES,
            filter=parsed.in_force,
            distribution_mode="copy",
        )
        return handler

    async def _attach_sharer(self, link: Any, parsed: FilterSet, member: Membership) -> None:
        """A link of a consumer group that is bound to nothing and has its share of the partitions (ES-4.5.1-8)."""
        cluster, rules, leases = self._cluster, self._route.assignment, self._leases
        topic = await self._topic()
        key = group_key(cluster.name, topic.name, member.group)
        growth = TopicGrowthWatcher(cluster, topic, leases, key, rules)
        share: Share | None = None
        sharer: SharedMember | None = None
        try:
            began = await self._began(topic, member.group)
            share, first = await leases.share(key, self._placing.share(topic))
            annotated = self._route.reading.annotate != "never"
            terms = await self._terms(topic.name, ordered=True, annotated=annotated)
            resumed: list[int] = []
            begins = partial(self._begins, topic, parsed, began, annotated, resumed)
            entry = MemberEntry(self._keeper, cluster, topic, link, member.group, begins)
            sharer = SharedMember(LeaseGatedLink(link, share), share, leases, growth, entry, terms, self._counters)
            await sharer.take(first)
            if not wanted(link) or not share.valid:
                raise unavailable()
            sharer.begin()
            properties = {Symbol(partitions.GROUP): member.group}
            link.accept(
                sharer,
                properties=properties,
                capabilities=CAPABILITIES,
                filter=parsed.without_position() if resumed else parsed.in_force,
                distribution_mode="copy",
            )
            leases.hold_share(share, sharer)
        except BaseException:
            growth.end()
            if sharer is not None:
                sharer.abandon()
            if share is not None:
                leases.leave(share)
            raise

    async def _begins(
        self,
        topic: Topic,
        parsed: FilterSet,
        began: Beginning,
        annotated: bool,
        resumed: list[int],
        partition: int,
        held: TerminusLease,
    ) -> tuple[int, Selections]:
        """Where a link that shares begins in a partition, and what it wants there.

        What the group has kept counts more than a position in the filter: else whoever gets a partition would begin
        there again each time that partitions move. `resumed` gets the partitions where that is so.
        """
        if held.start is not None:
            resumed.append(partition)
        starts, ends = await self._starts_shared(topic, partition, parsed, held, began)
        return starts[partition], Selections(parsed, starts, ends, bound=True, annotated=annotated)
