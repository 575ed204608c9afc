"""An event that a subscription has not done yet, and lines of dependent events. Pure."""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

from bridges.cloudevents.delivery.answers import Answer
from bridges.cloudevents.events.event import CloudEvent

_ANY: Final = 1 << 30


class Place(NamedTuple):
    """The address, partition and offset of an event."""

    address: str
    partition: int
    offset: int


class EventEntry:
    """One event; `event` is None while only its place is known, and it is read again before it is sent."""

    __slots__ = (
        "event", "failures", "first_failed", "line", "most", "offered", "place", "seen", "sent", "size", "time",
        "tries",
    )  # fmt: skip

    def __init__(self, place: Place, line: Line, offered: float, time: int) -> None:
        """`time` is the timestamp of its record, in milliseconds since 1970."""
        self.place: Final = place
        self.line: Final = line
        self.offered: Final = offered
        self.time: Final = time
        self.event: CloudEvent | None = None
        self.size = 0
        self.sent = 0
        """Number of attempts."""
        self.failures = 0
        """Number of failed attempts, whether the event or the sink was at fault."""
        self.tries = 0
        """Number of failed attempts that count against the event."""
        self.seen = 0
        """Number of events that the sink had accepted at its first attempt, or at its last failure."""
        self.first_failed: float | None = None
        self.most = _ANY
        """Maximum size of a batch that contains it."""


class Line:
    """Dependent events, named by their common key; only the first is sent."""

    __slots__ = ("entries", "name")

    def __init__(self, name: object) -> None:
        self.name: Final = name
        self.entries: Final[deque[EventEntry]] = deque()

    @property
    def head(self) -> EventEntry:
        """The first entry."""
        return self.entries[0]

    @property
    def repeats(self) -> bool:
        """Whether its first event has failed; the events behind it are then not kept in memory."""
        return bool(self.entries) and self.entries[0].failures > 0


class Letter(NamedTuple):
    """An event that the sink refused, or that was given up."""

    place: Place
    event: CloudEvent
    answer: Answer
    attempts: int
