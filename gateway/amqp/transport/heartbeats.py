"""When a connection looks at the time: for its heartbeats, and for the silence of its peer (AMQP 1.0 part 2, 2.4.5).

proton counts the time to a heartbeat from the look that notices output, however long ago that was written. So what is
written is followed by a look within an eighth of the peer's time-out: a heartbeat is late by no more than that. A
connection that writes only heartbeats is looked at when proton wants it, twice in that time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from gateway.errors import NOT_ALLOWED, AmqpError

if TYPE_CHECKING:
    from gateway.amqp.engine.engine import Engine

_FIRST: Final = 0.01
"""Seconds from the open to the first look, and between two looks at least."""
_LEAST: Final = 0.1
"""Seconds of silence that a peer has to bear: heartbeats for less could not be kept in time, and cost too much."""
_PART: Final = 8
HEARTBEAT: Final = 8
"""Bytes of an empty frame; nothing else that is written is as small."""


class Heartbeats:
    """The looks at one connection; `resting`: the next may be later than what is written now allows."""

    __slots__ = ("_look", "_loop", "_timer", "resting")

    def __init__(self, loop: asyncio.AbstractEventLoop, look: Callable[[], None]) -> None:
        """`look` is to come back with `looked`."""
        self._loop: Final = loop
        self._look: Final = look
        self._timer: asyncio.TimerHandle | None = None
        self.resting = False

    def begin(self, engine: Engine) -> None:
        """The connection is open: look soon. Raises AmqpError where the peer bears too little silence."""
        if 0 < engine.remote_idle < _LEAST:
            asked, least = round(engine.remote_idle * 1000), round(_LEAST * 1000)
            raise AmqpError(NOT_ALLOWED, f"idle-time-out is {asked} ms; the gateway keeps {least} ms or more, or none")
        self._next(_FIRST)

    def looked(self, engine: Engine) -> None:
        """Look now, and say when to look again."""
        now = int(self._loop.time() * 1000)
        deadline = engine.tick(now)
        if engine.closed or deadline <= 0:
            return
        self.resting = engine.remote_idle > 0
        self._next((deadline - now) / 1000)

    def wrote(self, engine: Engine) -> None:
        """More than a heartbeat was written during the rest: proton has to hear of it before its time."""
        self.resting = False
        if not engine.closed:
            self.stop()
            self._next(engine.remote_idle / _PART)

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _next(self, seconds: float) -> None:
        self._timer = self._loop.call_later(max(seconds, _FIRST), self._look)
