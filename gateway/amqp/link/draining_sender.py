"""How a link on which we send answers a drain (AMQP 1.0 part 2, 2.6.7)."""

from __future__ import annotations

from typing import Self

from cproton_ffi import lib

from gateway.amqp.link.state import LinkState


class DrainingSender(LinkState):
    """A part of `SenderHalf`."""

    __slots__ = ()

    def drained(self: Self) -> None:
        """Answer a drain: no more messages are available (2.6.7)."""
        if self.open:
            self.owed, self.window, self.draining = max(0, lib.pn_link_credit(self.ptr)), 0, False
            if not self.credit_returned():
                self.engine.owes_drain(self)
            self.engine.touch()

    def credit_returned(self) -> bool:
        """Return the credit that a drain has left, and so write its answer; False: this has to be tried after a write.

        proton writes the answer only in the write in which the credit is returned, and only if no message waits any
        more by then. A message may wait for longer than that: for room in the peer's session (2.5.6).
        """
        if not self.open or not self.owed:
            return True
        if self.window > 0 or lib.pn_link_queued(self.ptr):
            return False
        self.counted += lib.pn_link_drained(self.ptr)
        self.owed = 0
        return True

    def keep_owed(self) -> None:
        """A flow has come before a drain was answered: what is owed is used for no message.

        It is nevertheless the peer's: it can take some of it back, or the drain.
        """
        self.owed = max(0, min(self.owed, self.window)) if self.draining else 0
        self.window -= self.owed
        self.draining = self.draining and self.window > 0
