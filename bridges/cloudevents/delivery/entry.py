"""An event whose delivery is not finished, and groups of events that are delivered in order. Pure."""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

from bridges.cloudevents.delivery.answers import Answer
from bridges.cloudevents.events.event import CloudEvent
from bridges.cloudevents.model.values import Order

_UNLIMITED: Final = 1 << 30


class EventLocation(NamedTuple):
    """The address, partition and offset of an event."""

    address: str
    partition: int
    offset: int


def ordering_key(order: Order, event: CloudEvent, location: EventLocation) -> object:
    """What the event has in common with those that it depends on."""
    if order == "partition":
        return location[:2]
    return location if order == "none" or event.key is None else (*location[:2], event.key)


class EventEntry:
    """One event; `event` is None while only its location is known, and it is read again before it is sent."""

    __slots__ = (
        "accepted_before", "attempts", "event", "event_failures", "failures", "first_failed", "group", "location",
        "max_batch", "offered_at", "size", "timestamp",
    )  # fmt: skip

    def __init__(self, location: EventLocation, group: OrderingGroup, offered_at: float, timestamp: int) -> None:
        """`timestamp` is that of its record, in milliseconds since 1970."""
        self.location: Final = location
        self.group: Final = group
        self.offered_at: Final = offered_at
        self.timestamp: Final = timestamp
        self.event: CloudEvent | None = None
        self.size = 0
        self.attempts = 0
        """Number of attempts."""
        self.failures = 0
        """Number of failed attempts, whether the event or the sink was at fault."""
        self.event_failures = 0
        """Number of failed attempts that count against the event."""
        self.accepted_before = 0
        """Number of events that the sink had accepted at its first attempt, or at its last failure."""
        self.first_failed: float | None = None
        self.max_batch = _UNLIMITED
        """Maximum size of a batch that contains it."""


class OrderingGroup:
    """Dependent events with a common key; only the first is sent."""

    __slots__ = ("entries", "key")

    def __init__(self, key: object) -> None:
        self.key: Final = key
        self.entries: Final[deque[EventEntry]] = deque()

    @property
    def first(self) -> EventEntry:
        """The first entry."""
        return self.entries[0]

    @property
    def is_retrying(self) -> bool:
        """Whether its first event has failed; the events behind it are then not kept in memory."""
        return bool(self.entries) and self.entries[0].failures > 0


class DeadLetter(NamedTuple):
    """An event that the sink refused, or whose delivery was given up."""

    location: EventLocation
    event: CloudEvent
    answer: Answer
    attempts: int
