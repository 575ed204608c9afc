"""The newest records of a topic as the messages that a consumer would get: for who tries a filter out, not for links.

Blocking; for the command line only.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final, cast

from confluent_kafka import Consumer, KafkaException, TopicPartition

from bridges.kafka import errors
from bridges.kafka.librdkafka import ClientSettings
from bridges.kafka.records.mapping import RecordReader
from bridges.kafka.records.record import KafkaRecord
from gateway.errors import NOT_FOUND, AmqpError

_TIMEOUT: Final = 10.0
_BATCH: Final = 500
_POLL: Final = 0.5
_GROUP: Final = "scopegate-filter"
"""The client wants one; it is never used: no subscription, no commit."""


def newest(settings: ClientSettings, cluster: str, topic: str, count: int) -> Iterator[bytes]:
    """Encoded messages of the newest `count` records, an equal share of each partition, oldest first in each.

    Raises AmqpError: NOT_FOUND for a topic that is not there, INTERNAL_ERROR for a cluster that does not answer.
    """
    consumer = Consumer({**settings, "log_level": 0, "group.id": _GROUP, "enable.auto.commit": False})
    try:
        places = _places(consumer, topic, count)
        if places:
            consumer.assign([TopicPartition(topic, partition, low) for partition, (low, _) in places.items()])
            yield from _read(consumer, topic, {partition: high for partition, (_, high) in places.items()})
    except KafkaException as error:
        raise errors.link_error(errors.cause_of(error)) from None
    finally:
        consumer.close()


def _places(consumer: Consumer, topic: str, count: int) -> dict[int, tuple[int, int]]:
    """First and end offset to read of each partition that has records."""
    known = consumer.list_topics(topic, timeout=_TIMEOUT).topics[topic]
    if known.error is not None or not known.partitions:
        raise AmqpError(NOT_FOUND, f"the cluster has no topic {topic}")
    share = -(-count // len(known.partitions))
    places = {}
    for partition in known.partitions:
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=_TIMEOUT)
        if high > low:
            places[partition] = (max(low, high - share), high)
    return places


def _read(consumer: Consumer, topic: str, ends: dict[int, int]) -> Iterator[bytes]:
    """Up to the ends; gives up when nothing has come for a while (transactions leave gaps, retention moves on)."""
    reader, quiet = RecordReader(), time.monotonic() + _TIMEOUT
    while ends and time.monotonic() < quiet:
        for message in consumer.consume(_BATCH, timeout=_POLL):
            if (error := message.error()) is not None:
                raise KafkaException(error)
            record = cast(KafkaRecord, message)  # as it is without an error, which the client's types cannot say
            quiet = time.monotonic() + _TIMEOUT
            partition, offset = record.partition(), record.offset()
            if offset < ends.get(partition, 0):
                kind, stamp = record.timestamp()
                yield reader.encode(record.key(), record.value(), record.headers(), partition, offset, kind, stamp)
        for place in consumer.position([TopicPartition(topic, partition) for partition in ends]):
            if place.offset >= ends[place.partition]:
                del ends[place.partition]
