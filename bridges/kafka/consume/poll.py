"""Polls a Kafka client for many records at a time, and separates errors from records (decision 17).

If the C code supports the version of the client, `_fetch` copies the records of each partition into one `Run`, without
a Python object for each. Otherwise the client's own `consume` is called, and a run is a list of its messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple, Protocol, cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Message

from bridges.kafka.common.librdkafka import ClientSettings, bind, calls_back
from bridges.kafka.consume import _fetch
from bridges.kafka.records.envelope import BARE
from bridges.kafka.records.record import KafkaRecord
from gateway.held.logs import BATCH

_FUNCTIONS: Final = (
    "rd_kafka_queue_get_consumer",
    "rd_kafka_queue_destroy",
    "rd_kafka_opaque",
    "rd_kafka_queue_poll",
    "rd_kafka_event_type",
    "rd_kafka_event_message_next",
    "rd_kafka_event_destroy",
    "rd_kafka_event_error",
    "rd_kafka_event_error_string",
    "rd_kafka_event_error_is_fatal",
    "rd_kafka_event_topic_partition",
    "rd_kafka_topic_partition_destroy",
    "rd_kafka_topic_name",
    "rd_kafka_message_timestamp",
    "rd_kafka_message_headers",
    "rd_kafka_header_get_all",
)
"""In the order of the table in `_fetch.c`."""
_PARTITION_NOT_YET: Final = KafkaError._UNKNOWN_PARTITION
"""The client retries, and reads once the partition exists; `consume` does not report this error either."""
_error: Final = Message.error
_BARE: Final = BARE.encode()
_LARGE: Final = 2048
"""Bytes of a value from which on its digest is checked in the thread that reads (decision 103)."""

Key = tuple[str, int]
"""Topic and partition."""


class Failure(NamedTuple):
    """An error, and the partition that it concerns, if any."""

    error: KafkaError
    topic: str | None
    partition: int | None
    offset: int | None


class PollResult(NamedTuple):
    """Records by partition, in the order of the log, and errors."""

    records: dict[Key, Sequence[KafkaRecord]]
    failures: list[Failure]


class Poller(Protocol):
    """Polls a consumer."""

    def __call__(self, consumer: Consumer, most: int, seconds: float, *, check: bool = False) -> PollResult:
        """`seconds`: to wait for the first record. Raises KafkaException.

        `check`: compare the digests of large records with their content here, so that the loop need not.
        """


BOUND: Final = bind(_fetch.bind, _FUNCTIONS, Consumer)
"""Whether the C code can be used."""


def poller_for(settings: ClientSettings, limit: int = BATCH) -> Poller:
    """The function that polls a client with these settings; a batch ends with the record that exceeds `limit` bytes."""
    if not BOUND or calls_back(settings):
        return poll_fallback
    return poll_native if limit == BATCH else partial(poll_native, limit=limit)


def poll_fallback(consumer: Consumer, most: int, seconds: float, *, check: bool = False) -> PollResult:
    """By the client's own `consume`, which makes an object for each record and calls callbacks; checks nothing."""
    messages = consumer.consume(1, seconds)
    if messages:
        messages += consumer.consume(most - 1, 0)  # a full batch would be waited for
    failures: list[Failure] = []
    if any(map(_error, messages)):
        failures = [
            Failure(error, message.topic(), message.partition(), message.offset())
            for message in messages
            if (error := message.error()) is not None
        ]
        messages = [message for message in messages if message.error() is None]
    records: dict[Key, list[KafkaRecord]] = {}
    for message in messages:
        # A message without an error is a record, but the types of the client do not say so.
        key = cast(Key, (message.topic(), message.partition()))
        records.setdefault(key, []).append(cast(KafkaRecord, message))
    return PollResult({**records}, failures)


def poll_native(
    consumer: Consumer, most: int, seconds: float, limit: int = BATCH, *, check: bool = False, least: int = _LARGE
) -> PollResult:
    """By one call of C code, which calls no callbacks."""
    runs, failed = _fetch.take(consumer, most, limit, int(seconds * 1000), _BARE if check else None, least)
    failures = [Failure(*found) for each in failed if (found := _failure(*each)) is not None]
    return PollResult({(run.topic, run.partition): run for run in runs}, failures)


def _failure(
    code: int, reason: str, fatal: bool, topic: str | None, partition: int, offset: int
) -> tuple[KafkaError, str | None, int | None, int | None] | None:
    """The fields of a `Failure`; None: an error of a connection, which is for an error callback, and there is none."""
    if fatal:
        raise KafkaException(KafkaError(code, reason, fatal=True))
    if code == _PARTITION_NOT_YET or (topic is None and code < 0):
        return None
    error = KafkaError(code, reason)
    return (error, topic, partition, offset if offset >= 0 else None) if topic else (error, None, None, None)
