"""What a topic holds, for jobs that are no gateway: blocking; errors are `AmqpError` with a sentence for people."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

from confluent_kafka import KafkaException

from bridges.kafka import faults
from bridges.kafka.admin import Admin, Bounds, Topic
from gateway.errors import INTERNAL_ERROR, NOT_FOUND, AmqpError

_TIMEOUT: Final = 10.0
T = TypeVar("T")


class Offsets:
    """Questions to one cluster."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._bootstrap: Final = settings["bootstrap.servers"]
        self._admin: Final = Admin({"log_level": 0, **settings}, timeout=_TIMEOUT, plain=False)

    def topic(self, name: str) -> Topic:
        """Partitions and identity; NOT_FOUND for a topic that is not there, INTERNAL_ERROR without an answer."""
        return self._ask(name, lambda: self._admin.topic(name))

    def bounds(self, topic: Topic) -> dict[int, Bounds]:
        """What committed readers find in each partition, [low, high)."""
        return self._ask(topic.name, lambda: self._admin.bounds(topic.name, range(topic.partitions)))

    def first_since(self, topic: str, partitions: Iterable[int], time_ms: int) -> dict[int, int]:
        """The first offset with a timestamp of at least `time_ms`; -1 where there is none."""
        return self._ask(topic, lambda: self._admin.first_since(topic, partitions, time_ms))

    def _ask(self, topic: str, question: Callable[[], T]) -> T:
        try:
            self._admin.brokers()  # names the cause where nobody answers: a login, a certificate, a cable
            return question()
        except KafkaException as error:
            cause: Any = error.args[0]
            if cause.code() in faults.UNKNOWN_TOPIC:
                text = f"Kafka at {self._bootstrap} has no topic {topic}"
                raise AmqpError(NOT_FOUND, text) from None
            text = f"Kafka at {self._bootstrap} does not answer for topic {topic}: {cause.str()}"
            raise AmqpError(INTERNAL_ERROR, text) from None
        except TimeoutError:
            raise AmqpError(INTERNAL_ERROR, f"Kafka at {self._bootstrap} does not answer") from None
