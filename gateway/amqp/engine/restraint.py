"""Restrains a peer that holds too much: withholds credit, sends nothing, or refuses its messages.

`pressure` decides; the engine measures what proton holds and applies the decision.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, ClassVar, Final

from gateway.amqp.engine.drains import Drains
from gateway.amqp.proton import batch
from gateway.held.alive import ALIVE

if TYPE_CHECKING:
    from gateway.amqp.engine.dispatcher import Dispatcher
    from gateway.amqp.engine.echoes import Echoes
    from gateway.amqp.engine.input import Input
    from gateway.amqp.engine.output import Output
    from gateway.amqp.engine.sessions import Sessions
    from gateway.amqp.engine.table import LinkTable
    from gateway.amqp.link.config import CallSoon
    from gateway.amqp.link.link import Link
    from gateway.amqp.proton.handles import ProtonEvent

_OVERFULL = 8 * 1024 * 1024
"""Bytes queued in all sessions above which links stop sending until the peer reads some."""

_RESUMED_AT_ONCE: Final = 100
"""Links that resume in one turn of the loop."""


class Restraint(ABC):
    """A part of the engine."""

    _alive: ClassVar = ALIVE
    _soon: CallSoon | None
    _sessions: Sessions
    table: LinkTable
    _output: Output
    _echoes: Echoes
    _dispatcher: Dispatcher
    _input: Input
    _table: dict[int, Callable[[ProtonEvent], None]]
    _work: Iterator[bool] = iter(())
    oversize: deque[Callable[[], None]]
    paused = blocked = refusing = choked = stuffed = withholding = ending = False
    """The socket is full; nothing may be sent; messages are refused; the peer has too much to settle; too much is kept
    for it; no credit; the gateway takes no more messages."""

    def __init__(self) -> None:
        self._alive.count += 1
        self.granting = True
        self.tally: Final = batch.Tally()  # what the deliveries of this connection take
        self._withheld: set[Link] = set()
        self._held_up: Final[OrderedDict[Link, None]] = OrderedDict()
        self._drains: Final = Drains()
        self._to_resume = 0  # how many may still resume since nothing was blocked any more
        self.unfinished = self.largest_output = 0
        """Bytes of incomplete messages that were read from proton; the largest output so far, which is the size of the
        buffer that proton keeps."""
        self.kept = 0
        """Bytes of released events of logs."""
        self.forsaken = 0
        """Bytes of messages without outcome on links that we have detached and the peer has not."""

    def __del__(self) -> None:
        self._alive.count -= 1

    @abstractmethod
    def touch(self) -> None:
        """There may be output to write."""

    def begin(self, then: Callable[[], None]) -> None:
        """Begin a session for links of ours; `then` is called when the peer has begun it, too."""
        self._sessions.begin(then)
        self.touch()

    def abandon(self, link: Link) -> None:
        """Nobody waits any more for the answer to an attach of ours."""
        self.table.abandon(link)

    def abandoned(self, most: int) -> tuple[int, int] | None:
        """See `LinkTable.abandoned`."""
        return self.table.abandoned(most)

    def weigh(self) -> int:
        """Measure what proton holds, at least once a turn (`tally`); returns that and the unsettled bytes."""
        found = batch.measure_memory(self.tally, self._sessions.addresses, len(self._output.early))
        if self.tally.unwritten > _OVERFULL:
            self.blocked = True
        return found + self.forsaken

    def pause(self, paused: bool) -> None:
        """The socket is full, or has room again: then the links resume."""
        self.paused = paused
        if paused:
            self.blocked = True
        else:
            self.unblock()
            self.touch()

    def unblock(self) -> None:
        """Let the links send again if nothing blocks them any more."""
        was, self.blocked = self.blocked, self._stopped()
        if was and not self.blocked:
            self._go_on()

    def _stopped(self) -> bool:
        return self.paused or self.choked or self.tally.unwritten > _OVERFULL or self.tally.full

    def _go_on(self) -> None:
        """Let the waiting links send in order, until enough is sent for now."""
        self._to_resume = len(self._held_up)
        self._ask_some()

    def _ask_some(self) -> None:
        held_up, soon = self._held_up, self._soon
        for _ in range(self._to_resume if soon is None else min(self._to_resume, _RESUMED_AT_ONCE)):
            if self.blocked or not held_up:
                self._to_resume = 0
                return
            self._to_resume -= 1
            held_up.popitem(last=False)[0].flowed()
        if self._to_resume and soon is not None:
            soon(self._ask_some)

    def hold_up(self, link: Link) -> None:
        """Let `link` resume when nothing blocks it any more."""
        self._held_up[link] = None

    def owes_drain(self, link: Link) -> None:
        """`link` answers a drain as soon as its messages are written."""
        self._drains.links[link] = None

    def sends_no_more(self, link: Link) -> None:
        """`link` has ended."""
        self._held_up.pop(link, None)

    def release(self, link: Link) -> None:
        """Nothing will come on `link` any more: forget it, and let it break its circles of references."""
        self.sends_no_more(link)
        self._withheld.discard(link)
        self._drains.links.pop(link, None)
        self._echoes.forget(link)
        self._output.attached(link)
        if self._dispatcher.last_flow is link:
            self._dispatcher.last_flow = None
        link.release()

    def forget(self) -> None:
        """The connection is freed: break the circles of references. Links that nodes still hold have ended.

        They may ask what holds them up: nothing does, and what is held up would never be asked again.
        """
        self.blocked = self.stuffed = self.withholding = False
        self.oversize.clear()
        self._table.clear()
        self._work = iter(())
        del self._dispatcher, self._input

    def choke(self, on: bool) -> None:
        """Stop or resume sending: the peer has too much unread or unsettled."""
        self.choked = on
        self.blocked = self.blocked or on
        if not on:
            self.unblock()
            self.touch()

    def stuff(self, on: bool) -> None:
        """Stop or resume sending new events of logs: the peer has released too many."""
        self.stuffed = on
        if not on and not self.blocked:
            self._go_on()

    def stop_granting(self) -> None:
        """Grant no more credit (drain)."""
        self.granting = False

    def stop_taking(self) -> None:
        """Release messages that come from now on (the end of a drain), so that nothing is left half done."""
        self.ending = self.refusing = True

    def withhold(self, on: bool) -> None:
        """Withhold credit from the peer; grant it afterwards."""
        self.withholding = on
        if not on:
            withheld, self._withheld = self._withheld, set()
            for link in withheld:
                link.grant_withheld()

    def withholds(self, link: Link) -> bool:
        """Whether `link` must withhold credit."""
        if self.withholding:
            self._withheld.add(link)
        return self.withholding
