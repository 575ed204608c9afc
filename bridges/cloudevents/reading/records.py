"""Records of a batch, by offset, and the memory of their events (pure)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

from bridges.cloudevents.events.event import CloudEvent
from bridges.kafka.records.record import KafkaRecord

_OVERHEAD: Final = 512
"""Approximate memory of an event beyond its record's value, in bytes."""


def size_of(event: CloudEvent) -> int:
    """Approximate memory of an event, in bytes."""
    return _OVERHEAD + (0 if event.record is None else len(event.record))


def offset_of(record: KafkaRecord) -> int:
    """The key by which records of a batch are in order."""
    return record.offset()


def record_at(records: Sequence[KafkaRecord], offset: int) -> KafkaRecord | None:
    """The record at an offset; None if the batch has none there."""
    at = bisect_left(records, offset, key=offset_of)
    return records[at] if at < len(records) and records[at].offset() == offset else None
