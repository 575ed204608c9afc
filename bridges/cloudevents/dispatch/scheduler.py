"""Schedules the delivery workers of a manager: a batch wakes all its readers, but other work of the loop must go on."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

_TIME_SLICE: Final = 0.002
"""Maximum seconds of work on subscriptions per iteration of the loop."""


class StepScheduler:
    """Steps in the order in which they were added."""

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        """`clock` returns seconds; by default, it is that of the loop."""
        self._clock: Final = clock
        self._waiting: Final[deque[Callable[[], None]]] = deque()
        self._scheduled = False

    def add(self, step: Callable[[], None]) -> None:
        """Schedule `step`, which must not raise."""
        self._waiting.append(step)
        self._schedule()

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._run)

    def _run(self) -> None:
        self._scheduled = False
        clock = self._clock or asyncio.get_running_loop().time
        until = clock() + _TIME_SLICE
        while self._waiting and clock() < until:
            self._waiting.popleft()()
        if self._waiting:
            self._schedule()
