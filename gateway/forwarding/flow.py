"""The events in flight of a bridge, between its source link and its target link (KM-24).

An event is held until the target has accepted or rejected it. Events that the target releases, or whose link is lost,
are sent again until they are accepted, in the order of the source and before newer ones. The source gets only the final
outcome, because a log would give an event up after some attempts. At most `credit` events are held or requested, and no
more than the target has granted. Sans-IO: the owner has the timers.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol, TypeAlias

from gateway.amqp.link.handlers import Delivery
from gateway.amqp.link.outcomes import Accepted, Modified, Outcome, Rejected, Released
from gateway.routing.event_annotations import Event

_MOST: Final = 64 * 1024 * 1024
"""Bytes held above which no more events are requested."""


Origin: TypeAlias = Delivery
"""The source's own key of an event: a delivery, or the message of a topic."""


class InFlightEvent(NamedTuple):
    """An unfinished event; `origin` is the source's key of it. Compared by `serial`, the order of arrival."""

    serial: int
    event: Event
    origin: Origin
    source: FlowSource


class FlowSource(Protocol):
    """The source link, while it is open."""

    @property
    def granted(self) -> int: ...
    def ask(self, credit: int) -> None: ...
    def settle(self, item: InFlightEvent, outcome: Outcome) -> None: ...


class FlowOwner(Protocol):
    """The bridge."""

    @property
    def valid(self) -> bool: ...
    def later(self, seconds: float, call: Callable[[], None]) -> object: ...
    def moved(self, item: InFlightEvent) -> None: ...
    def repeats(self, item: InFlightEvent, outcome: Outcome) -> None: ...
    def given_up(self, item: InFlightEvent, outcome: Outcome) -> None: ...


class InFlight:
    """The events between two links, either of which may have ended."""

    def __init__(self, owner: FlowOwner, credit: int, pauses: tuple[float, float]) -> None:
        """`pauses`: seconds before released events are sent again: the first and the longest, doubling."""
        self._owner: Final = owner
        self._credit: Final = credit
        self._step: Final = max(1, credit // 4)
        self._first, self._longest = pauses
        self._pause = pauses[0]
        self._paused = False
        self._send: Callable[[InFlightEvent], None] | None = None
        self._source: FlowSource | None = None
        self._room = 0
        self._serial = 0
        self._bytes = 0
        self._fresh: deque[InFlightEvent] = deque()
        self._to_repeat: list[InFlightEvent] = []
        self._sent: dict[int, InFlightEvent] = {}
        self._pumping = False
        self.stopping = False
        """No more events are requested (drain)."""

    @property
    def held(self) -> int:
        """The number of unfinished events."""
        return len(self._sent) + len(self._fresh) + len(self._to_repeat)

    # -- the target

    def target_open(self, send: Callable[[InFlightEvent], None]) -> None:
        """The target link is open; `send` sends an event on it."""
        self._send, self._room = send, 0

    def target_gone(self) -> None:
        """The target link has ended: events without an outcome are sent again on the next one."""
        self._send, self._room = None, 0
        flying, self._sent = self._sent, {}
        for item in flying.values():
            self._back(item)

    @property
    def room(self) -> int:
        """Credit of the target that is not used yet."""
        return self._room

    def credited(self, credit: int) -> None:
        """The target grants `credit` more events."""
        self._room += credit
        self.pump()

    def outcome(self, item: InFlightEvent, outcome: Outcome) -> None:
        """The target's outcome of an event; one that comes after the link has ended is ignored."""
        if self._sent.pop(item.serial, None) is None:
            return
        again = isinstance(outcome, Released) or (isinstance(outcome, Modified) and not outcome.undeliverable)
        if again:
            self._owner.repeats(item, outcome)
            self._back(item)
            self._pause_sending()
        elif isinstance(outcome, Rejected | Modified):
            self._owner.given_up(item, outcome)
            self._finished(item, outcome)
        else:
            if isinstance(outcome, Accepted):
                self._pause = self._first
            self._owner.moved(item)
            self._finished(item, outcome)
        self.pump()

    def _finished(self, item: InFlightEvent, outcome: Outcome) -> None:
        self._bytes -= len(item.event.data)
        item.source.settle(item, outcome)

    def _back(self, item: InFlightEvent) -> None:
        """Send the event again, unless its source link has ended: then the source will send it again."""
        if item.source is self._source:
            heapq.heappush(self._to_repeat, item)
        else:
            self._bytes -= len(item.event.data)

    def _pause_sending(self) -> None:
        if not self._paused:
            self._paused = True
            self._owner.later(self._pause, self._resume)
            self._pause = min(self._pause * 2, self._longest)

    def _resume(self) -> None:
        self._paused = False
        self.pump()

    # -- the source

    def source_open(self, source: FlowSource) -> None:
        """The source link is open."""
        self._source = source
        self._ask()

    def source_gone(self) -> None:
        """The source link has ended: it will send unfinished events again; those at the target stay there."""
        waiting = [*self._fresh, *self._to_repeat]
        self._bytes -= sum(len(item.event.data) for item in waiting)
        self._fresh.clear()
        self._to_repeat.clear()
        self._source = None

    def came(self, source: FlowSource, origin: Origin, event: Event) -> int:
        """An event has come from the source; returns its serial. `pump` forwards it."""
        self._serial += 1
        self._bytes += len(event.data)
        self._fresh.append(InFlightEvent(self._serial, event, origin, source))
        return self._serial

    # -- between

    def pump(self) -> None:
        """Send as many events as the target has credit for, then request more."""
        if self._pumping:
            return
        self._pumping = True
        try:
            while self._room > 0 and not self._paused and self._owner.valid and (item := self._next()) is not None:
                self._room -= 1
                self._sent[item.serial] = item
                assert self._send is not None
                self._send(item)
        finally:
            self._pumping = False
        self._ask()

    def _next(self) -> InFlightEvent | None:
        if self._to_repeat:
            return heapq.heappop(self._to_repeat)
        return self._fresh.popleft() if self._fresh else None

    def _ask(self) -> None:
        """Request events in batches, because a flow frame for each would cost as much as the event."""
        source = self._source
        if source is None or self.stopping or self._bytes >= _MOST:
            return
        requested = source.granted
        waiting = len(self._fresh) + len(self._to_repeat)
        credit = min(self._room - waiting, self._credit - self.held) - requested
        if credit >= self._step or (credit > 0 and not requested):
            source.ask(credit)
