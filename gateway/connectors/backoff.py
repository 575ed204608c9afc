"""The pauses between connections to a container (`backoff` of a connector)."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

LASTS: Final = 5.0
"""Seconds that a connection has to be open so that the next pause is the shortest again.

A container that takes each connection and ends it at once is as unusable as one that takes none, and must not be
connected to many times a second.
"""


class ReconnectPauses:
    """Doubles the pause after each connection that failed or did not last."""

    def __init__(self, low: float, high: float, share: Callable[[float, float], float] = random.uniform) -> None:
        """Seconds of the shortest and the longest pause; each is shortened at random, by half at most."""
        self._low: Final = low
        self._high: Final = high
        self._share: Final = share
        self._pause = low

    def after(self, seconds: float) -> float:
        """The pause after a connection that was open for so many seconds; 0: it never was."""
        self._pause = self._low if seconds >= LASTS else min(self._pause * 2, self._high)
        return self._pause * self._share(0.5, 1.0)
