"""Positions in an event log: offsets as symbols, and bounds of what a link may read (ES 5.1, 5.2).

Offsets are symbols that compare bytewise. Because ours are fixed-width decimals, every literal, even a foreign one,
splits the log at one number (`first_after`), so that a reader can begin there. `event_log` reads positions in
filters.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

FILTER_NAME: Final = "amqp:event-streams-delivery-annotations-filter"
FILTER_CODE: Final = 0x200
OFFSET: Final = "event-streams-offset"
TIMESTAMP: Final = "event-streams-timestamp"
EARLIEST: Final = "@earliest"
LATEST: Final = "@latest"

NEVER: Final = 1 << 63
"""One more than the greatest offset: as `first_offset` it matches no event."""
_WIDTH: Final = 20


def offset_symbol(offset: int) -> str:
    """The offset as a symbol whose bytewise order is that of the log (KM-2)."""
    return f"{offset:0{_WIDTH}d}"


class Start(Enum):
    """The lower bound of the events to be considered."""

    EARLIEST = "earliest"
    LATEST = "latest"


class LogPosition(NamedTuple):
    """The conjunction of a link's position filters.

    `LATEST` is resolved once, when the attach is processed (ledger A3); `first_offset` and `after_ms`
    hold for every event (ES-5.2-5).
    """

    start: Start = Start.LATEST
    first_offset: int = 0
    after_ms: int | None = None
    end_offset: int = NEVER
    """No event from this offset on can match: a reader that reaches it is done with this link."""

    def matches(self, offset: int, timestamp_ms: int) -> bool:
        """Whether the event at `offset` may be delivered."""
        inside = self.first_offset <= offset < self.end_offset
        return inside and (self.after_ms is None or timestamp_ms > self.after_ms)

    def first(self, low: int, high: int) -> int:
        """The offset to start at in a partition that retains [low, high)."""
        if self.start is Start.LATEST:
            return high
        return min(max(low, self.first_offset), high)

    def narrow(self, other: LogPosition) -> LogPosition:
        """The conjunction of both positions: filters of one set are ANDed (ES-5.2-2)."""
        latest = Start.LATEST in (self.start, other.start)
        times = [time for time in (self.after_ms, other.after_ms) if time is not None]
        return LogPosition(
            Start.LATEST if latest else Start.EARLIEST,
            max(self.first_offset, other.first_offset),
            max(times, default=None),
            min(self.end_offset, other.end_offset),
        )


def first_after(literal: str) -> int:
    """The smallest offset whose symbol is greater than `literal` bytewise, NEVER when there is none."""
    return first_from(literal + "\0")  # no text sorts between a text and that text with the least character appended


def first_from(literal: str) -> int:
    """The smallest offset whose symbol is `literal` or greater bytewise, NEVER when there is none."""
    wanted = literal.encode("utf-8", "surrogatepass")
    low, high = 0, NEVER
    while low < high:
        middle = (low + high) // 2
        if offset_symbol(middle).encode() >= wanted:
            high = middle
        else:
            low = middle + 1
    return low
