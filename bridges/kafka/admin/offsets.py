"""The partitions and offsets of a topic, for jobs outside the gateway; blocking.

Raises `AmqpError` with a description for users.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from bridges.kafka.admin.client import Admin, Bounds, Topic
from bridges.kafka.admin.reading import READING
from bridges.kafka.common import errors
from bridges.kafka.common.librdkafka import ClientSettings
from gateway.errors import INTERNAL_ERROR, NOT_FOUND, AmqpError

_TIMEOUT: Final = 10.0
_READING: Final[ClientSettings] = {
    **READING,
    "group.id": "scopegate-offsets",
    "max.partition.fetch.bytes": 1,  # a single batch: one record is enough
    "queued.min.messages": 1,
}
Span = tuple[int, int, int]
"""A partition and its offsets [start, end)."""
T = TypeVar("T")


class Offsets:
    """Queries to one cluster."""

    def __init__(self, settings: ClientSettings) -> None:
        self._bootstrap: Final = settings["bootstrap.servers"]
        self._settings: Final = dict(settings)
        self._admin: Final = Admin({"log_level": 0, **settings}, timeout=_TIMEOUT, plain=False)

    def topic(self, name: str) -> Topic:
        """Partitions and identity; NOT_FOUND if the topic does not exist, INTERNAL_ERROR if Kafka does not answer."""
        return self._ask(name, lambda: self._admin.topic(name))

    def bounds(self, topic: Topic) -> dict[int, Bounds]:
        """The offsets of each partition that readers of committed records can see, [low, high)."""
        return self._ask(topic.name, lambda: self._admin.bounds(topic.name, range(topic.partitions)))

    def first_since(self, topic: str, partitions: Iterable[int], time_ms: int) -> dict[int, int]:
        """The first offset with a timestamp of at least `time_ms`; -1 where there is none."""
        return self._ask(topic, lambda: self._admin.first_since(topic, partitions, time_ms))

    def holding(self, topic: str, spans: Iterable[Span]) -> list[Span]:
        """The spans of offsets in which there is a committed record now; INTERNAL_ERROR if Kafka does not answer."""
        left: dict[int, list[Span]] = {}
        for span in spans:
            left.setdefault(span[0], []).append(span)
        found: list[Span] = []
        if left:
            consumer = Consumer({**self._settings, **_READING})
            try:
                while left:  # one span of each partition at a time
                    found += self._ask(topic, partial(_holding, consumer, topic, [own[0] for own in left.values()]))
                    left = {partition: own[1:] for partition, own in left.items() if own[1:]}
            finally:
                consumer.close()
        return found

    def _ask(self, topic: str, query: Callable[[], T]) -> T:
        try:
            self._admin.brokers()  # its error names the cause: a login, a certificate, a cable
            return query()
        except KafkaException as error:
            cause = errors.cause_of(error)
            if cause.code() in errors.UNKNOWN_TOPIC:
                text = f"Kafka at {self._bootstrap} has no topic {topic}"
                raise AmqpError(NOT_FOUND, text) from None
            text = f"Kafka at {self._bootstrap} does not answer for topic {topic}: {cause.str()}"
            raise AmqpError(INTERNAL_ERROR, text) from None
        except TimeoutError:
            raise AmqpError(INTERNAL_ERROR, f"Kafka at {self._bootstrap} does not answer") from None


def _holding(consumer: Consumer, topic: str, spans: list[Span]) -> list[Span]:
    """Spans of different partitions; raises `TimeoutError` and `KafkaException`."""
    left: dict[int | None, Span] = {span[0]: span for span in spans}
    found = []
    consumer.assign([TopicPartition(topic, partition, start) for partition, start, _ in spans])
    while left:
        message = consumer.poll(_TIMEOUT)
        if message is None:
            raise TimeoutError
        if (error := message.error()) is not None and error.code() != KafkaError._PARTITION_EOF:
            if error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
                continue  # the group is required by the client, but not used
            raise KafkaException(error)
        span = left.pop(message.partition(), None)
        if span is not None and error is None and (message.offset() or 0) < span[2]:
            found.append(span)
    return found
