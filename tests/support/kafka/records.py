"""Records as an ordinary Kafka client reads them."""

from __future__ import annotations

from typing import Any

from confluent_kafka import Consumer, TopicPartition

from tests.support.servers.kafka import KafkaBroker


def copies(broker: KafkaBroker, topic: str, count: int) -> list[Any]:
    """The first `count` records of a topic's first partition."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "copies", "log_level": 0})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[Any] = []
    while len(found) < count:
        found += consumer.consume(count - len(found), 10)
    consumer.close()
    return found
