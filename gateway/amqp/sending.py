"""The half of a link on which we send: credit, transfers, the peer's outcomes (AMQP 1.0 part 2, 2.6.7 to 2.6.12)."""

from __future__ import annotations

import sys
from typing import Any, Final

from cproton_ffi import ffi, lib

from gateway.amqp import dispositions, turn
from gateway.amqp.link_base import LinkBase
from gateway.amqp.outcomes import ACCEPTED, SETTLED

_RECEIVED: Final = lib.PN_RECEIVED


class Sending(LinkBase):
    """What a link does when we send."""

    __slots__ = ()

    @property
    def credit(self) -> int:
        """What may be sent now: the peer's credit, 0 while its socket or session is full."""
        return 0 if self.engine.blocked else self.window

    def send(self, data: bytes, context: Any, settled: bool = False) -> None:
        """Send one message; `context` comes back with its outcome (not when `settled`).

        A receiver that asked for settled messages gives no outcome; that it got the message is all it wants to
        say, and a sender that waits for an outcome must hear one: accepted (KM-12 reads a missing state so too).
        """
        engine, silent = self.engine, settled or self.presettled
        self.window -= 1
        self.transfers += 1
        engine.serial = serial = engine.serial + 1
        turn.send(self.at, serial, data, silent)
        if not silent:
            engine.unsettled[serial] = (self, context)
        elif not settled:
            self.handler.on_outcome(context, ACCEPTED)
        if not engine.dirty:
            engine.touch()

    def send_all(self, messages: list[Any]) -> None:
        """`send` for several messages that there is credit for: each begins with its bytes and is its own context."""
        engine, silent = self.engine, self.presettled
        engine.serial = turn.send_all(self.at, engine.serial, messages, self, None if silent else engine.unsettled)
        self.window -= len(messages)
        self.transfers += len(messages)
        engine.touch()
        if silent:
            self.accepted_all(messages)

    def accepted_all(self, contexts: list[Any]) -> None:
        """The peer has accepted several deliveries of this link, or will say nothing about them."""
        handler = self.handler
        if self.hears_several:
            handler.on_accepted(contexts)
            return
        for context in contexts:
            handler.on_outcome(context, ACCEPTED)

    @property
    def hears_several(self) -> bool:
        """Whether the handler itself has `on_accepted`; one that it is wrapped in may want each outcome."""
        return hasattr(type(self.handler), "on_accepted")

    def number(self, delivery: Any) -> int:
        """By which number `engine.unsettled` has a delivery: its tag."""
        tag = lib.pn_delivery_tag(delivery)
        return int.from_bytes(ffi.buffer(tag.start, tag.size), sys.byteorder)

    def updated(self, delivery: Any, context: Any, state: int) -> bool:
        """The peer said something else than accepted: settle and pass the outcome on; False: no outcome yet."""
        if (not state or state == _RECEIVED) and not lib.pn_delivery_settled(delivery):
            return False
        outcome = dispositions.read(delivery, state)
        if outcome is SETTLED:
            outcome = self.unsaid
        lib.pn_delivery_settle(delivery)
        engine = self.engine
        if not engine.dirty:
            engine.touch()
        if self.open:
            self.handler.on_outcome(context, outcome)
        return True

    def drained(self) -> None:
        """Answer a drain: all that could be sent has been sent (2.6.7)."""
        if self.open:
            lib.pn_link_drained(self.ptr)
            self.window = 0
            self.draining = False
            self.engine.touch()

    def take_unsettled(self) -> list[Any]:
        """The contexts whose outcome will never come, oldest first; for `on_detach`."""
        if self._orphans is None:
            return self.engine.take_unsettled(self)
        orphans, self._orphans = self._orphans, None
        return orphans

    def orphan(self, context: Any) -> None:
        """Keep a context for `take_unsettled` while the whole connection ends."""
        if self._orphans is None:
            self._orphans = []
        self._orphans.append(context)
