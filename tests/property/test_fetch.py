"""Records taken in C are what a client's messages are, and are screened as those are (decision 17)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bridges.kafka import fetch, reader
from bridges.kafka.bare import BARE
from bridges.kafka.embedded import EmbeddedKafka
from bridges.kafka.encoding import EventEncoder
from bridges.kafka.fetch import take_messages, take_runs
from bridges.kafka.outgoing import MESSAGE
from bridges.kafka.readable import BODY
from bridges.kafka.record_screen import Screen
from gateway.amqp.sections import DELIVERY_ANNOTATIONS
from tests.support.process import wait_until

TOPIC = "records"
SMALL = st.binary(max_size=3) | st.sampled_from((b"red", b"blue", b"", MESSAGE))
NAMES = st.sampled_from(("color", "size", "", "é", "amqp.", "amqp.to", "ce_color", BODY, BARE)) | st.text(
    st.characters(codec="utf-8", exclude_characters="\0"), max_size=3
)
CONTENTS = st.none() | SMALL | st.binary(max_size=40).map(lambda more: more + b"red")
HEADERS = st.lists(st.tuples(NAMES, CONTENTS), max_size=5)
VALUES = st.none() | st.binary(max_size=300)
RECORDS = st.lists(st.tuples(st.none() | SMALL, VALUES, st.none() | HEADERS), min_size=1, max_size=40)
SCREENS = st.builds(Screen, st.lists(NAMES, min_size=1, max_size=2), st.lists(SMALL, min_size=1, max_size=4))
ENCODER = EventEncoder()


class Client(NamedTuple):
    """Who writes a topic, and who reads it in each way."""

    producer: Producer
    runs: Consumer
    messages: Consumer


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    kafka = EmbeddedKafka()
    kafka.create_topic(TOPIC, 1)
    where: dict[str, Any] = {"bootstrap.servers": kafka.bootstrap, "log_level": 0}
    more = {"enable.partition.eof": False, "fetch.wait.max.ms": 10}
    readers = [Consumer({**reader._SETTINGS, **where, **more}) for _ in range(2)]
    for each in readers:
        each.assign([TopicPartition(TOPIC, 0, 0)])
    yield Client(Producer({**where, "linger.ms": 0}), *readers)
    for each in readers:
        each.close()
    kafka.close()


def taken(take: fetch.Take, consumer: Consumer, count: int) -> list[Any]:
    """Runs of so many records in all."""
    runs: list[Any] = []

    def enough() -> bool:
        records, failures = take(consumer, count, 1.0)
        assert not failures
        runs.extend(records.values())
        return sum(map(len, runs)) == count

    wait_until(enough, f"{count} records")
    return runs


def joined(pairs: list[tuple[list[Any], list[bytes]]]) -> tuple[list[Any], list[bytes]]:
    """Events, and of those that begin with a header their messages: only these may have a ttl."""
    headed = [data for _, mapped in pairs for data in mapped if data[2] != DELIVERY_ANNOTATIONS]
    return [event for events, _ in pairs for event in events], headed


def shown(record: Any) -> tuple[Any, ...]:
    where = record.topic(), record.partition(), record.offset(), record.timestamp()
    return *where, record.key(), record.value(), record.headers(), record.error(), len(record)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(records=RECORDS, screen=SCREENS)
def test_both_ways_say_the_same(client: Client, records: list[Any], screen: Screen) -> None:
    for key, value, headers in records:
        client.producer.produce(TOPIC, value, key, headers=headers)
    assert client.producer.flush(10) == 0
    runs = taken(take_runs, client.runs, len(records))
    lists = taken(take_messages, client.messages, len(records))
    ours, theirs = ([shown(record) for run in each for record in run] for each in (runs, lists))
    assert ours == theirs
    encoded, known = ([ENCODER.events(run, 0) for run in each] for each in (runs, lists))
    assert joined(encoded) == joined(known)
    passed, expected = ([shown(record) for run in each for record in screen.passed(run)] for each in (runs, lists))
    assert passed == expected
    assert sum(run.size for run in runs) >= sum(len(key or b"") + len(value or b"") for key, value, _ in records)
