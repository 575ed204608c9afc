"""An ordinary Kafka consumer, which knows bootstrap servers and a topic, but not AMQP."""

from __future__ import annotations

import time
from typing import Final, NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition

_BATCH: Final = 1000
_PATIENCE: Final = 20.0


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
        partitions = consumer.list_topics(topic, timeout=_PATIENCE).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions])
        return _read(consumer, count)
    except KafkaException as error:
        raise KafkaError(str(error)) from error
    finally:
        consumer.close()


def _read(consumer: Consumer, count: int) -> dict[tuple[int, int], Read]:
    found: dict[tuple[int, int], Read] = {}
    deadline = time.monotonic() + _PATIENCE
    while len(found) < count:
        for record in consumer.consume(_BATCH, timeout=0.1):
            if record.error():
                raise KafkaError(str(record.error()))
            found[record.partition() or 0, record.offset() or 0] = Read(record.key(), record.value())
        if time.monotonic() > deadline:
            raise KafkaError(f"{len(found)} of {count} records within {_PATIENCE:.0f} s")
    return found
