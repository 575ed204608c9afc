"""Reads ranges of offsets to their ends, for jobs outside the gateway; blocking.

Only committed records are read. A range has ended when a record at its end or behind it arrives, or the end of the
partition: the last offsets of a range may have no record, because they are ends of transactions, were aborted, or were
removed by compaction.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from bridges.kafka.common import errors
from bridges.kafka.common.librdkafka import ClientSettings
from bridges.kafka.common.missing import deleted, silence
from bridges.kafka.consume.poll import Failure, Key, PollResult, poller_for
from bridges.kafka.consume.reader import bounded
from bridges.kafka.records.record import KafkaRecord
from gateway.errors import INTERNAL_ERROR, NOT_FOUND, UNAUTHORIZED_ACCESS, AmqpError

_QUEUE: Final = 64 << 20
"""Bytes of records that the client fetches ahead."""
_BATCH: Final = 8 << 20
"""Bytes of records after which a batch ends, with the record that exceeds them."""
_MOST: Final = 20_000
_POLL: Final = 1.0
_PATIENCE: Final = 60.0
"""Seconds without a record or an end after which an error says that Kafka does not answer."""
_TUNING: Final[ClientSettings] = {
    "fetch.wait.max.ms": 10,  # the ranges exist already; a broker that waits for more only delays their end
    "fetch.queue.backoff.ms": 1,
    "fetch.message.max.bytes": 4 << 20,
    "check.crcs": True,
}
"""Settings that those of the user override."""
_FIXED: Final[ClientSettings] = {
    "group.id": "scopegate-archive",  # required by the client and never used: no subscription, no commit
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
    "isolation.level": "read_committed",
    "allow.auto.create.topics": False,
}
_LOST: Final = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE})
_EXPECTED: Final = frozenset({KafkaError._PARTITION_EOF, KafkaError.GROUP_AUTHORIZATION_FAILED})


RecordsByPartition: TypeAlias = Mapping[Key, Sequence[KafkaRecord]]


class TopicRange(NamedTuple):
    """Offsets [start, end) of a partition of a topic."""

    topic: str
    partition: int
    start: int
    end: int


def read_ranges(settings: ClientSettings, ranges: Sequence[TopicRange]) -> Iterator[RecordsByPartition]:
    """The records of ranges of different partitions, batch by batch, in the order of each partition.

    The last batch of a partition may have records behind the end of its range; `count_before` tells them apart. Raises
    `AmqpError` with a description for users if Kafka refuses to send them, does not answer, or has deleted some.
    """
    settings = {"log_level": 0, **_TUNING, **settings, **_FIXED}
    consumer = Consumer({**settings, **bounded(settings, _QUEUE)})
    try:
        consumer.assign([TopicPartition(each.topic, each.partition, each.start) for each in ranges])
        yield from _RangeReader(consumer, settings, ranges).batches()
    except KafkaException as error:
        raise _described(settings, errors.cause_of(error), None) from None
    finally:
        consumer.close()


def count_before(records: Sequence[KafkaRecord], end: int) -> int:
    """The number of records with offsets before `end`."""
    return bisect_left(records, end, key=lambda record: record.offset())


class _RangeReader:
    """The ranges that have not ended."""

    def __init__(self, consumer: Consumer, settings: ClientSettings, ranges: Sequence[TopicRange]) -> None:
        self._consumer: Final = consumer
        self._settings: Final = settings
        self._poll: Final = poller_for(settings, _BATCH)
        self._ends: Final[dict[Key, int]] = {(each.topic, each.partition): each.end for each in ranges}

    def batches(self) -> Iterator[RecordsByPartition]:
        deadline = time.monotonic() + _PATIENCE
        while self._ends:
            found = self._poll(self._consumer, _MOST, _POLL)
            records = {key: each for key, each in found.records.items() if key in self._ends}
            if self._follow(found) or records:
                deadline = time.monotonic() + _PATIENCE
            elif time.monotonic() > deadline:
                raise self._silence()
            if records:
                yield records

    def _silence(self) -> AmqpError:
        bootstrap, topics = self._settings["bootstrap.servers"], dict.fromkeys(topic for topic, _ in self._ends)
        return silence(self._consumer, bootstrap, topics, f"Kafka at {bootstrap} does not answer in time")

    def _follow(self, found: PollResult) -> bool:
        """Note the ranges that have ended, and read them no further; whether there were any."""
        ended = [key for key, each in found.records.items() if each[-1].offset() + 1 >= self._ends.get(key, _NO_END)]
        ended += [key for each in found.failures if (key := self._ended_at(each)) is not None]
        for key in ended:
            self._ends.pop(key, None)
        if ended:
            self._consumer.pause([TopicPartition(*key) for key in ended])
        return bool(ended)

    def _ended_at(self, failure: Failure) -> Key | None:
        """The partition whose range the end of the log ends. Raises `AmqpError` for any other failure."""
        code = failure.error.code()
        if failure.topic is None and code < 0:
            return None  # of a connection, which the client makes again
        if code not in _EXPECTED:
            raise _described(self._settings, failure.error, failure.topic)
        if code != KafkaError._PARTITION_EOF or failure.topic is None or failure.partition is None:
            return None
        key = failure.topic, failure.partition
        return key if (failure.offset or 0) >= self._ends.get(key, _NO_END) else None


_NO_END: Final = 1 << 63


def _described(settings: ClientSettings, error: KafkaError, topic: str | None) -> AmqpError:
    code, of_topic = error.code(), f" (topic {topic})" if topic else ""
    if code in errors.UNKNOWN_TOPIC and topic:
        return deleted(settings["bootstrap.servers"], topic)
    if code in errors.UNAUTHORIZED:
        return AmqpError(UNAUTHORIZED_ACCESS, f"Kafka denies access: {error.str()}{of_topic}")
    if code in _LOST:
        text = f"offsets were deleted from the topic while they were read: {error.str()}{of_topic}"
        return AmqpError(NOT_FOUND, text)
    where = f"Kafka at {settings['bootstrap.servers']}"
    return AmqpError(INTERNAL_ERROR, f"{where} does not send the records{of_topic}: {error.str()}")
