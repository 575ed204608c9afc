"""Group keys and partitions: the partition that a Java producer would choose, on every link and process (ES 4.6.7)."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.amqp.codec.codec import Symbol
from gateway.amqp.message.sections import delivery_annotations, message_annotations, properties, walk
from tests.support.amqp.members import Member, Producer, requested_properties
from tests.support.amqp.messages import message
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.process import ports

POLICY = """
gateway: {{http: "127.0.0.1:{http}", log: json}}
kafka: {{main: {{bootstrap: embedded, topics: {{orders: 3}}}}}}
scopes:
  edge:
    listen: [{{bind: "127.0.0.1:{edge}"}}]
    addresses: [{{match: "events/{{topic}}", kafka: main}}]
    access: [{{may: [send, receive]}}]
"""
# Hashes that Apache Kafka's own tests expect of its Java client; the partition is the positive part modulo partitions.
JAVA_MURMUR2 = {
    "21": -973932308,
    "foobar": -790332482,
    "a-little-bit-long-string": -985981536,
    "a-little-bit-longer-string": -1486304829,
    "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
}
KEY = "event-streams-group-key"


def expected(key: str, partitions: int = 3) -> str:
    return str((JAVA_MURMUR2[key] & 0x7FFFFFFF) % partitions)


def delivered(member: Member) -> tuple[str, Any, bytes]:
    """Partition and group key of the next event, and its encoded bytes."""
    ((partition, _, payload),) = member.take(1)
    return partition, message_annotations(payload, walk(payload)).get(KEY), payload


@pytest.mark.row("ES-4.6.7-1", "ES-4.6.7-2", "ES-4.6.7-3", "ES-4.6.7-4", "ES-4.6.7-5", "ES-4-3", "ES-4.6.4-2")
def test_a_key_leads_where_java_would_put_it(start_gateway: Gateways) -> None:
    edge, http = ports(2)
    gateway = start_gateway(POLICY.format(edge=edge, http=http))
    reader = Member(edge, "events/orders", {})
    reader.attached(credit=100)
    agnostic, bound = Producer(edge, "events/orders"), Producer(edge, "events/orders", partition=1)
    for key in JAVA_MURMUR2:
        for producer, partition in ((agnostic, expected(key)), (bound, "1"), (agnostic, expected(key))):
            producer.peer.transfer(message(b"x", ma={KEY: key}, group_id="another"))
            producer.peer.until("disposition", state="accepted")
            found, stored, payload = delivered(reader)
            assert (found, stored) == (partition, key)
            assert b"\xa3\x17event-streams-group-key\xa1" in payload  # a symbol, and a string
            assert properties(payload, walk(payload)).group_id == "another"
    assert len({expected(key) for key in JAVA_MURMUR2}) > 1
    gateway.stop()
    gateway.restart()  # the topic was recreated; the key's partition is the same
    again, reader = Producer(edge, "events/orders"), Member(edge, "events/orders", {})
    reader.attached(credit=1)
    again.peer.transfer(message(b"x", ma={KEY: "foobar"}))
    assert delivered(reader)[0] == expected("foobar")


@pytest.mark.row("ES-4-9", "ES-4-15", "ES-4-16", "ES-4.6.4-2")
def test_partition_names_are_symbols_everywhere(start_gateway: Gateways) -> None:
    edge, http = ports(2)
    start_gateway(POLICY.format(edge=edge, http=http))
    member = Member(edge, "events/orders", requested_properties(partition=Symbol("2")))
    assert member.attached(credit=1).properties == {"event-streams-partition": "2"}
    text = Member(edge, "events/orders", {Symbol("event-streams-partition"): "2"})  # a string is accepted, too
    for answer in (member.answer, text.attached()):
        assert answer is not None
        assert type(answer.properties["event-streams-partition"]) is Symbol
    Producer(edge, "events/orders").send(b"x", partition=2)
    ((_, _, payload),) = member.take(1)
    assert type(delivery_annotations(payload, walk(payload))["event-streams-source-partition"]) is Symbol
