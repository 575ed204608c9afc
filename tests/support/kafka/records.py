"""Records as an ordinary Kafka client reads them."""

from __future__ import annotations

from typing import Any

from confluent_kafka import Consumer, TopicPartition

from tests.support.gateway.process import PATIENCE
from tests.support.servers.kafka import KafkaBroker


def copies(broker: KafkaBroker, topic: str, count: int | None = None) -> list[Any]:
    """The first `count` records of a topic's first partition, or all that are there."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "copies", "log_level": 0})
    consumer.assign([TopicPartition(topic, 0, 0)])
    wanted = consumer.get_watermark_offsets(TopicPartition(topic, 0), PATIENCE)[1] if count is None else count
    found: list[Any] = []
    while len(found) < wanted:
        found += consumer.consume(wanted - len(found), 10)
    consumer.close()
    return found
