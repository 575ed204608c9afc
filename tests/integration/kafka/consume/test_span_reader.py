"""Reads of many spans of offsets: which records they find, on a real broker, and what thousands of them cost."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable
from typing import NamedTuple

import pytest

from bridges.kafka.admin.offsets import Offsets
from bridges.kafka.admin.span_reader import Span, read_spans
from tests.support.gateway.process import PATIENCE
from tests.support.servers.kafka import KafkaBroker, new_producer
from tests.support.spark.pipeline import consumed, settled

COUNT = 40_000
LARGE = 3_000


class Log(NamedTuple):
    """A topic of two partitions, and the offsets of its committed records."""

    topic: str
    settings: dict[str, str]
    offsets: dict[int, set[int]]

    def found(self, spans: Iterable[Span], most: int | None = None) -> dict[Span, list[int]]:
        """The offsets that are read, by span."""
        found: dict[Span, list[int]] = {}
        for span, records in read_spans(self.settings, self.topic, spans, most):
            found.setdefault(span, []).extend(each.offset() for each in records)
        return found

    def expected(self, spans: Iterable[Span]) -> dict[Span, list[int]]:
        """The same by a consumer that reads everything."""
        found = {span: [each for each in range(*span[1:]) if each in self.offsets[span[0]]] for span in spans}
        return {span: offsets for span, offsets in found.items() if offsets}


@pytest.fixture(scope="module")
def log(kafka_broker: KafkaBroker) -> Log:
    """Small records, then transactions, aborted ones too, then large records, which are worth a seek."""
    topic = kafka_broker.create_topic(partitions=2)
    with kafka_broker.writing(**{"queue.buffering.max.messages": COUNT * 2}) as write:
        for number in range(COUNT):
            write(topic, b"v", None, number % 2)
    producer = new_producer(kafka_broker.bootstrap, **{"transactional.id": topic})
    producer.init_transactions(PATIENCE)
    for number in range(20):
        producer.begin_transaction()
        producer.produce(topic, b"in a transaction", None, number % 2)
        producer.flush(PATIENCE)
        (producer.abort_transaction if number % 3 == 0 else producer.commit_transaction)(PATIENCE)
    with kafka_broker.writing() as write:
        for number in range(LARGE):
            write(topic, b"v" * 5000, None, number % 2)
    settled(kafka_broker, topic)
    offsets: dict[int, set[int]] = {0: set(), 1: set()}
    for record in consumed(kafka_broker, topic):
        offsets[record.partition].add(record.offset)
    return Log(topic, {"bootstrap.servers": kafka_broker.bootstrap}, offsets)


def test_ten_thousand_spans_cost_seconds(log: Log) -> None:
    """Each was read by a client that began anew, which took a second."""
    spans = [(partition, offset, offset + 1) for partition in (0, 1) for offset in range(0, COUNT // 2, 4)]
    began = time.perf_counter()
    assert sorted(Offsets(log.settings).holding(log.topic, spans)) == sorted(spans)
    assert (len(spans), time.perf_counter() - began < PATIENCE) == (10_000, True)


def test_exactly_the_committed_records_of_the_spans_are_read(log: Log) -> None:
    end = max(map(max, log.offsets.values())) + 5
    for seed in range(20):
        choice = random.Random(seed)
        edges = {number: sorted(choice.sample(range(end), 2 * choice.choice([1, 5, 60]))) for number in (0, 1)}
        spans = [(number, *pair) for number, own in edges.items() for pair in zip(own[::2], own[1::2], strict=True)]
        assert log.found(choice.sample(spans, len(spans))) == log.expected(spans)


def test_of_each_span_the_first_records_are_enough(log: Log) -> None:
    spans = [(0, 0, 1000), (0, 1000, 1003), (0, 15_000, COUNT), (1, COUNT // 2 - 3, COUNT)]
    assert log.found(spans, most=7) == {span: found[:7] for span, found in log.expected(spans).items()}


def test_offsets_that_are_no_records_and_no_spans_hold_nothing(log: Log) -> None:
    taken = range(COUNT // 2, COUNT // 2 + 20)
    places = [(number, offset) for number in (0, 1) for offset in taken if offset not in log.offsets[number]]
    markers = [(number, offset, offset + 1) for number, offset in places]
    assert len(markers) >= 14
    beyond = [(0, COUNT * 2, COUNT * 3), (1, COUNT * 2, COUNT * 2 + 1)]
    assert log.found([*markers, *beyond]) == log.found([]) == {}
