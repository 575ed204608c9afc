"""What all connections of a loop share: when their output is written, and the account of what they hold."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from gateway.held.accounts import Budget
from gateway.held.container import DEFAULT

if TYPE_CHECKING:
    from gateway.amqp.connection import Connection


Step = TypeVar("Step", bound=Callable[..., None])
_STEPS: Final = 0.005
"""Seconds of a turn of the loop for steps of long work."""


def guarded(step: Step) -> Step:
    """Let a step of a connection that fails cost this connection, and neither others nor who called it."""

    @wraps(step)
    def run(connection: Connection, *args: Any) -> None:
        try:
            step(connection, *args)
        except Exception as error:
            connection.hub.failed(connection, error)

    return cast(Step, run)


class Hub:
    """Flushes, once per loop turn, every connection that has output."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        budget: Budget | None = None,
        slowed: Callable[[Connection, str], None] = lambda connection, how: None,
    ) -> None:
        """`budget`: where what connections hold is charged; `slowed` hears who has to wait, and how."""
        self.loop: Final = loop
        self.budget: Final = budget or Budget(DEFAULT)
        self.slowed: Final = slowed
        self._dirty: list[Connection] = []
        self._steps: deque[Callable[[], None]] = deque()

    def soon(self, step: Callable[[], None]) -> None:
        """Take a short step in a later turn: all such steps together take a few milliseconds of one."""
        if not self._steps:
            self.loop.call_soon(self._step)
        self._steps.append(step)

    def _step(self) -> None:
        until, steps = time.monotonic() + _STEPS, self._steps
        try:
            while steps:
                steps[0]()
                steps.popleft()
                if time.monotonic() >= until:
                    break
        except BaseException:
            steps.popleft()
            raise
        finally:
            if steps:
                self.loop.call_soon(self._step)

    def add(self, connection: Connection) -> None:
        if not self._dirty:
            self.loop.call_soon(self._flush)
        self._dirty.append(connection)

    def _flush(self) -> None:
        dirty, self._dirty = self._dirty, []
        for connection in dirty:
            connection.flush()

    def failed(self, connection: Connection, error: Exception) -> None:
        """Say so, and end the connection."""
        told = {"message": f"connection {connection.name}", "exception": error, "connection": connection.name}
        self.loop.call_exception_handler(told)
        connection.broken()
