"""An ordinary Kafka consumer, which knows bootstrap servers and a topic, but not AMQP."""

from __future__ import annotations

import time
from typing import Final, NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition

from gateway.quickstart.checks import PATIENCE

_BATCH: Final = 1000


class KafkaError(Exception):
    """Kafka did not return the requested records."""


class Read(NamedTuple):
    """One record as a Kafka application sees it."""

    key: bytes | None
    value: bytes | None


def read_topic(bootstrap: str, topic: str, count: int) -> dict[tuple[int, int], Read]:
    """The first `count` records of a topic, by partition and offset."""
    group = {"group.id": "scopegate-quickstart", "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": bootstrap, "log_level": 0, **group})
    try:
        found = consumer.list_topics(topic, timeout=PATIENCE).topics[topic]
        if found.error or not found.partitions:
            raise KafkaError(f"Kafka names no partition of {topic}: {found.error}")
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in found.partitions])
        return _read(consumer, count)
    except KafkaException as error:
        raise KafkaError(str(error)) from error
    finally:
        consumer.close()


def _read(consumer: Consumer, count: int) -> dict[tuple[int, int], Read]:
    found: dict[tuple[int, int], Read] = {}
    deadline = time.monotonic() + PATIENCE
    while len(found) < count:
        for record in consumer.consume(_BATCH, timeout=0.1):
            if record.error():
                raise KafkaError(str(record.error()))
            found[record.partition() or 0, record.offset() or 0] = Read(record.key(), record.value())
        if time.monotonic() > deadline:
            raise KafkaError(f"{len(found)} of {count} records within {PATIENCE:.0f} s")
    return found
