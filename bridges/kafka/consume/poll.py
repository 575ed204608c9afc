"""Polling a Kafka client: many records at a time, and errors apart from them (decision 17).

Where the client is of a version that the C code supports, `_fetch` copies the records of each partition into one `Run`
without a Python object for each. Elsewhere the client's own `consume` is called, and a run is a list of its messages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, version

from bridges.kafka.consume import _fetch
from bridges.kafka.librdkafka import SUPPORTED_LAYOUTS, ClientSettings, address, calls_back
from bridges.kafka.records.record import KafkaRecord

_BYTES: Final = 1 << 20
"""Bytes of a batch, about: however large records are, a batch ends with the one that exceeds this."""
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
"""The client keeps asking, and reads when the partition is there; `consume` does not report it either."""
_error: Final = Message.error

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


Poller = Callable[[Consumer, int, float], PollResult]
"""Waits up to some seconds for a first record, and takes up to so many that are there; raises KafkaException."""


def _bound() -> bool:
    """Whether the C code supports this client, and finds the functions of librdkafka in it."""
    if version() not in SUPPORTED_LAYOUTS:
        return False
    try:
        _fetch.bind(tuple(map(address, _FUNCTIONS)), Consumer)
    except AttributeError:  # they are built into the client, and not visible from outside
        return False
    return True


BOUND: Final = _bound()
"""Whether the fast path is used at all."""


def poller_for(settings: ClientSettings) -> Poller:
    """How a client with these settings is polled."""
    return poll_native if BOUND and not calls_back(settings) else poll_fallback


def poll_fallback(consumer: Consumer, most: int, seconds: float) -> PollResult:
    """By the client's own `consume`: an object for each record, and its callbacks are called."""
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
    records: dict[Key, list[KafkaRecord]] = {}
    for message in messages:
        # Without an error a message has all that a record has; the client's types cannot say so.
        key = cast(Key, (message.topic(), message.partition()))
        records.setdefault(key, []).append(cast(KafkaRecord, message))
    return PollResult({**records}, failures)


def poll_native(consumer: Consumer, most: int, seconds: float) -> PollResult:
    """In one call of C, which calls no callback."""
    runs, failed = _fetch.take(consumer, most, _BYTES, int(seconds * 1000))
    failures = [Failure(*found) for each in failed if (found := _failure(*each)) is not None]
    return PollResult({(run.topic, run.partition): run for run in runs}, failures)


def _failure(
    code: int, reason: str, fatal: bool, topic: str | None, partition: int, offset: int
) -> tuple[KafkaError, str | None, int | None, int | None] | None:
    """None: librdkafka reports its own connections to an error callback, and there is none."""
    if fatal:
        raise KafkaException(KafkaError(code, reason, fatal=True))
    if code == _LATER or (topic is None and code < 0):
        return None
    error = KafkaError(code, reason)
    return (error, topic, partition, offset if offset >= 0 else None) if topic else (error, None, None, None)
