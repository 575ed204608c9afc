"""The position from which a Kafka client fetches one partition (KM-16). Pure, except for the reader's commands."""

from __future__ import annotations

from typing import Final, Protocol

from bridges.kafka.consume.batches import FetchedBatch, PartitionBuffer
from bridges.kafka.consume.reader import PartitionReader

AHEAD: Final = 2
"""Untaken batches with which a position has fetched enough for now."""


class PositionOwner(Protocol):
    """What a fetch position uses of the scheduler that opened it."""

    @property
    def over_limit(self) -> bool: ...
    def count_ahead(self, size: int) -> None: ...
    def advance(self, position: FetchPosition) -> None: ...


class FetchPosition:
    """The next offset that a reader fetches of a partition."""

    __slots__ = (
        "at_end", "buffer", "fetched", "fetched_at_check", "offset", "paused", "reader", "scheduler", "serial",
        "untaken",
    )  # fmt: skip

    def __init__(
        self, scheduler: PositionOwner, buffer: PartitionBuffer, offset: int, reader: PartitionReader, serial: int
    ) -> None:
        """`serial`: number of the reader's command after which its records are from this position."""
        self.scheduler: Final = scheduler
        self.buffer: Final = buffer
        self.offset = offset
        self.reader: Final = reader
        self.serial: Final = serial
        self.untaken: Final[dict[FetchedBatch, None]] = {}
        """Batches that no link has taken yet."""
        self.fetched = 0
        """The number of batches fetched so far."""
        self.fetched_at_check = -1
        self.paused = False
        self.at_end = False

    @property
    def has_enough(self) -> bool:
        """Whether it has fetched enough for now, and no link waits at its offset."""
        enough = 0 if self.scheduler.over_limit else AHEAD
        return len(self.untaken) >= enough and self.offset not in self.buffer.waiting

    def taken(self, batch: FetchedBatch) -> None:
        """A link has taken `batch`."""
        if batch in self.untaken:
            del self.untaken[batch]
            self.scheduler.count_ahead(-batch.size)
        self.scheduler.advance(self)
