"""Records handed over in C are what the client's own `produce` makes of them (decision 18)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bridges.kafka.admin.embedded import EmbeddedKafka
from bridges.kafka.consume.poll import poll_fallback
from bridges.kafka.produce import _produce
from bridges.kafka.produce.client import FallbackClient, NativeClient, ProduceClient
from bridges.kafka.records.fast_encode import plain_value
from tests.support.gateway.process import wait_until
from tests.support.plugins.examples import examples

SMALL = st.binary(max_size=3)
NAMES = st.text(max_size=3)  # with NULs, too
HEADERS = st.lists(st.tuples(NAMES, st.none() | st.binary(max_size=40)), max_size=5)
RECORDS = st.lists(
    st.tuples(st.none() | SMALL, st.none() | st.binary(max_size=300), st.none() | HEADERS), min_size=1, max_size=20
)
HEADS = st.sampled_from((b"\x00\x53\x75\xa0", b"\x00\x53\x75\xb0", b"\x00\x53\x75", b"\x00\x53\x77\xa0", b""))


def section(head: bytes, content: bytes, error: int) -> bytes:
    size = max(0, len(content) + error)
    return head + (size.to_bytes(4) if head.endswith(b"\xb0") else bytes([size & 255])) + content


ERRORS = st.sampled_from((0, 0, 0, 1, -1))
MESSAGES = st.builds(section, HEADS, st.binary(max_size=600), ERRORS) | st.binary(max_size=12)


@pytest.fixture(scope="module")
def idle() -> Producer:
    return Producer({"bootstrap.servers": "127.0.0.1:1", "log_level": 0})


@settings(max_examples=examples(1000), deadline=None)
@given(messages=st.lists(MESSAGES, max_size=6), start=st.integers(0, 7))
def test_the_same_messages_are_plain(idle: Producer, messages: list[bytes], start: int) -> None:
    kept = _produce.Outbox(idle)
    run = [(number, data, False) for number, data in enumerate(messages)]
    odd = [number for number, data in enumerate(messages) if number >= start and plain_value(data) is None]
    assert kept.put_messages("topic", -1, run, start, idle) == min([*odd, max(len(messages), start)])
    idle.purge()
    kept.reports()


class Way(NamedTuple):
    """A topic that is written one way."""

    topic: str
    outbox: ProduceClient
    reader: Consumer


class Count:
    """Counts records that are written."""

    written = 0

    def on_written(self, contexts: list[Any]) -> None:
        self.written += len(contexts)

    def on_failed(self, contexts: list[Any], error: KafkaError, *, keyed: bool, batch: int) -> None:
        raise AssertionError(error)


def refuse(error: KafkaError) -> None:
    raise AssertionError(error)


@pytest.fixture(scope="module")
def ways() -> Iterator[list[Way]]:
    kafka = EmbeddedKafka()
    where: dict[str, Any] = {"bootstrap.servers": kafka.bootstrap, "log_level": 0}
    found = []
    for kind in (NativeClient, FallbackClient):
        kafka.create_topic(kind.__name__, 1)
        reader = Consumer({**where, "group.id": "t", "fetch.wait.max.ms": 10})
        reader.assign([TopicPartition(kind.__name__, 0, 0)])
        found.append(Way(kind.__name__, kind({**where, "linger.ms": 0}, refuse), reader))
    yield found
    for way in found:
        way.reader.close()
    kafka.close()


def written(way: Way, records: list[Any]) -> list[Any]:
    """What a reader gets of these."""
    owner, found = Count(), list[Any]()
    for key, value, headers in records:
        way.outbox.put(way.topic, -1, key, value, headers, owner, None)

    def all_there() -> bool:
        for reported, _, _, contexts in way.outbox.reports():
            reported.on_written(contexts)
        found.extend(each for run in poll_fallback(way.reader, len(records), 0.01).records.values() for each in run)
        return owner.written == len(found) == len(records)

    wait_until(all_there, "all records")
    return [(each.key(), each.value(), each.headers()) for each in found]


@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(records=RECORDS)
def test_both_ways_write_the_same(ways: list[Way], records: list[Any]) -> None:
    ours, theirs = (written(way, records) for way in ways)
    assert ours == theirs
    assert [each[:2] for each in ours] == [record[:2] for record in records]
