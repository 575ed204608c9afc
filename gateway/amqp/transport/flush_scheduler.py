"""Schedules the work of all connections of an event loop: slices of input, output, and memory accounts.

A turn of the loop is short however many connections there are: input, and all other long work, is processed in slices
(round robin), for a few milliseconds in total.
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
    from gateway.amqp.link.config import PeerInfo


P = ParamSpec("P")
ConnectionT = TypeVar("ConnectionT", bound="FlushedConnection")
_TURN: Final = 0.002
"""Seconds in a turn of the loop for new input, and as many for steps of long work."""


class FlushedConnection(Protocol):
    """What the scheduler uses of a connection (`connection.Connection`)."""

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
    """Decorates a step of a connection: an error ends the connection, and does not affect others or the caller."""

    @wraps(step)
    def run(connection: ConnectionT, /, *args: P.args, **kwargs: P.kwargs) -> None:
        try:
            step(connection, *args, **kwargs)
        except Exception as error:
            connection.hub.failed(connection, error)

    return run


class FlushScheduler:
    """Flushes every connection that has output, once per turn of the loop."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        budget: Budget | None = None,
        slowed: Callable[[FlushedConnection, str], None] = lambda connection, how: None,
    ) -> None:
        """`budget`: the accounts of connections.

        `slowed` is called with each connection that is slowed down, and how.
        """
        self.loop: Final = loop
        self.budget: Final = budget or Budget(DEFAULT)
        self.slowed: Final = slowed
        self._dirty: list[FlushedConnection] = []
        self._steps: deque[Callable[[], None]] = deque()
        self._scheduled = False
        self._until = 0.0

    def soon(self, step: Callable[[], None]) -> None:
        """Schedule a short call for a later turn: all of them together take a few milliseconds of one turn."""
        self._steps.append(step)
        self._ask()

    def run(self, step: Callable[[], None]) -> None:
        """Call at once if this turn has time left and no call waits; else as `soon`."""
        self._steps.append(step)
        if len(self._steps) == 1 and self.free():
            self._take_steps(self._until)
        else:
            self._ask()

    def free(self) -> bool:
        """Whether this turn has time left for new input."""
        if (until := self._until) != 0:
            return time.monotonic() < until
        self._until = time.monotonic() + _TURN
        return True

    def _ask(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self.loop.call_soon(self._step)

    def _step(self) -> None:
        self._scheduled, self._until = False, 0.0
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
        """Write and charge all output now."""
        dirty, self._dirty, self._until = self._dirty, [], 0.0
        for connection in dirty:
            try:
                connection.write_out()
            except Exception as error:
                self.failed(connection, error)

    def failed(self, connection: FlushedConnection, error: Exception) -> None:
        """Report the failure to the loop's exception handler, and end the connection."""
        context = {"message": f"connection {connection.name}", "exception": error, "connection": connection.name}
        self.loop.call_exception_handler(context)
        connection.broken()
