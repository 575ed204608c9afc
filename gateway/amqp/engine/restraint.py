"""What an engine does with a peer that holds too much: grants it less, sends it nothing, refuses what it sends.

`pressure` decides it; the engine only weighs what proton has, and keeps what was decided.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from gateway.amqp.engine import batch

if TYPE_CHECKING:
    from gateway.amqp.engine.config import CallSoon
    from gateway.amqp.engine.output import Output
    from gateway.amqp.engine.sessions import Sessions
    from gateway.amqp.link.link import Link
    from gateway.amqp.link.table import LinkTable

_OVERFULL = 8 * 1024 * 1024
"""Bytes queued in all sessions above which their links send no more until the peer takes some."""

_ASKED: Final = 100
"""Links that go on before others have their turn of the loop."""


class Restraint(ABC):
    """A part of the engine."""

    _soon: CallSoon | None

    _sessions: Sessions
    _attached: LinkTable
    _output: Output
    paused = blocked = refusing = choked = stuffed = withholding = ending = False
    """The socket is full; nothing may be sent; messages are refused; the peer has too much to settle; too much is kept
    for it; no credit; the gateway takes no more messages."""

    def __init__(self) -> None:
        self.granting = True
        self.tally: Final = batch.Tally()  # what the deliveries of this connection take
        self._withheld: set[Link] = set()
        self._held_up: Final[OrderedDict[Link, None]] = OrderedDict()
        self._asked = 0  # how many of them still have their turn since all could go on
        self.unfinished = self.largest_output = 0
        """Bytes of messages that are not complete and were taken from proton; and what was written at once at most:
        proton keeps a buffer of that size."""
        self.kept = 0
        """Bytes of events of logs that the peer gave back."""

    @abstractmethod
    def touch(self) -> None:
        """There may be output to write."""

    @property
    def link_count(self) -> int:
        """Links that take memory: attached, or refused and not detached."""
        return self._attached.count

    def weigh(self) -> int:
        """Ask proton what it has, at least once a turn (`tally`); returns that and what has no outcome, in bytes."""
        found = batch.weigh(self.tally, self._sessions.addresses, len(self._output.early))
        if self.tally.unwritten > _OVERFULL:
            self.blocked = True
        return found

    def pause(self, paused: bool) -> None:
        """The socket is full, or has room again: then the links go on."""
        self.paused = paused
        if paused:
            self.blocked = True
        else:
            self.unblock()
            self.touch()

    def unblock(self) -> None:
        """Let the links send again if nothing stands against it any more."""
        was, self.blocked = self.blocked, self._stopped()
        if was and not self.blocked:
            self._go_on()

    def _stopped(self) -> bool:
        return self.paused or self.choked or self.tally.unwritten > _OVERFULL or self.tally.full

    def _go_on(self) -> None:
        """Let each link send that waits for it, in the order of waiting, until enough is sent for now."""
        self._asked = len(self._held_up)
        self._ask_some()

    def _ask_some(self) -> None:
        held_up, soon = self._held_up, self._soon
        for _ in range(self._asked if soon is None else min(self._asked, _ASKED)):
            if self.blocked or not held_up:
                self._asked = 0
                return
            self._asked -= 1
            held_up.popitem(last=False)[0].flowed()
        if self._asked and soon is not None:
            soon(self._ask_some)

    def hold_up(self, link: Link) -> None:
        """`link` may not send though it wants to: it goes on when nothing stands against it any more."""
        self._held_up[link] = None

    def sends_no_more(self, link: Link) -> None:
        """`link` has ended."""
        self._held_up.pop(link, None)

    def choke(self, on: bool) -> None:
        """Send nothing for now: what the peer has not taken or not settled is too much."""
        self.choked = on
        self.blocked = self.blocked or on
        if not on:
            self.unblock()
            self.touch()

    def stuff(self, on: bool) -> None:
        """Send nothing new of logs for now: what the peer gave back of them is too much."""
        self.stuffed = on
        if not on and not self.blocked:
            self._go_on()

    def stop_granting(self) -> None:
        """Give peers no more credit: what comes now is what they may still send (drain)."""
        self.granting = False

    def stop_taking(self) -> None:
        """Release what comes from now on (the end of a drain): it is not begun, so that nothing is left half done."""
        self.ending = self.refusing = True

    def withhold(self, on: bool) -> None:
        """Give the peer no credit for now; what was to be granted meanwhile is granted afterwards."""
        self.withholding = on
        if not on:
            withheld, self._withheld = self._withheld, set()
            for link in withheld:
                link.grant_withheld()

    def withholds(self, link: Link) -> bool:
        """Whether `link` has to keep what it was to grant."""
        if self.withholding:
            self._withheld.add(link)
        return self.withholding
