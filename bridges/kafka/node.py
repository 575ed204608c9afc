"""An event-stream node: a Kafka topic at an AMQP address (ES 3, 4; KM-15, KM-16).

Decides on links: what a peer asks for is granted, refused with the error of docs/conformance.md 0.3, or left
out of the answer. Links that ask for no partition are agnostic.
"""

from __future__ import annotations

from typing import Any, Final, Protocol

from bridges.kafka import partitions
from bridges.kafka.admin import Topic
from bridges.kafka.cluster import Cluster
from bridges.kafka.counters import Counters
from bridges.kafka.links import wanted
from bridges.kafka.producer import ClusterProducer
from bridges.kafka.receiver import Receiver
from bridges.kafka.records import RecordWriter
from bridges.kafka.selection import event_selection
from bridges.kafka.sender import Sender
from bridges.kafka.starts import resolve
from gateway.amqp.types import Symbol
from gateway.errors import INTERNAL_ERROR, AmqpError
from gateway.filters import event_stream

_OVERHEAD: Final = 512
"""Room in a Kafka record batch for what is not the message (KM-19)."""


class Route(Protocol):
    """What the bridge reads of a policy's Kafka route."""

    @property
    def topic(self) -> str: ...
    @property
    def mode(self) -> Any: ...
    @property
    def credit(self) -> int: ...
    @property
    def tombstones(self) -> bool: ...


class KafkaNode:
    """Takes links for one route; it holds nothing that outlives them."""

    def __init__(self, cluster: Cluster, producer: ClusterProducer, counters: Counters, route: Route) -> None:
        self._cluster: Final = cluster
        self._producer: Final = producer
        self._counters: Final = counters
        self._route: Final = route

    def attach(self, link: Any) -> None:
        """Answer the attach as soon as Kafka has said what is needed for it."""
        if link.incoming:
            self._cluster.supervisor.start(self._answer(link, self._attach_sender), f"attach-{link.name}")
            return
        partitions.refuse_group(link.properties)
        parsed = event_stream.parse(link.source.filter)

        async def attach(link: Any) -> None:
            await self._attach_receiver(link, parsed)

        self._cluster.supervisor.start(self._answer(link, attach), f"attach-{link.name}")

    async def _answer(self, link: Any, attach: Any) -> None:
        try:
            await attach(link)
        except AmqpError as error:
            if wanted(link):
                link.refuse(error)

    # -- the peer sends

    async def _attach_sender(self, link: Any) -> None:
        topic = await self._topic_if_reachable()
        bound = self._bound(link, topic)
        if not wanted(link):
            return
        compacted = topic is not None and topic.compacted
        writer = RecordWriter(self._route.mode, tombstones=self._route.tombstones, compacted=compacted)
        sender = Sender(
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
        limit = topic.max_bytes - _OVERHEAD if topic else 0
        link.accept(sender, properties=_bound_properties(bound), max_message_size=limit)
        sender.begin()

    async def _topic_if_reachable(self) -> Topic | None:
        """None: Kafka is away. Senders may attach all the same and get `released` (issue: bad input)."""
        try:
            return await self._cluster.topic(self._route.topic)
        except AmqpError as error:
            if error.condition == INTERNAL_ERROR:
                return None
            raise

    def _bound(self, link: Any, topic: Topic | None) -> int | None:
        count = topic.partitions if topic else 1 << 31  # unknown yet: looked at again with the topic
        return partitions.bound(link.properties, count)

    # -- the peer receives

    async def _attach_receiver(self, link: Any, parsed: event_stream.Parsed) -> None:
        cluster = self._cluster
        topic = await cluster.topic(self._route.topic)
        bound = self._bound(link, topic)
        read = range(topic.partitions) if bound is None else (bound,)
        starts = await resolve(cluster, topic.name, read, parsed.position)
        if not wanted(link):
            return
        receiver = Receiver(
            link,
            cluster,
            topic,
            starts,
            self._counters,
            bound=bound is not None,
            selection=event_selection(parsed.position, starts, bound=bound is not None),
        )
        receiver.begin()
        link.accept(
            receiver,
            properties=_bound_properties(bound),
            filter=parsed.in_force,
            distribution_mode="copy",
        )


def _bound_properties(bound: int | None) -> dict[Any, Any] | None:
    """ES-4.1-4, ES-4.3-4: the partition in force; an agnostic answer has no such key."""
    return None if bound is None else {Symbol(partitions.PARTITION): Symbol(str(bound))}
