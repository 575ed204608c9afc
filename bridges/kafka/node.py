"""An event-stream node: a Kafka topic at an AMQP address (ES 3, 4; KM-15, KM-16).

Answers attaches: what a peer asks for is granted, refused with the error of docs/conformance.md 0.3, or left out of the
answer. `PartitionAssignor` decides which partition a link is bound to; a link of a consumer group needs a lease on it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from bridges.kafka.admin.client import Topic
from bridges.kafka.clusters.cluster import Cluster
from bridges.kafka.common import partitions
from bridges.kafka.common.attach_state import still_attached
from bridges.kafka.common.counters import ClusterCounters
from bridges.kafka.consume.selection import Selections
from bridges.kafka.groups.assignor import PartitionAssignor
from bridges.kafka.groups.attach import GroupAttach
from bridges.kafka.groups.membership import membership
from bridges.kafka.links.checkpointer import TerminusCheckpointer, TerminusLease
from bridges.kafka.links.log_source import LogSource
from bridges.kafka.links.receiver import LogReceiver
from bridges.kafka.links.sender import LogSender
from bridges.kafka.links.terminus_request import durable_terminus
from bridges.kafka.produce.producer import ClusterProducer
from bridges.kafka.records.mapping import RecordWriter
from bridges.kafka.route import NodeRoute
from bridges.kafka.transactions.pool import TransactionalClients
from gateway.amqp.message.hop import TARGETED
from gateway.errors import INTERNAL_ERROR, AmqpError, Fault
from gateway.filters.parse.filter_set import CAPABILITIES, RULES, FilterSet, read
from gateway.filters.position.event_log import beyond_position, mentions_log
from gateway.links.link import IncomingLink, NodeLink, OutgoingLink, is_incoming, is_outgoing
from gateway.state.leases.manager import Leases

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
        self._transactions: Final = transactions
        self._assignor: Final = PartitionAssignor(cluster, route.topic, route.assignment, leases)
        self._source: Final = LogSource(
            cluster, producer, checkpointer, counters, route.topic, route.reading, route.key_from
        )
        self._groups: Final = GroupAttach(self._source, self._assignor, leases, route.assignment)

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
        parsed = read(link.source.filter, rules, link.scope)
        if member is None:
            return partial(self._attach_receiver, link, parsed)
        return partial(self._groups.attach, link, parsed, member)

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
            return await self._source.topic()
        except AmqpError as error:
            if error.condition == INTERNAL_ERROR:
                return None
            raise

    # -- receive links

    async def _attach_receiver(self, link: OutgoingLink, parsed: FilterSet) -> None:
        cluster = self._cluster
        topic = await self._source.topic()
        bound = await self._assignor.bound(link, topic)
        own = range(topic.partitions) if bound is None else (bound,)
        terminus = await self._terminus(link, topic, bound, parsed)
        annotated = self._annotated(link, parsed)
        starts, ends = await self._source.starts.of_link(topic.name, own, parsed, terminus)
        receiver = LogReceiver(
            link,
            cluster,
            topic,
            starts,
            self._counters,
            bound=bound is not None,
            selections=Selections(parsed, starts, ends, bound=bound is not None, annotated=annotated),
            policy=await self._source.delivery_policy(topic.name, ordered=terminus is not None, annotated=annotated),
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

    def _annotated(self, link: OutgoingLink, parsed: FilterSet) -> bool:
        """Whether events carry the annotations of the log (ledger A1); `negotiated`: if the peer uses the extension."""
        rule = self._route.reading.annotate
        if rule != "negotiated":
            return rule == "always"
        asks = mentions_log(parsed.predicate) or any(str(key).startswith(EXTENSION) for key in link.properties)
        return asks or EVENT_STREAMS in link.engine.desired
