"""The positions that transactions have committed for a group (KM-14)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from bridges.kafka.common import ahead
from bridges.kafka.common.ahead import StoredPosition
from bridges.kafka.common.librdkafka import ClientSettings

PATIENCE: Final = 5.0
"""Seconds to wait for offsets: Kafka does not tell those of an open transaction."""


def committed(
    settings: ClientSettings, group: str, topic: str, partitions: Iterable[int], seconds: float
) -> dict[int, StoredPosition]:
    """The committed positions of a group, in the partitions that have one. Blocks; raises KafkaException."""
    consumer = Consumer({**settings, "group.id": group, "enable.auto.commit": False})
    try:
        wanted = [TopicPartition(topic, partition) for partition in partitions]
        answers = consumer.committed(wanted, seconds)
        for answer in answers:
            if answer.error is not None:
                raise KafkaException(answer.error)
        return {
            answer.partition: ahead.read(answer.offset, answer.metadata) for answer in answers if answer.offset >= 0
        }
    finally:
        consumer.close()
