"""Kafka records and events of them, without a broker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bridges.cloudevents.events.event import CloudEvent, event_of
from bridges.kafka.records.envelope import Header

ADDRESS = "events/orders"
REQUIRED = {"specversion": "1.0", "id": "a-1", "source": "/shop/1", "type": "com.example.order.created"}


@dataclass
class StoredRecord:
    """A record as a client of Kafka returns it."""

    headers_: list[Header] | None
    value_: bytes | None
    key_: bytes | None = None
    partition_: int = 0
    offset_: int = 0
    time: int = 1_700_000_000_000

    def key(self) -> bytes | None:
        return self.key_

    def value(self) -> bytes | None:
        return self.value_

    def headers(self) -> list[Header] | None:
        return self.headers_

    def partition(self) -> int:
        return self.partition_

    def offset(self) -> int:
        return self.offset_

    def timestamp(self) -> tuple[int, int]:
        return 1, self.time

    def __len__(self) -> int:
        return len(self.value_ or b"")


def binary_record(
    attributes: Mapping[str, str], data: bytes | None = b"{}", content_type: str | None = "application/json"
) -> StoredRecord:
    """The record of an event in binary mode."""
    headers: list[Header] = [(f"ce_{name}", value.encode()) for name, value in attributes.items()]
    if content_type is not None:
        headers.append(("content-type", content_type.encode()))
    return StoredRecord(headers, data)


def structured_record(body: bytes, media: bytes = b"application/cloudevents+json") -> StoredRecord:
    """The record of an event in structured mode."""
    return StoredRecord([("content-type", media)], body)


def event(**attributes: str) -> CloudEvent:
    """An event with the required attributes and these; `datacontenttype` is its content type."""
    content_type = attributes.pop("datacontenttype", None)
    found = event_of(binary_record(REQUIRED | attributes, content_type=content_type), ADDRESS, wrap=False)
    assert found is not None
    return found
