"""An offset of one partition that a Kafka client fetches from (KM-16). Pure but for the reader's commands."""

from __future__ import annotations

from typing import Final, Protocol

from bridges.kafka.consume.batches import FetchedBatch, PartitionBuffer
from bridges.kafka.consume.reader import PartitionReader

AHEAD: Final = 2
"""Batches that no link has taken yet from which on a position has fetched enough for now."""


class PositionOwner(Protocol):
    """What a fetch position asks of the scheduler that opened it."""

    @property
    def over_limit(self) -> bool: ...
    def count_ahead(self, size: int) -> None: ...
    def advance(self, position: FetchPosition) -> None: ...


class FetchPosition:
    """An offset of a partition that a reader fetches from, and moves forward."""

    __slots__ = (
        "at_end", "buffer", "fetched", "fetched_at_check", "offset", "paused", "reader", "scheduler", "serial",
        "untaken",
    )  # fmt: skip

    def __init__(
        self, scheduler: PositionOwner, buffer: PartitionBuffer, offset: int, reader: PartitionReader, serial: int
    ) -> None:
        """`serial`: of the reader's command from which on its records are from this position."""
        self.scheduler: Final = scheduler
        self.buffer: Final = buffer
        self.offset = offset
        self.reader: Final = reader
        self.serial: Final = serial
        self.untaken: Final[dict[FetchedBatch, None]] = {}
        """Batches that no link has taken yet."""
        self.fetched = 0
        """Batches so far."""
        self.fetched_at_check = -1
        self.paused = False
        self.at_end = False

    @property
    def has_enough(self) -> bool:
        """Whether it has fetched enough for now, and no link waits for what comes next."""
        enough = 0 if self.scheduler.over_limit else AHEAD
        return len(self.untaken) >= enough and self.offset not in self.buffer.waiting

    def taken(self, batch: FetchedBatch) -> None:
        """A link has come as far as `batch`."""
        if batch in self.untaken:
            del self.untaken[batch]
            self.scheduler.count_ahead(-batch.size)
        self.scheduler.advance(self)
