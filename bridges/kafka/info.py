"""`<node>/$info`: partitions and offsets of an event log, as one message per credit (ES 6).

The first message is sent at once; the next when something has changed, or after five seconds, and never within a
second of the last (ES-6-5). While Kafka is unreachable a message has the last known offsets, or nulls, and
`current: false`.
"""

from __future__ import annotations

import asyncio
from typing import Final

from bridges.kafka.admin.client import Bounds, Topic
from bridges.kafka.clusters.cluster import COMMITTED, Cluster
from bridges.kafka.common.attach_state import still_attached
from bridges.kafka.common.partitions import refuse_group
from gateway.amqp.codec.types import Symbol, Uint, Value
from gateway.amqp.link.handlers import Outgoing
from gateway.amqp.link.outcomes import Outcome
from gateway.amqp.message import sections
from gateway.errors import INTERNAL_ERROR, NOT_ALLOWED, NOT_FOUND, RESOURCE_DELETED, AmqpError, Fault
from gateway.filters.position.event_stream import offset_symbol
from gateway.links.link import NodeLink, OutgoingLink, is_outgoing
from gateway.tasks import set_within

INTERVAL: Final = 5.0
MIN_INTERVAL: Final = 1.0
SUFFIX: Final = "/$info"


class InfoNode:
    """The subordinate source of one event-stream node."""

    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        *,
        isolation: str = COMMITTED,
        interval: float = INTERVAL,
        minimum: float = MIN_INTERVAL,
    ) -> None:
        self._cluster: Final = cluster
        self.name: Final = topic
        self._isolation: Final = isolation
        self.interval: Final = interval
        self.minimum: Final = minimum
        self.topic: Topic | None = None
        self._bounds: dict[int, Bounds] = {}
        self._current = False

    def attach(self, link: NodeLink) -> None:
        """Accept a receive link once the topic is known to exist, or Kafka to be unreachable."""
        if not is_outgoing(link):
            raise AmqpError(NOT_ALLOWED, "$info can only be read")
        refuse_group(link.properties)
        self._cluster.supervisor.start(self._attach(link), f"kafka-info:{self.name}")

    async def _attach(self, link: OutgoingLink) -> None:
        try:
            await self._refresh()
        except AmqpError as error:
            if still_attached(link):
                link.refuse(error)
            return
        if still_attached(link):
            source = InfoSource(link, self, self._cluster)
            link.accept(source, distribution_mode="copy")
            source.begin()

    async def _refresh(self) -> None:
        """Ask Kafka; raises AmqpError if the topic does not exist, but not if Kafka is unreachable."""
        try:
            self.topic = await self._cluster.topic(self.name)
            every = range(self.topic.partitions)
            self._bounds = await self._cluster.bounds(self.name, every, self._isolation)
            self._current = True
        except AmqpError as error:
            self._current = False
            if error.condition != INTERNAL_ERROR:
                raise

    async def message(self, address: str) -> bytes:
        """The present state as an encoded message."""
        await self._refresh()
        body = describe(address, self.topic, self._bounds)
        if not self._current:
            body["current"] = False
        return sections.section(sections.AMQP_VALUE, body)


def describe(address: str, topic: Topic | None, bounds: dict[int, Bounds]) -> dict[str, Value]:
    """The map of ES 6; a log that was never seen has its main partition (ES-6-8).

    In addition to ES 6 it has `log-id`, which changes when a topic is created again, and `next-offset` of each
    partition, so that an empty one has a position as well (docs/event-streams.md).
    """
    count = 1 if topic is None else topic.partitions
    entries = [_entry(partition, bounds.get(partition)) for partition in range(count)]
    body: dict[str, Value] = {"address": address, "partition-count": Uint(count), "partitions": entries}
    if topic is not None and topic.append_time is not None:
        body["timestamp-type"] = "append" if topic.append_time else "create"
    if topic is not None and topic.identity is not None:
        body["log-id"] = topic.identity
    return body


def _entry(partition: int, bounds: Bounds | None) -> dict[str, Value]:
    entry: dict[str, Value] = {"partition": Symbol(str(partition)), "earliest-offset": None, "latest-offset": None}
    if bounds is None:
        return entry
    if bounds.low < bounds.high:
        entry |= {"earliest-offset": _offset(bounds.low), "latest-offset": _offset(bounds.high - 1)}
    return {**entry, "next-offset": _offset(bounds.high)}


def _offset(offset: int) -> Symbol:
    return Symbol(offset_symbol(offset))


class InfoSource(Outgoing):
    """Handler of one link to `$info`."""

    def __init__(self, link: OutgoingLink, node: InfoNode, cluster: Cluster) -> None:
        self._link: Final = link
        self._node: Final = node
        self._cluster: Final = cluster
        self._address: Final = (link.source.address or "").removesuffix(SUFFIX)
        self._wake: Final = asyncio.Event()
        self._last: bytes | None = None
        self._last_time = 0.0
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Called just after the attach is answered."""
        self._cluster.watch(self._node.topic or self._node.name, self)
        if self._link.open:
            self._task = self._cluster.supervisor.start(self._serve(), f"kafka-info:{self._address}")

    def topic_grew(self, topic: Topic) -> None:
        """The next message has the new partitions."""

    def topic_gone(self) -> None:
        """KM-18."""
        self._link.detach(AmqpError(RESOURCE_DELETED, f"the event log {self._node.name!r} was deleted"))

    def on_credit(self) -> None:
        """The peer asks for a message, or drains."""
        self._wake.set()

    def on_outcome(self, context: object, outcome: Outcome) -> None:
        """Nothing to do: information is not sent again."""

    def on_detach(self, error: AmqpError | None) -> None:
        """Stop serving."""
        self._link.take_unsettled()
        self._cluster.unwatch(self._node.name, self)
        if self._task is not None:
            self._task.cancel()

    async def _serve(self) -> None:
        try:
            await self._serve_credit()
        except AmqpError as error:
            if error.condition == NOT_FOUND:
                self.topic_gone()
            else:
                self._link.detach(error)
        except Exception:
            text = "the information is not available; the gateway's log says why"
            self._link.detach(AmqpError(INTERNAL_ERROR, text, fault=Fault.GATEWAY))
            raise

    async def _serve_credit(self) -> None:
        link = self._link
        while link.open:
            if link.credit <= 0:
                self._wake.clear()
                await self._wake.wait()
                continue
            if self._last is None or not link.draining:
                await self._send_when_due()
            if link.open and link.draining:
                link.drained()

    async def _send_when_due(self) -> None:
        """Send one message: the first at once, others after a change or when the interval is over."""
        while self._last is not None and (pause := self._last_time + self._node.minimum - self._now()) > 0:
            if await self._woken_within(pause):
                return
        while True:
            message = await self._node.message(self._address)
            due = self._last is None or self._now() - self._last_time >= self._node.interval
            if due or message != self._last:
                break
            if await self._woken_within(self._node.minimum):
                return
        if self._link.credit > 0:
            self._last, self._last_time = message, self._now()
            self._link.send(message, message)

    async def _woken_within(self, seconds: float) -> bool:
        """Wait up to `seconds`; True if the peer drains."""
        self._wake.clear()
        return await set_within(self._wake, seconds) and self._link.draining

    def _now(self) -> float:
        return self._cluster.loop.time()
