"""The partitions and offsets of a topic, for jobs outside the gateway; blocking.

Raises `AmqpError` with a description for users.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, TypeVar

from confluent_kafka import KafkaException

from bridges.kafka.admin.client import Admin, Bounds, Topic
from bridges.kafka.admin.span_reader import Span, read_spans
from bridges.kafka.common import errors
from bridges.kafka.common.librdkafka import ClientSettings
from bridges.kafka.common.missing import deleted
from bridges.kafka.records.record import KafkaRecord
from gateway.errors import INTERNAL_ERROR, AmqpError

_TIMEOUT: Final = 10.0
T = TypeVar("T")


class Offsets:
    """Queries to one cluster."""

    def __init__(self, settings: ClientSettings) -> None:
        """Raises `AmqpError` for settings that no client can have."""
        self._bootstrap: Final = settings["bootstrap.servers"]
        self._settings: Final = dict(settings)
        with errors.making_client(self._bootstrap):
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
        return self._ask(topic, lambda: [span for span, _ in read_spans(self._settings, topic, spans, most=1)])

    def records(self, topic: str, spans: Iterable[Span]) -> Iterator[tuple[Span, Sequence[KafkaRecord]]]:
        """The committed records in spans that do not overlap, many at a time; INTERNAL_ERROR as in `holding`."""
        with self._described(topic):
            yield from read_spans(self._settings, topic, spans)

    def _ask(self, topic: str, query: Callable[[], T]) -> T:
        with self._described(topic):
            return query()

    @contextmanager
    def _described(self, topic: str) -> Iterator[None]:
        """Errors of the client as `AmqpError`s with a description for users."""
        try:
            self._admin.brokers()  # its error names the cause: a login, a certificate, a cable
            yield
        except KafkaException as error:
            raise self._error(topic, error) from None
        except TimeoutError:
            raise self._silence(topic) from None

    def _error(self, topic: str, error: KafkaException) -> AmqpError:
        cause = errors.cause_of(error)
        if cause.code() in errors.UNKNOWN_TOPIC:
            return deleted(self._bootstrap, topic)
        text = f"Kafka at {self._bootstrap} does not answer for topic {topic}: {cause.str()}"
        return AmqpError(INTERNAL_ERROR, text)

    def _silence(self, topic: str) -> AmqpError:
        """Why no record comes: the topic may have been deleted while it was read."""
        try:
            self._admin.partitions(topic)
        except KafkaException as error:
            return self._error(topic, error)
        return AmqpError(INTERNAL_ERROR, f"Kafka at {self._bootstrap} does not answer")
