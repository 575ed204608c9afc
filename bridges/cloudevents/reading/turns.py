"""Turns of the subscriptions of a manager: a batch wakes all that read it, and the loop has other work, too."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

_TURN: Final = 0.002
"""Seconds of each turn of the loop in which subscriptions are worked on."""


class PushTurns:
    """Steps that wait for their turn, first come first served."""

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        """`clock`: seconds; the loop's unless a test has its own."""
        self._clock: Final = clock
        self._waiting: Final[deque[Callable[[], None]]] = deque()
        self._asked = False

    def add(self, step: Callable[[], None]) -> None:
        """Take `step`, which raises nothing, soon."""
        self._waiting.append(step)
        self._ask()

    def _ask(self) -> None:
        if not self._asked:
            self._asked = True
            asyncio.get_running_loop().call_soon(self._run)

    def _run(self) -> None:
        self._asked = False
        clock = self._clock or asyncio.get_running_loop().time
        until = clock() + _TURN
        while self._waiting and clock() < until:
            self._waiting.popleft()()
        if self._waiting:
            self._ask()
