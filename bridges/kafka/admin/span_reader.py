"""Reads the records of many spans of a topic's offsets in one pass, for jobs outside the gateway; blocking.

A client reads each partition from its first span to its last. It reads on to the next span if that is near, and seeks
it otherwise, so that thousands of spans cost as much as the records between them, or some milliseconds each.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from bridges.kafka.admin.reading import READING
from bridges.kafka.common.librdkafka import ClientSettings
from bridges.kafka.consume.poll import Failure, poller_for
from bridges.kafka.records.record import KafkaRecord

Span = tuple[int, int, int]
"""A partition and its offsets [start, end)."""
_READING: Final[ClientSettings] = {
    **READING,
    "group.id": "scopegate-offsets",
    "max.partition.fetch.bytes": 256 << 10,  # what a seek throws away
    "queued.max.messages.kbytes": 16 << 10,
}
_NEAR: Final = 1 << 20
"""Bytes that are read and dropped in less time than a seek takes."""
_MOST: Final = 20_000
_PATIENCE: Final = 30.0
"""Seconds without a record or an end after which Kafka does not answer."""


def read_spans(
    settings: ClientSettings, topic: str, spans: Iterable[Span], most: int | None = None
) -> Iterator[tuple[Span, Sequence[KafkaRecord]]]:
    """The committed records in these spans, which must not overlap, in the order of each partition.

    A span comes as often as needed for all its records, or for its first `most`; one without a record does not. Raises
    `KafkaException`, and `TimeoutError` if Kafka does not answer.
    """
    left: dict[int, list[Span]] = {}
    for span in sorted(spans, reverse=True):
        left.setdefault(span[0], []).append(span)
    if not left:
        return
    settings = {**settings, **_READING}
    consumer = Consumer(settings)
    try:
        yield from _SpanReader(consumer, topic, left, most).read(settings)
    finally:
        consumer.close()


class _SpanReader:
    """The spans of each partition that are not read yet, the next one last."""

    def __init__(self, consumer: Consumer, topic: str, left: dict[int, list[Span]], most: int | None) -> None:
        self._consumer: Final = consumer
        self._topic: Final = topic
        self._left: Final = left
        self._most: Final = most
        self._positions: Final = {partition: own[-1][1] for partition, own in left.items()}
        self._taken: Final = dict.fromkeys(left, 0)
        """Number of records of each partition's next span that were yielded."""

    def read(self, settings: ClientSettings) -> Iterator[tuple[Span, Sequence[KafkaRecord]]]:
        poll = poller_for(settings)
        self._consumer.assign([TopicPartition(self._topic, *each) for each in self._positions.items()])
        deadline = time.monotonic() + _PATIENCE
        while self._left:
            found = poll(self._consumer, _MOST, 1.0)
            for (_, partition), records in found.records.items():
                if partition in self._left:
                    yield from self._in_spans(partition, records)
            if any(list(map(self._ended, found.failures))) or found.records:
                deadline = time.monotonic() + _PATIENCE
            elif time.monotonic() > deadline:
                raise TimeoutError

    def _in_spans(
        self, partition: int, records: Sequence[KafkaRecord]
    ) -> Iterator[tuple[Span, Sequence[KafkaRecord]]]:
        own, at = self._left[partition], _index(records, self._positions[partition])
        end = records[-1].offset() + 1
        while own and own[-1][1] < end:
            span = own[-1]
            first, at = max(at, _index(records, span[1])), _index(records, span[2])
            last = at if self._most is None else min(at, first + self._most - self._taken[partition])
            self._taken[partition] += last - first
            if first < last:
                yield span, [records[number] for number in range(first, last)]
            if span[2] > end and self._taken[partition] != self._most:
                break
            own.pop()
            self._taken[partition] = 0
        self._go_on(partition, max(end, self._positions[partition]), len(records[-1]))

    def _go_on(self, partition: int, position: int, size: int) -> None:
        """Read the next span of the partition: `size` is that of a record before it."""
        own = self._left[partition]
        if own and (own[-1][1] - position) * (size + _OVERHEAD) > _NEAR:
            position = own[-1][1]
            self._consumer.seek(TopicPartition(self._topic, partition, position))
        self._positions[partition] = position
        if not own:
            self._end(partition)

    def _ended(self, failure: Failure) -> bool:
        """Whether a partition has no more records. Raises `KafkaException` for an error that is no end."""
        code = failure.error.code()
        if code == KafkaError._PARTITION_EOF:
            if failure.partition in self._left:
                self._end(failure.partition)
            return True
        # The group is required by the client, but not used. Connections are made again.
        if code != KafkaError.GROUP_AUTHORIZATION_FAILED and (failure.topic is not None or code >= 0):
            raise KafkaException(failure.error)
        return False

    def _end(self, partition: int) -> None:
        del self._left[partition]
        self._consumer.pause([TopicPartition(self._topic, partition)])


_OVERHEAD: Final = 32
"""Bytes of a record besides its value, at least."""


def _index(records: Sequence[KafkaRecord], offset: int) -> int:
    """The number of records before an offset."""
    return bisect_left(records, offset, key=lambda record: record.offset())
