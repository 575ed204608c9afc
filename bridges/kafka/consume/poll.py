"""What a Kafka client has read, taken many records at a time and apart from errors (decision 17).

Where the client is one that the C code was made for, `_fetch` copies the records of each partition into one `Run`
without an object for each. Everywhere else the client's own `consume` does it, and a run is a list of its messages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, version

from bridges.kafka.consume import _fetch
from bridges.kafka.librdkafka import LAID_OUT, address, calls_back

_BYTES: Final = 1 << 20
"""Bytes of a batch, about: whatever the size of records, they are handed over before they are too many."""
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
_LATER: Final = KafkaError._UNKNOWN_PARTITION
"""The client goes on asking and begins to read when the partition is there; `consume` does not say it either."""
_error: Final = Message.error

Key = tuple[str, int]
"""Topic and partition."""


class Failure(NamedTuple):
    """What went wrong, and where, if it is of a partition."""

    error: KafkaError
    topic: str | None
    partition: int | None
    offset: int | None


class PollResult(NamedTuple):
    """Records by partition, in the order of the log, and errors."""

    records: dict[Key, Sequence[Any]]
    failures: list[Failure]


Take = Callable[[Consumer, int, float], PollResult]
"""Wait up to some seconds for a first record, and take up to so many that are at hand; raises KafkaException."""


def _bound() -> bool:
    """Whether the C code was made for this client, and finds librdkafka in it."""
    if version() not in LAID_OUT:
        return False
    try:
        _fetch.bind(tuple(map(address, _FUNCTIONS)), Consumer)
    except AttributeError:  # built into the client, and not to be seen from outside
        return False
    return True


BOUND: Final = _bound()
"""Whether the fast path is used at all."""


def way(settings: Mapping[str, Any]) -> Take:
    """How to take records from a client with these settings."""
    return take_runs if BOUND and not calls_back(settings) else take_messages


def take_messages(consumer: Consumer, most: int, seconds: float) -> PollResult:
    """The client's own way, an object for each record; it calls back."""
    messages = consumer.consume(1, seconds)
    if messages:
        messages += consumer.consume(most - 1, 0)  # asking for a full batch would wait until it is full
    failures: list[Failure] = []
    if any(map(_error, messages)):
        failures = [
            Failure(error, message.topic(), message.partition(), message.offset())
            for message in messages
            if (error := message.error()) is not None
        ]
        messages = [message for message in messages if message.error() is None]
    records: dict[Any, Any] = {}
    for message in messages:
        records.setdefault((message.topic(), message.partition()), []).append(message)
    return PollResult(records, failures)


def take_runs(consumer: Consumer, most: int, seconds: float) -> PollResult:
    """In one call of C, which calls nobody back."""
    runs, failed = _fetch.take(consumer, most, _BYTES, int(seconds * 1000))
    failures = [Failure(*found) for each in failed if (found := _failure(*each)) is not None]
    return PollResult({(run.topic, run.partition): run for run in runs}, failures)


def _failure(
    code: int, reason: str, fatal: bool, topic: str | None, partition: int, offset: int
) -> tuple[KafkaError, str | None, int | None, int | None] | None:
    """None: what librdkafka says of its own connections goes to a callback for errors, and there is none."""
    if fatal:
        raise KafkaException(KafkaError(code, reason, fatal=True))
    if code == _LATER or (topic is None and code < 0):
        return None
    error = KafkaError(code, reason)
    return (error, topic, partition, offset if offset >= 0 else None) if topic else (error, None, None, None)
