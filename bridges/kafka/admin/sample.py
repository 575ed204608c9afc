"""The newest records of a topic, as the messages that a consumer would get: for `scopegate filter`.

Blocking; for the command line only.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final, cast

from confluent_kafka import Consumer, KafkaException, TopicPartition

from bridges.kafka.common import errors
from bridges.kafka.common.librdkafka import ClientSettings
from bridges.kafka.records.mapping import RecordReader
from bridges.kafka.records.record import KafkaRecord
from gateway.errors import NOT_FOUND, AmqpError

_TIMEOUT: Final = 10.0
_BATCH: Final = 500
_POLL: Final = 0.5
_GROUP: Final = "scopegate-filter"
"""Required by the client, but never used: no subscription, no commit."""


def newest(settings: ClientSettings, cluster: str, topic: str, count: int) -> Iterator[bytes]:
    """`newest_records` as encoded messages."""
    reader = RecordReader()
    for record in newest_records(settings, topic, count):
        kind, stamp = record.timestamp()
        place = record.partition(), record.offset()
        yield reader.encode(record.key(), record.value(), record.headers(), *place, kind, stamp)


def newest_records(settings: ClientSettings, topic: str, count: int) -> Iterator[KafkaRecord]:
    """The newest `count` records, an equal share of each partition, oldest first in each.

    Raises AmqpError: NOT_FOUND if the topic does not exist, INTERNAL_ERROR if the cluster does not answer.
    """
    consumer = Consumer({**settings, "log_level": 0, "group.id": _GROUP, "enable.auto.commit": False})
    try:
        ranges = _ranges(consumer, topic, count)
        if ranges:
            consumer.assign([TopicPartition(topic, partition, low) for partition, (low, _) in ranges.items()])
            yield from _read(consumer, topic, {partition: high for partition, (_, high) in ranges.items()})
    except KafkaException as error:
        raise errors.link_error(errors.cause_of(error)) from None
    finally:
        consumer.close()


def _ranges(consumer: Consumer, topic: str, count: int) -> dict[int, tuple[int, int]]:
    """For each partition that has records: the offsets to read, [start, end)."""
    known = consumer.list_topics(topic, timeout=_TIMEOUT).topics[topic]
    if known.error is not None or not known.partitions:
        raise AmqpError(NOT_FOUND, f"the cluster has no topic {topic}")
    share = -(-count // len(known.partitions))
    ranges = {}
    for partition in known.partitions:
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=_TIMEOUT)
        if high > low:
            ranges[partition] = (max(low, high - share), high)
    return ranges


def _read(consumer: Consumer, topic: str, ends: dict[int, int]) -> Iterator[KafkaRecord]:
    """Read up to `ends`; stop early if no record arrives for a while (transactions leave gaps, retention deletes)."""
    deadline = time.monotonic() + _TIMEOUT
    while ends and time.monotonic() < deadline:
        for message in consumer.consume(_BATCH, timeout=_POLL):
            if (error := message.error()) is not None:
                raise KafkaException(error)
            record = cast(KafkaRecord, message)  # a message without an error is a record
            deadline = time.monotonic() + _TIMEOUT
            if record.offset() < ends.get(record.partition(), 0):
                yield record
        for position in consumer.position([TopicPartition(topic, partition) for partition in ends]):
            if position.offset >= ends[position.partition]:
                del ends[position.partition]
