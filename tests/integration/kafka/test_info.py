"""`$info` of the real process on a real broker: changes, drains, and access rights (ES-E2E-13)."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import pytest
from confluent_kafka import TopicPartition

from gateway.filters.position.event_stream import offset_symbol
from tests.support.amqp import frames
from tests.support.amqp.messages import sections
from tests.support.amqp.peer import RECEIVER
from tests.support.gateway.crossing import Inbox, connected
from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.process import PATIENCE
from tests.support.servers.kafka import KafkaBroker, new_producer


class Place(NamedTuple):
    """A gateway where only some topics have `$info`."""

    broker: KafkaBroker
    port: int


def produce(broker: KafkaBroker, topic: str, *values: bytes) -> None:
    producer = new_producer(broker.bootstrap, **{"linger.ms": 60_000})  # one batch, whenever it is flushed
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(PATIENCE) == 0


def truncate(broker: KafkaBroker, topic: str, before: int) -> None:
    """Let retention delete everything before an offset."""
    admin, end = broker.admin(), TopicPartition(topic, 0, before)
    admin.delete_records([end])[end].result(PATIENCE)


@pytest.fixture(scope="module")
def asked(start_module_gateway: Gateways, kafka_broker: KafkaBroker) -> Place:
    document = Document()
    document.kafka(kafka_broker.bootstrap)
    document.scope()["access"] = [
        {"may": ["send", "receive"], "on": ["events/*", "chat/**"]},
        {"may": ["info"], "on": "public/*"},
    ]
    for word in ("secret", "public"):
        rule = {"match": f"{word}/{{topic}}", "kafka": "main", "topic": "{topic}"}
        document.scope()["addresses"].append(rule)
    start_module_gateway(document.text)
    return Place(kafka_broker, document.edge)


def next_bounds(inbox: Inbox) -> list[tuple[Any, Any]]:
    """The bounds in the next message."""
    entries = sections(inbox.take())["value"]["partitions"]
    return [(entry["earliest-offset"], entry["latest-offset"]) for entry in entries]


@pytest.mark.row("ES-6-3", "ES-6-5", "ES-6-9")
def test_info_is_told_again_when_something_changes(asked: Place) -> None:
    topic = asked.broker.create_topic()
    began = time.monotonic()
    inbox = Inbox(asked.port, f"events/{topic}/$info", credit=3)
    assert next_bounds(inbox) == [(None, None)]
    produce(asked.broker, topic, b"0", b"1", b"2")
    assert next_bounds(inbox) == [(offset_symbol(0), offset_symbol(2))]
    assert time.monotonic() - began >= 0.9  # not at once: never two within a second
    truncate(asked.broker, topic, 2)
    assert next_bounds(inbox) == [(offset_symbol(2), offset_symbol(2))]
    inbox.peer.flow(inbox.handle, link_credit=2, delivery_count=3)
    truncate(asked.broker, topic, 3)
    assert next_bounds(inbox) == [(None, None)]


@pytest.mark.row("ES-6-5")
def test_info_gives_credit_back_when_it_is_drained(asked: Place) -> None:
    inbox = Inbox(asked.port, f"events/{asked.broker.create_topic()}/$info", credit=0)
    inbox.peer.flow(inbox.handle, link_credit=5, delivery_count=0, drain=True)
    assert next_bounds(inbox) == [(None, None)]
    flow = inbox.peer.until("flow", handle=inbox.handle)
    assert (flow.link_credit, flow.delivery_count) == (0, 5)


@pytest.mark.row("ES-6-2", "ES-6-10", "ES-7-1")
def test_info_is_for_whom_the_policy_lets_have_it(asked: Place) -> None:
    topic = asked.broker.create_topic()
    for address, condition in (
        (f"secret/{topic}/$info", "amqp:unauthorized-access"),
        (f"public/{topic}/$info", None),
        (f"public/{topic}", "amqp:unauthorized-access"),
        (f"events/{topic}/$info", None),  # whoever may send or receive may ask (ES 6)
        ("events/no-such-topic/$info", "amqp:not-found"),
        ("chat/a/$info/b/$info", None),
    ):
        peer = connected(asked.port)
        peer.attach("info", RECEIVER, source=frames.source(address))
        answered = peer.until("attach")
        if condition is None:
            assert answered.source is not None  # an address like any other: only event streams have $info
        else:
            assert answered.source is None
            peer.expect("detach", closed=True, error=condition)
