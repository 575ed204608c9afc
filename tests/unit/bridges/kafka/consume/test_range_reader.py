"""Ranges of offsets are read to their ends, and no further, from all of their partitions at once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from bridges.kafka.admin.embedded import EmbeddedKafka
from bridges.kafka.consume import range_reader
from bridges.kafka.consume.poll import poll_fallback
from bridges.kafka.consume.range_reader import TopicRange, count_before, read_ranges
from gateway.errors import AmqpError

TOPIC, PARTITIONS, EACH = "ranges", 3, 500


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    kafka = EmbeddedKafka()
    kafka.create_topic(TOPIC, PARTITIONS)
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "log_level": 0, "batch.num.messages": 40})
    for number in range(PARTITIONS * EACH):
        producer.produce(TOPIC, b"%d" % number, partition=number % PARTITIONS)
    assert producer.flush(10) == 0
    yield kafka.bootstrap
    kafka.close()


def places(bootstrap: str, *ranges: TopicRange) -> dict[tuple[str, int], list[int]]:
    """The offsets that were read before the ends of the ranges."""
    ends = {(each.topic, each.partition): each.end for each in ranges}
    found: dict[tuple[str, int], list[int]] = {}
    for batch in read_ranges({"bootstrap.servers": bootstrap}, ranges):
        for key, records in batch.items():
            taken = count_before(records, ends[key])
            found.setdefault(key, []).extend(records[index].offset() for index in range(taken))
    return found


@pytest.mark.parametrize("native", [True, False])
def test_exactly_the_ranges_are_read(bootstrap: str, native: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not native:
        monkeypatch.setattr(range_reader, "poller_for", lambda *_: poll_fallback)
    ranges = TopicRange(TOPIC, 0, 0, EACH), TopicRange(TOPIC, 1, 123, 124), TopicRange(TOPIC, 2, 40, 399)
    assert places(bootstrap, *ranges) == {
        (each.topic, each.partition): list(range(each.start, each.end)) for each in ranges
    }


def test_what_kafka_does_not_send_is_an_error(bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AmqpError, match="offsets were deleted from the topic while they were read"):
        places(bootstrap, TopicRange(TOPIC, 0, EACH + 10, EACH + 20))
    monkeypatch.setattr(range_reader, "_PATIENCE", 0.0)
    monkeypatch.setattr(range_reader, "_POLL", 0.1)
    with pytest.raises(AmqpError, match=f"Kafka at {bootstrap} does not answer in time"):
        places(bootstrap, TopicRange(TOPIC, 0, EACH, EACH + 20))


def test_one_that_is_given_up_is_closed(bootstrap: str) -> None:
    reading = read_ranges({"bootstrap.servers": bootstrap}, [TopicRange(TOPIC, 0, 0, EACH)])
    assert next(iter(reading))
    reading.close()  # type: ignore[attr-defined]
    assert list(reading) == []
