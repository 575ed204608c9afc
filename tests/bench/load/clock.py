"""How long messages take that have no place for a clock reading."""

from __future__ import annotations

from collections import deque
from time import perf_counter_ns
from typing import Final

SAMPLE_EVERY: Final = 64


class Clock:
    """When one of `every` messages was sent: those of clients have no place for it, and a link keeps their order."""

    def __init__(self, every: int = SAMPLE_EVERY) -> None:
        self.every = every
        self._sent: deque[int] = deque()

    def sent(self, number: int) -> None:
        """The sender counts from 0 without gaps."""
        if number % self.every == 0:
            self._sent.append(perf_counter_ns())

    def received(self, number: int) -> int | None:
        """Nanoseconds that the message with this number took, if it is a sample."""
        return None if number % self.every else perf_counter_ns() - self._sent.popleft()
