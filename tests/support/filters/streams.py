"""Links with filters on event streams, each drained: the attach answer and the events received."""

from __future__ import annotations

from typing import Any, NamedTuple

from gateway.amqp.codec.codec import Symbol
from tests.support.amqp import frames
from tests.support.amqp.links import connected
from tests.support.amqp.messages import sections
from tests.support.filters.corpus import described
from tests.support.gateway.crossing import Outbox
from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateway, Gateways
from tests.support.servers.kafka import KafkaBroker

POSITION = "amqp:event-streams-delivery-annotations-filter"
EARLIEST = described(POSITION, {Symbol("event-streams-offset"): Symbol("@earliest")})


class StreamPlace(NamedTuple):
    """A gateway's listener and the broker behind it."""

    port: int
    broker: KafkaBroker
    gateway: Gateway

    def topic(self, *payloads: bytes, partitions: int = 1) -> str:
        """A topic that holds these messages, sent through the gateway, in its first partition."""
        topic = self.broker.create_topic(partitions=partitions)
        if payloads:
            self.send(topic, *payloads)
        return topic

    def send(self, topic: str, *payloads: bytes, partition: int = 0) -> None:
        """Send messages to a partition; all are accepted."""
        wanted = {Symbol("event-streams-partition"): Symbol(str(partition))}
        outbox = Outbox(connected(self.port), f"events/{topic}", properties=wanted)
        outbox.credit()
        for payload in payloads:
            assert outbox.send(payload).name == "accepted"
        outbox.peer.disconnect()


def begin(gateways: Gateways, broker: KafkaBroker) -> StreamPlace:
    """A gateway whose event streams are the broker's topics; those under `all/` begin at their earliest event."""
    document = Document()
    document.scope()["listen"][0]["limits"] = {"links": 400}
    document.kafka(broker.bootstrap)
    rule = {"match": "all/{topic}", "kafka": "main", "topic": "{topic}", "filter_without_position": "earliest"}
    document.scope()["addresses"].append(rule)
    return StreamPlace(document.edge, broker, gateways(document.text))


class Answer(NamedTuple):
    """What a link was answered with and what came on it until its credit was given back."""

    source: Any
    payloads: list[bytes]

    @property
    def bodies(self) -> list[int]:
        """The numbers in the bodies."""
        return [int(sections(payload)["data"]) for payload in self.payloads]


def answers(port: int, address: str, *filters: Any) -> list[Answer]:
    """Attach a link for each of these filters, a filter set or one filter from the earliest event; drain them all."""
    peer = connected(port)
    found: list[Answer] = []
    for handle, each in enumerate(filters):
        given = each if isinstance(each, dict) else {Symbol("f"): each, Symbol("start"): EARLIEST}
        source = frames.source(address, filter=given or None)
        found.append(Answer(peer.attach_receiver(None, handle, source=source).source, []))
    for handle in range(len(found)):
        peer.flow(handle, link_credit=1000, drain=True)
    waiting = set(range(len(found)))
    while waiting:
        frame = peer.receive()
        assert frame is not None
        if frame.kind == "transfer":
            found[frame.handle].payloads.append(bytes(frame.payload))
        elif frame.kind == "flow" and frame.handle in waiting and frame.link_credit == 0:
            waiting.discard(frame.handle)
    return found
