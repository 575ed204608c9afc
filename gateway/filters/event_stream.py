"""The event-stream position filter: where a receive link on an event log starts, and what it skips (ES 5).

A source filter described by `amqp:event-streams-delivery-annotations-filter` (0x200) over a map of
`event-streams-offset` and `event-streams-timestamp`; an event matches when its own value is strictly
greater (ES 5.2.1). Offsets are symbols that compare bytewise. Because ours are fixed-width decimals, every
literal, even a foreign one, splits the log at one number (`first_after`), so no event needs a comparison of
strings. Pure: positions in, positions out.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, Final, NamedTuple

from gateway.amqp.types import Described, Long, Timestamp
from gateway.errors import INVALID_FIELD, AmqpError

FILTER_NAME: Final = "amqp:event-streams-delivery-annotations-filter"
FILTER_CODE: Final = 0x200
OFFSET: Final = "event-streams-offset"
TIMESTAMP: Final = "event-streams-timestamp"
EARLIEST: Final = "@earliest"
LATEST: Final = "@latest"

NEVER: Final = 1 << 63
"""One more than the greatest offset: as `first_offset` it matches no event."""
_WIDTH: Final = 20
_LONG_TYPES: Final = (Timestamp, Long, int)


def offset_symbol(offset: int) -> str:
    """KM-2: the offset in the form whose bytewise order is the order of the log."""
    return f"{offset:0{_WIDTH}d}"


class Start(Enum):
    """What bounds the first event to be considered."""

    EARLIEST = "earliest"
    LATEST = "latest"


class Position(NamedTuple):
    """The conjunction of a link's position filters.

    `LATEST` is resolved once, when the attach is processed (ledger A3); `first_offset` and `after_ms`
    hold for every event (ES-5.2-5).
    """

    start: Start = Start.LATEST
    first_offset: int = 0
    after_ms: int | None = None
    end_offset: int = NEVER
    """No event from here on can match: a reader that is there has nothing more to read for this link."""

    def matches(self, offset: int, timestamp_ms: int) -> bool:
        """Whether the event at `offset` may be delivered."""
        inside = self.first_offset <= offset < self.end_offset
        return inside and (self.after_ms is None or timestamp_ms > self.after_ms)

    def first(self, low: int, high: int) -> int:
        """Where to begin in a partition that retains [low, high)."""
        if self.start is Start.LATEST:
            return high
        return min(max(low, self.first_offset), high)

    def narrow(self, other: Position) -> Position:
        """Both at once: filters of one set are ANDed (ES-5.2-2)."""
        latest = Start.LATEST in (self.start, other.start)
        times = [time for time in (self.after_ms, other.after_ms) if time is not None]
        return Position(
            Start.LATEST if latest else Start.EARLIEST,
            max(self.first_offset, other.first_offset),
            max(times, default=None),
            min(self.end_offset, other.end_offset),
        )


class Parsed(NamedTuple):
    """What a source's filter set means to an event log: `in_force` is the echo of CORE-3."""

    position: Position
    in_force: dict[Any, Any]


def parse(filters: Mapping[Any, Any]) -> Parsed:
    """Read the position filters of a filter set; other types are left out of `in_force`.

    Raises INVALID_FIELD with `filter` naming the entry for anything malformed: a filter dropped in
    silence would flood the consumer.
    """
    found: Position | None = None
    in_force: dict[Any, Any] = {}
    for name, value in filters.items():
        if value is None:
            continue
        if not isinstance(value, Described):
            raise _malformed(name, "a filter is a described value (AMQP 3.5.8)")
        if _is_position_filter(value.descriptor):
            position = _position(name, value.value)
            found = position if found is None else found.narrow(position)
            in_force[name] = value
    return Parsed(Position() if found is None else found, in_force)


def first_after(literal: str) -> int:
    """The smallest offset whose symbol is greater than `literal` bytewise, NEVER when there is none."""
    return first_from(literal + "\0")  # nothing lies between a text and itself with the least character behind it


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


def _is_position_filter(descriptor: object) -> bool:
    if isinstance(descriptor, int):
        return not isinstance(descriptor, bool) and descriptor == FILTER_CODE
    return descriptor == FILTER_NAME


def _position(name: object, content: object) -> Position:
    if not isinstance(content, dict):
        raise _malformed(name, "the value of the event-stream filter is a map")
    position = Position(Start.EARLIEST)
    for key, value in content.items():
        if key == OFFSET:
            position = position.narrow(_after_offset(name, value))
        elif key == TIMESTAMP:
            position = position.narrow(_after_time(name, value))
        else:
            raise _malformed(name, f"only {OFFSET} and {TIMESTAMP} may be filtered on here (ES 5.2.1)")
    return position


def _after_offset(name: object, value: object) -> Position:
    if not isinstance(value, str):
        raise _malformed(name, f"{OFFSET} is a symbol")
    if value == LATEST:
        return Position(Start.LATEST)
    return Position(Start.EARLIEST, 0 if value == EARLIEST else first_after(value))


def _after_time(name: object, value: object) -> Position:
    if type(value) not in _LONG_TYPES:
        raise _malformed(name, f"{TIMESTAMP} is a timestamp")
    return Position(Start.EARLIEST, 0, int(value))  # type: ignore[call-overload]


def _malformed(name: object, why: str) -> AmqpError:
    return AmqpError(INVALID_FIELD, f"filter {str(name)[:100]!r}: {why}", info={"filter": str(name)[:100]})
