"""Reads single records of a topic, for jobs that compare them with a copy; blocking."""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import Final, NamedTuple, Self

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from bridges.kafka.admin.reading import READING
from bridges.kafka.common import errors
from bridges.kafka.common.librdkafka import ClientSettings
from bridges.kafka.common.missing import deleted, silence
from gateway.errors import INTERNAL_ERROR, AmqpError

_TIMEOUT: Final = 30.0
_READING: Final[ClientSettings] = {
    **READING,
    "group.id": "scopegate-records",
    "queued.max.messages.kbytes": 16 * 1024,
}


class StoredRecord(NamedTuple):
    """A committed record, as Kafka has it."""

    offset: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    timestamp_type: int
    timestamp_ms: int


class RecordReads:
    """Reads records of one cluster; use it in a `with` block."""

    def __init__(self, settings: ClientSettings) -> None:
        self._bootstrap: Final = settings["bootstrap.servers"]
        self._consumer: Final = Consumer({**settings, **_READING})

    def read(self, topic: str, partition: int, start: int, end: int, most: int) -> list[StoredRecord]:
        """The first `most` committed records with offsets in [start, end).

        Raises AmqpError: NOT_FOUND if the topic does not exist, INTERNAL_ERROR if the cluster does not answer.
        """
        self._consumer.assign([TopicPartition(topic, partition, start)])
        found: list[StoredRecord] = []
        while len(found) < most:
            message = self._consumer.poll(_TIMEOUT)
            if message is None:
                text = f"Kafka at {self._bootstrap} does not answer for topic {topic}"
                raise silence(self._consumer, self._bootstrap, [topic], text)
            if (error := message.error()) is not None:
                if error.code() == KafkaError._PARTITION_EOF:
                    break
                if error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
                    continue  # the group is required by the client, but not used
                raise self._error(topic, error)
            if (record := _record(message)).offset >= end:
                break
            found.append(record)
        return found

    def _error(self, topic: str, error: KafkaError) -> AmqpError:
        if error.code() in errors.UNKNOWN_TOPIC:
            return deleted(self._bootstrap, topic)
        return AmqpError(INTERNAL_ERROR, f"Kafka at {self._bootstrap}, topic {topic}: {error.str()}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._consumer.close()


def _record(message: Message) -> StoredRecord:
    kind, time = message.timestamp()
    pairs: Iterable[tuple[str, str | bytes | None]] = message.headers() or ()  # type: ignore[assignment]
    headers = [(name, _bytes(value)) for name, value in pairs]
    return StoredRecord(message.offset() or 0, _bytes(message.key()), _bytes(message.value()), headers, kind, time)


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
