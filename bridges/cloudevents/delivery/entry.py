"""An event that a subscription has under way, and the events that follow each other. Pure."""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

from bridges.cloudevents.delivery.answers import Answer
from bridges.cloudevents.events.event import CloudEvent

_ANY: Final = 1 << 30


class Place(NamedTuple):
    """Where an event lies."""

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
        """`time`: of its record, in milliseconds since 1970."""
        self.place: Final = place
        self.line: Final = line
        self.offered: Final = offered
        self.time: Final = time
        self.event: CloudEvent | None = None
        self.size = 0
        self.sent = 0
        """How often it was sent."""
        self.failures = 0
        """How often that failed, whoever's fault it was."""
        self.tries = 0
        """The failures that count against the event."""
        self.seen = 0
        """How many events the sink had taken when it was sent first, or has failed last."""
        self.first_failed: float | None = None
        self.most = _ANY
        """The largest batch that it may be in."""


class Line:
    """Events that follow each other, named by what they have in common; only the first is sent."""

    __slots__ = ("entries", "name")

    def __init__(self, name: object) -> None:
        self.name: Final = name
        self.entries: Final[deque[EventEntry]] = deque()

    @property
    def head(self) -> EventEntry:
        """The one whose turn it is."""
        return self.entries[0]

    @property
    def repeats(self) -> bool:
        """Whether its first event has failed: those behind it are not kept in memory."""
        return bool(self.entries) and self.entries[0].failures > 0


class Letter(NamedTuple):
    """An event that the sink does not want, or that was given up."""

    place: Place
    event: CloudEvent
    answer: Answer
    attempts: int
