"""Schedules the ticks of a connection: for its heartbeats, and for the idle time-out (AMQP 1.0 part 2, 2.4.5).

proton counts the time to a heartbeat from the tick that notices output, however long ago that was written. So output is
followed by a tick within an eighth of the peer's time-out: a heartbeat is late by no more than that. A connection that
writes only heartbeats is ticked when proton asks for it, twice in that time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from gateway.errors import NOT_ALLOWED, AmqpError

if TYPE_CHECKING:
    from gateway.amqp.engine.engine import Engine

_FIRST: Final = 0.01
"""Seconds from the open to the first tick, and at least between two ticks."""
_LEAST: Final = 0.1
"""Minimum idle time-out of a peer in seconds: heartbeats for less would be late, and cost too much."""
_PART: Final = 8
HEARTBEAT: Final = 8
"""Bytes of an empty frame; nothing else that is written is as small."""


class Heartbeats:
    """The ticks of one connection; `resting`: the next one may be too late for output that is written now."""

    __slots__ = ("_look", "_loop", "_timer", "resting")

    def __init__(self, loop: asyncio.AbstractEventLoop, look: Callable[[], None]) -> None:
        """`look` must call `looked`."""
        self._loop: Final = loop
        self._look: Callable[[], None] | None = look
        self._timer: asyncio.TimerHandle | None = None
        self.resting = False

    def begin(self, engine: Engine) -> None:
        """The connection is open: tick soon. Raises AmqpError if the peer's idle time-out is too short."""
        if 0 < engine.remote_idle < _LEAST:
            wanted, least = round(engine.remote_idle * 1000), round(_LEAST * 1000)
            raise AmqpError(NOT_ALLOWED, f"idle-time-out is {wanted} ms; the gateway keeps {least} ms or more, or none")
        self._next(_FIRST)

    def looked(self, engine: Engine, unheard: bool = False) -> None:
        """Tick now, and schedule the next tick; `unheard`: what the peer has sent still waits for the engine."""
        now = int(self._loop.time() * 1000)
        deadline = engine.tick(now, unheard)
        if engine.closed or deadline <= 0:
            return
        self.resting = engine.remote_idle > 0
        self._next((deadline - now) / 1000)

    def wrote(self, engine: Engine) -> None:
        """More than a heartbeat was written: schedule an earlier tick, so that proton notices it."""
        self.resting = False
        if not engine.closed:
            self.stop()
            self._next(engine.remote_idle / _PART)

    def stop(self, final: bool = False) -> None:
        """Stop ticking; `final`: for ever, so that the connection, whose look this is, can be freed."""
        if final:
            self._look = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _next(self, seconds: float) -> None:
        if self._look is not None:
            self._timer = self._loop.call_later(max(seconds, _FIRST), self._look)
