"""The interface of Kafka records, whichever client fetched them."""

from __future__ import annotations

from typing import Protocol

from bridges.kafka.records.envelope import Header


class KafkaRecord(Protocol):
    """A record without an error: `_fetch.Record`, and the `Message` of confluent-kafka."""

    def key(self) -> bytes | None: ...
    def value(self) -> bytes | None: ...
    def headers(self) -> list[Header] | None: ...
    def partition(self) -> int: ...
    def offset(self) -> int: ...
    def timestamp(self) -> tuple[int, int]:
        """Its type (`decode.CREATE_TIME` and so on) and the milliseconds since 1970."""

    def __len__(self) -> int:
        """Bytes of its value."""
