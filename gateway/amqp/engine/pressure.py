"""Charges the memory of one connection once a turn of the loop, and slows its peer down if it is too much.

A peer that sends too much is read slowly, a piece at a time, so that its outcomes, heartbeats and detaches still
arrive. Above its limit its messages are refused (`Engine.refusing`). A peer that does not read its socket, or does not
settle, is sent nothing more (`Engine.choke`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from gateway.held.account import LINK, SMALL, Account, HeldBytes, Level
from gateway.held.logs import COPIES

if TYPE_CHECKING:
    from gateway.amqp.engine.engine import Engine

_PAUSE: Final = 0.1
_LONGEST: Final = 1.6
"""The first and the longest pause in seconds between two pieces that are read of a slowed peer; it doubles."""
_LATE: Final = 1.0
"""Seconds after which what has changed too little to be charged at once is charged."""
_AT_ONCE: Final = 2 * 2**20
"""Maximum bytes of messages that are sent to a peer before they are written and charged."""


class Pressure:
    """Charges an account, and slows its peer down."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        engine: Engine,
        account: Account,
        transport: asyncio.Transport,
        slowed: Callable[[str], None],
        listen: Callable[[], None],
    ) -> None:
        """`slowed` is called with the way in which the peer is slowed down, `listen` when `paused` has changed."""
        self._loop: Final = loop
        self._engine: Final = engine
        self.account: Final = account
        self._transport: Final = transport
        self._slowed: Final = slowed
        self._listen: Final = listen
        self._seen = -SMALL
        self._unread = 0
        self._timer: asyncio.TimerHandle | None = None
        self._late: asyncio.TimerHandle | None = None
        self.paused = self._slow = False
        self._wait = _PAUSE
        self._allow()

    def turn(self, unread: int) -> None:
        """Charge what has changed; cheap if that is little. `unread`: bytes that wait for the engine."""
        engine, self._unread = self._engine, unread
        moved = engine.weigh() + engine.unfinished + self._transport.get_write_buffer_size()
        # Twice: what was unread and is received now has changed, as has what was unsettled and is kept now.
        moved += LINK * engine.table.count + 2 * engine.kept + 2 * unread
        if self._timer is not None or not -SMALL < moved - self._seen < SMALL:
            self._seen = moved
            self._charge(unread)
            self._pause(self._slow and not engine.config.shared)  # a container that many share is still read
        elif self._late is None:
            self._late = self._loop.call_later(_LATE, self._charge_late)
        if engine.blocked:
            engine.unblock()  # what was sent is charged

    def _charge(self, unread: int) -> None:
        engine, tally, account = self._engine, self._engine.tally, self.account
        waiting, buffer = self._transport.get_write_buffer_size(), engine.largest_output
        held = HeldBytes(
            received=tally.in_bytes,
            unfinished=tally.unread + engine.unfinished + unread,
            unsettled=tally.out_bytes + engine.forsaken,
            events=tally.out_data,
            output=tally.unwritten + waiting + (buffer if waiting else 0),  # a piece goes when all of it is sent
            kept=engine.kept,
            links=engine.table.count,
            received_deliveries=tally.in_count,
            unsettled_deliveries=tally.out_count,
        )
        account.charge(held, buffer)
        self._allow()
        self._restrain_reading(account.reading)
        self._restrain_sending(account.sending, account.keeping)
        self._look_later(bool(account.reading or account.keeping))  # `keeping` is never below `sending`

    def _allow(self) -> None:
        """Set how much may be sent until the next charge: at least one message."""
        self._engine.tally.write_limit = max(min(_AT_ONCE, self.account.room // COPIES), 1)

    def _restrain_reading(self, reading: Level) -> None:
        engine = self._engine
        slow = reading is not Level.FREE
        if slow is not self._slow:
            self._slow = slow
            engine.withhold(slow)
            if slow:
                self._slowed("reading")
        engine.refusing = engine.ending or reading is Level.REFUSE

    def _restrain_sending(self, sending: Level, keeping: Level) -> None:
        engine = self._engine
        choked, stuffed = sending is not Level.FREE, keeping is not Level.FREE
        if stuffed and not engine.stuffed:
            self._slowed("sending")
        if choked is not engine.choked:
            engine.choke(choked)
        if stuffed is not engine.stuffed:
            engine.stuff(stuffed)

    def _look_later(self, restrained: bool) -> None:
        if restrained and self._timer is None:
            self._timer = self._loop.call_later(self._wait, self._look)
            self._wait = min(2 * self._wait, _LONGEST)
        elif self._timer is None:
            self._wait = _PAUSE

    def _charge_late(self) -> None:
        """Charge what no larger change has followed: gauges are behind by a second at most."""
        self._late = None
        if not self._transport.is_closing():
            self._seen = -SMALL  # so that `turn` charges
            self.turn(self._unread)

    def _pause(self, paused: bool) -> None:
        if paused is not self.paused:
            self.paused = paused
            self._listen()

    def _look(self) -> None:
        """Check again: others may have freed memory, and another piece may be read."""
        self._timer = None
        if self._transport.is_closing():
            return
        self._pause(False)
        self._charge(0)

    def close(self) -> None:
        """The connection has ended."""
        for timer in (self._timer, self._late):
            if timer is not None:
                timer.cancel()
