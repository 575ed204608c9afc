"""Why no record comes: a topic may have been deleted while it was read, and its brokers then say nothing. Blocking."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from confluent_kafka import Consumer, KafkaException

from bridges.kafka.common import errors
from gateway.errors import INTERNAL_ERROR, NOT_FOUND, AmqpError

_TIMEOUT: Final = 10.0


def deleted(bootstrap: object, topic: str) -> AmqpError:
    """The error of a topic that does not exist any more."""
    return AmqpError(NOT_FOUND, f"Kafka at {bootstrap} has no topic {topic}")


def silence(consumer: Consumer, bootstrap: object, topics: Iterable[str], text: str) -> AmqpError:
    """The error of a client that has waited in vain for records of these topics; `text`: they all exist."""
    for topic in topics:
        try:
            known = consumer.list_topics(topic, timeout=_TIMEOUT).topics[topic]
        except KafkaException:
            break
        if known.error is not None and known.error.code() in errors.UNKNOWN_TOPIC:
            return deleted(bootstrap, topic)
    return AmqpError(INTERNAL_ERROR, text)
