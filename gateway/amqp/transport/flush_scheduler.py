"""What all connections of a loop share: its turns, when output is written, and the account of what they hold.

A turn of the loop is short however many connections there are: their input, and all other long work, is handled in
pieces that take turns (round robin), for a few milliseconds together.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Concatenate, Final, ParamSpec, Protocol, TypeVar

from gateway.held.account import Account, Budget
from gateway.held.container import DEFAULT

if TYPE_CHECKING:
    from gateway.amqp.engine.config import PeerInfo


P = ParamSpec("P")
ConnectionT = TypeVar("ConnectionT", bound="FlushedConnection")
_TURN: Final = 0.002
"""Seconds of a turn of the loop for what has just been read of sockets, and as much for steps of long work."""


class FlushedConnection(Protocol):
    """A connection as its scheduler sees it (`connection.Connection`)."""

    @property
    def hub(self) -> FlushScheduler: ...
    @property
    def name(self) -> str: ...
    @property
    def peer(self) -> PeerInfo: ...
    @property
    def account(self) -> Account | None: ...
    def write_out(self) -> None: ...
    def broken(self) -> None: ...


def guarded(step: Callable[Concatenate[ConnectionT, P], None]) -> Callable[Concatenate[ConnectionT, P], None]:
    """A step of a connection that fails ends this connection; neither others nor the caller notice."""

    @wraps(step)
    def run(connection: ConnectionT, /, *args: P.args, **kwargs: P.kwargs) -> None:
        try:
            step(connection, *args, **kwargs)
        except Exception as error:
            connection.hub.failed(connection, error)

    return run


class FlushScheduler:
    """Flushes, once per loop turn, every connection that has output."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        budget: Budget | None = None,
        slowed: Callable[[FlushedConnection, str], None] = lambda connection, how: None,
    ) -> None:
        """`budget`: where what connections hold is charged; `slowed` hears who has to wait, and how."""
        self.loop: Final = loop
        self.budget: Final = budget or Budget(DEFAULT)
        self.slowed: Final = slowed
        self._dirty: list[FlushedConnection] = []
        self._steps: deque[Callable[[], None]] = deque()
        self._asked = False
        self._until = 0.0

    def soon(self, step: Callable[[], None]) -> None:
        """Take a short step in a later turn: all such steps together take a few milliseconds of one."""
        self._steps.append(step)
        self._ask()

    def run(self, step: Callable[[], None]) -> None:
        """`soon`, or at once where nobody has to wait and this turn has time left."""
        self._steps.append(step)
        if len(self._steps) == 1 and self.free():
            self._take_steps(self._until)
        else:
            self._ask()

    def free(self) -> bool:
        """Whether this turn has time left for what is read of sockets in it."""
        if (until := self._until) != 0:
            return time.monotonic() < until
        self._until = time.monotonic() + _TURN
        return True

    def _ask(self) -> None:
        if not self._asked:
            self._asked = True
            self.loop.call_soon(self._step)

    def _step(self) -> None:
        self._asked, self._until = False, 0.0
        self._take_steps(time.monotonic() + _TURN)

    def _take_steps(self, until: float) -> None:
        steps = self._steps
        try:
            while steps:
                steps.popleft()()
                if time.monotonic() >= until:
                    break
        finally:
            if steps:
                self._ask()

    def add(self, connection: FlushedConnection) -> None:
        if not self._dirty:
            self.loop.call_soon(self.flush)
        self._dirty.append(connection)

    def flush(self) -> None:
        """Write what there is now, and charge it."""
        dirty, self._dirty, self._until = self._dirty, [], 0.0
        for connection in dirty:
            try:
                connection.write_out()
            except Exception as error:
                self.failed(connection, error)

    def failed(self, connection: FlushedConnection, error: Exception) -> None:
        """Report the failure to the loop's exception handler, and end the connection."""
        told = {"message": f"connection {connection.name}", "exception": error, "connection": connection.name}
        self.loop.call_exception_handler(told)
        connection.broken()
