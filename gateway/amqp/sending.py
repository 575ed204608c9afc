"""The half of a link on which we send: credit, transfers, the peer's outcomes (AMQP 1.0 part 2, 2.6.7 to 2.6.12)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from cproton_ffi import lib

from gateway.amqp import dispositions
from gateway.amqp.link_base import LinkBase
from gateway.amqp.outcomes import ACCEPTED

_RECEIVED: Final = lib.PN_RECEIVED
# Looked up once: an attribute of `lib` costs as much as a short call, and these are called per message.
_deliver, _send, _advance = lib.pn_delivery, lib.pn_link_send, lib.pn_link_advance
_settle: Final = lib.pn_delivery_settle


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
        pointer, engine = self.ptr, self.engine
        self.window -= 1
        self.transfers += 1
        engine.serial = serial = engine.serial + 1
        engine.tag_bytes[0] = serial
        delivery = _deliver(pointer, engine.tag)
        _send(pointer, data, len(data))
        _advance(pointer)
        if settled or self.presettled:
            _settle(delivery)
            if not settled:
                self.handler.on_outcome(context, ACCEPTED)
        else:
            engine.unsettled[delivery] = (self, context)
        if not engine.dirty:
            engine.touch()

    def send_all(self, messages: Sequence[Any]) -> None:
        """`send` for several messages that there is credit for: each begins with its bytes and is its own context."""
        engine, pointer, unsettled = self.engine, self.ptr, None if self.presettled else self.engine.unsettled
        tag, tag_bytes, serial = engine.tag, engine.tag_bytes, engine.serial
        for message in messages:
            data = message[0]
            serial += 1
            tag_bytes[0] = serial
            delivery = _deliver(pointer, tag)
            _send(pointer, data, len(data))
            if unsettled is None:
                _settle(delivery)  # it advances the link, too
            else:
                _advance(pointer)
                unsettled[delivery] = (self, message)
        engine.serial = serial
        self.window -= len(messages)
        self.transfers += len(messages)
        engine.touch()
        if unsettled is None:
            on_outcome = self.handler.on_outcome
            for message in messages:
                on_outcome(message, ACCEPTED)

    def updated(self, delivery: Any, context: Any, state: int) -> bool:
        """The peer said something else than accepted: settle and pass the outcome on; False: no outcome yet."""
        if (not state or state == _RECEIVED) and not lib.pn_delivery_settled(delivery):
            return False
        outcome = dispositions.read(delivery, state)
        _settle(delivery)
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
