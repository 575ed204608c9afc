"""The interfaces between the parts of `consume`: fetched batches, selections of their events, and waiting links.

Pure: no Kafka client, no clock, no thread.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Protocol

from bridges.kafka.consume.filters.record_filter import RecordFilter
from bridges.kafka.records.event import EncodedEvent
from bridges.kafka.records.record import KafkaRecord
from gateway.errors import AmqpError


class Batch(Protocol):
    """Consecutive records of one partition, as a selection uses them."""

    @property
    def records(self) -> Sequence[KafkaRecord]:
        """All records, in the order of the log."""

    @property
    def routed(self) -> bool:
        """Whether any message of the partition so far had annotations of response routing."""

    def events(self) -> list[EncodedEvent]:
        """All records, encoded."""

    def event(self, record: KafkaRecord) -> EncodedEvent:
        """Encode one of the records."""

    def selected(self, selection: Selection | None) -> list[EncodedEvent]:
        """The events that `selection` selects, in the order of the log; None: all."""


class Selection(Hashable, Protocol):
    """Which records of a partition a link receives; links with equal selections share the result."""

    def select(self, batch: Batch) -> list[EncodedEvent]:
        """The events of `batch` that match, encoded, in the order of the log."""

    def shared_key(self) -> FilterSelection | None:
        """The filter, if it can be evaluated in one pass with those of other links; None: it cannot."""


class FilterSelection(Selection, Protocol):
    """A selection by a message filter."""

    @property
    def filter(self) -> RecordFilter: ...


class PartitionSelections(Protocol):
    """The selection for each partition of a link; `Selections` implements it."""

    def of(self, partition: int) -> Selection | None:
        """None: every event."""


class Waiter(Protocol):
    """A link that reads a partition. Its methods must not raise, because other links are notified after it."""

    def arrived(self, partition: int) -> None:
        """There is a batch with the position at which the link waits."""

    def lost(self, partition: int, low: int) -> None:
        """Retention has deleted the events before offset `low` (KM-8)."""

    def failed(self, error: AmqpError) -> None:
        """The partition cannot be read."""
