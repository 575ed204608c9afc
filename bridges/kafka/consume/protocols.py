"""What the parts of `consume` know of each other: fetched batches, the selections made of them, and their readers.

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
    """Consecutive records of one partition, as a selection sees them."""

    @property
    def records(self) -> Sequence[KafkaRecord]:
        """All of them, in the order of the log."""

    @property
    def routed(self) -> bool:
        """Whether some message of the partition so far had annotations of response routing."""

    def event(self, record: KafkaRecord) -> EncodedEvent:
        """One of the records, encoded."""

    def selected(self, selection: Selection | None) -> list[EncodedEvent]:
        """The events that `selection` wants, in the order of the log; None wants all of them."""


class Selection(Hashable, Protocol):
    """Which records of a partition a link wants; links with equal selections share the result."""

    def select(self, batch: Batch) -> list[EncodedEvent]:
        """The events of `batch` that match, encoded, in the order of the log."""

    def shared_key(self) -> FilterSelection | None:
        """The filter that can be evaluated in one pass with those of other links; None: there is none."""


class FilterSelection(Selection, Protocol):
    """A selection by a message filter."""

    @property
    def filter(self) -> RecordFilter: ...


class PartitionSelections(Protocol):
    """What a link wants of each of its partitions; `Selections` is one."""

    def of(self, partition: int) -> Selection | None:
        """None: every event."""


class Waiter(Protocol):
    """A link that reads a partition. It raises nothing: other links are notified after it."""

    def arrived(self, partition: int) -> None:
        """A batch is there that holds the position the link waited at."""

    def lost(self, partition: int, low: int) -> None:
        """Retention has deleted the events before offset `low` (KM-8)."""

    def failed(self, error: AmqpError) -> None:
        """The partition cannot be read."""
