"""Writes records and the progress of a replay in one transaction: both are visible, or neither.

The progress (the next offset of each source partition) is stored in the metadata of a committed offset, of a group
without members. So a job that was killed resumes with the record after the last one that readers can see.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from bridges.kafka import errors
from bridges.kafka.librdkafka import ClientSettings
from gateway.errors import INTERNAL_ERROR, RESOURCE_LIMIT_EXCEEDED, AmqpError

_TIMEOUT: Final = 30.0
_METADATA: Final = 4000
"""Bytes of metadata that Kafka stores with an offset (offset.metadata.max.bytes, 4096 by default)."""
Header = tuple[str, bytes | None]


class Replayed(NamedTuple):
    """A record of the source, and the partition that it is written to."""

    source: int
    offset: int
    partition: int
    key: bytes | None
    value: bytes | None
    headers: list[Header] | None
    timestamp_ms: int
    """Milliseconds since 1970; 0: Kafka sets it."""


class Replayer:
    """One named replay into one topic; a second process of the same name fences the first. Raises `AmqpError`."""

    def __init__(self, settings: ClientSettings, topic: str, name: str) -> None:
        self._topic: Final = topic
        group = f"scopegate-replay-{name}"
        own = {"log_level": 0, **settings}
        consumer: ClientSettings = {
            "group.id": group,
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
        producer: ClientSettings = {
            "transactional.id": group,
            "linger.ms": 20,
            "queue.buffering.max.messages": 1_000_000,
        }
        self._failed: KafkaError | None = None
        try:
            self._consumer = Consumer({**own, **consumer})
            self._producer = Producer({**own, **producer})
            self._producer.init_transactions(_TIMEOUT)
            self.progress: dict[int, int] = self._progress()
            """The next offset per source partition, as of the last commit."""
        except KafkaException as error:
            raise _write_error(topic, error) from None

    def _progress(self) -> dict[int, int]:
        (position,) = self._consumer.committed([TopicPartition(self._topic, 0)], timeout=_TIMEOUT)
        if position.offset < 0 or not position.metadata:
            return {}
        return {int(partition): offset for partition, offset in json.loads(position.metadata).items()}

    def write(self, records: Iterable[Replayed]) -> None:
        """Write records and the progress, all or nothing."""
        progress = dict(self.progress)
        try:
            self._producer.begin_transaction()
            for record in records:
                self._produce(record)
                progress[record.source] = record.offset + 1
            self._producer.send_offsets_to_transaction(
                [self._position(progress)], self._consumer.consumer_group_metadata(), _TIMEOUT
            )
            self._producer.commit_transaction(_TIMEOUT)
        except KafkaException as error:
            raise _write_error(self._topic, error, self._failed) from None
        self.progress = progress

    def _produce(self, record: Replayed) -> None:
        where = {"partition": record.partition, "timestamp": record.timestamp_ms, "on_delivery": self._report}
        while True:
            try:
                self._producer.produce(
                    self._topic, record.value, record.key, headers=record.headers or None, **where  # type: ignore[arg-type]
                )
                self._producer.poll(0)
                return
            except BufferError:
                self._producer.poll(0.05)

    def _report(self, error: KafkaError | None, message: Message) -> None:
        if error is not None and self._failed is None:
            self._failed = error

    def _position(self, progress: Mapping[int, int]) -> TopicPartition:
        text = json.dumps(progress, separators=(",", ":"))
        if len(text) > _METADATA:
            raise AmqpError(RESOURCE_LIMIT_EXCEEDED, "the replay has more partitions than Kafka notes the progress of")
        return TopicPartition(self._topic, 0, sum(progress.values()), metadata=text)

    def close(self) -> None:
        """Close the client; nothing is in flight between two writes."""
        self._consumer.close()


def _write_error(topic: str, error: KafkaException, first: KafkaError | None = None) -> AmqpError:
    cause = first or errors.cause_of(error)
    return AmqpError(INTERNAL_ERROR, f"topic {topic} could not be written: {cause.str()}")
