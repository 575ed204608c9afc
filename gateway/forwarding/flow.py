"""What is under way in a bridge: between the link it takes from and the link it sends on (KM-24).

An event is held here until its target has accepted or rejected it; what the target gives back, or loses, is sent
again, in the order of the source and before anything newer, as often as it takes. The source hears the final outcome
alone: told of each attempt, a log would give the event up after some. At most `credit` events are here or asked for,
and no more than the target has granted. Sans-IO: time is the owner's.
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
"""Bytes held above which nothing more is asked for."""


Origin: TypeAlias = Delivery
"""What its source calls an event: the delivery that brought it, or the message of a topic; the flow hands it back."""


class InFlightEvent(NamedTuple):
    """An event under way: `origin` is what its source link knows it by; compared by `serial`, the order of coming."""

    serial: int
    event: Event
    origin: Origin
    source: FlowSource


class FlowSource(Protocol):
    """The link that events come on, while it stands."""

    @property
    def granted(self) -> int: ...
    def ask(self, credit: int) -> None: ...
    def settle(self, item: InFlightEvent, outcome: Outcome) -> None: ...


class FlowOwner(Protocol):
    """Whose flow it is."""

    @property
    def valid(self) -> bool: ...
    def later(self, seconds: float, call: Callable[[], None]) -> object: ...
    def moved(self, item: InFlightEvent) -> None: ...
    def repeats(self, item: InFlightEvent, outcome: Outcome) -> None: ...
    def given_up(self, item: InFlightEvent, outcome: Outcome) -> None: ...


class InFlight:
    """The events between two links, either of which may be gone."""

    def __init__(self, owner: FlowOwner, credit: int, pauses: tuple[float, float]) -> None:
        """`pauses`: seconds before what came back is sent again, and the most they grow to by doubling."""
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
        self._again: list[InFlightEvent] = []
        self._flying: dict[int, InFlightEvent] = {}
        self._pumping = False
        self.stopping = False
        """Nothing new is asked for (drain)."""

    @property
    def held(self) -> int:
        """Events that are here and not done with."""
        return len(self._flying) + len(self._fresh) + len(self._again)

    # -- the target

    def target_open(self, send: Callable[[InFlightEvent], None]) -> None:
        """The target takes the link: `send` gives it an event."""
        self._send, self._room = send, 0

    def target_gone(self) -> None:
        """What it has not answered is sent again to the next one."""
        self._send, self._room = None, 0
        flying, self._flying = self._flying, {}
        for item in flying.values():
            self._back(item)

    @property
    def room(self) -> int:
        """What the target has granted and not got yet."""
        return self._room

    def credited(self, credit: int) -> None:
        """The target takes `credit` more."""
        self._room += credit
        self.pump()

    def outcome(self, item: InFlightEvent, outcome: Outcome) -> None:
        """The target's word on an event; a late one, of a target that is gone, says nothing any more."""
        if self._flying.pop(item.serial, None) is None:
            return
        again = isinstance(outcome, Released) or (isinstance(outcome, Modified) and not outcome.undeliverable)
        if again:
            self._owner.repeats(item, outcome)
            self._back(item)
            self._hold_on()
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
        """To be sent again; what the source itself will bring again is not."""
        if item.source is self._source:
            heapq.heappush(self._again, item)
        else:
            self._bytes -= len(item.event.data)

    def _hold_on(self) -> None:
        if not self._paused:
            self._paused = True
            self._owner.later(self._pause, self._go_on)
            self._pause = min(self._pause * 2, self._longest)

    def _go_on(self) -> None:
        self._paused = False
        self.pump()

    # -- the source

    def source_open(self, source: FlowSource) -> None:
        """Events can be asked for."""
        self._source = source
        self._ask()

    def source_gone(self) -> None:
        """It brings again what is not done with; what the target has by now it has."""
        waiting = [*self._fresh, *self._again]
        self._bytes -= sum(len(item.event.data) for item in waiting)
        self._fresh.clear()
        self._again.clear()
        self._source = None

    def came(self, source: FlowSource, origin: Origin, event: Event) -> int:
        """An event of the source; returns its serial. `pump` sends it on."""
        self._serial += 1
        self._bytes += len(event.data)
        self._fresh.append(InFlightEvent(self._serial, event, origin, source))
        return self._serial

    # -- between

    def pump(self) -> None:
        """Send what the target takes, then ask for as much as it takes beyond that."""
        if self._pumping:
            return
        self._pumping = True
        try:
            while self._room > 0 and not self._paused and self._owner.valid and (item := self._next()) is not None:
                self._room -= 1
                self._flying[item.serial] = item
                assert self._send is not None
                self._send(item)
        finally:
            self._pumping = False
        self._ask()

    def _next(self) -> InFlightEvent | None:
        if self._again:
            return heapq.heappop(self._again)
        return self._fresh.popleft() if self._fresh else None

    def _ask(self) -> None:
        """In lots: a flow for each event would cost as much as the event."""
        source = self._source
        if source is None or self.stopping or self._bytes >= _MOST:
            return
        under_way = source.granted
        waiting = len(self._fresh) + len(self._again)
        credit = min(self._room - waiting, self._credit - self.held) - under_way
        if credit >= self._step or (credit > 0 and not under_way):
            source.ask(credit)
