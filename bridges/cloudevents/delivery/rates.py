"""Limits the attempts per second at a sink: a token bucket, with time as an argument. Pure."""

from __future__ import annotations

from typing import Final


class AttemptRate:
    """Up to `rate` attempts per second, with a burst of one second's attempts (at least one)."""

    __slots__ = ("__weakref__", "_full", "_interval", "_slack")

    def __init__(self, rate: float) -> None:
        self._interval: Final = 1 / rate
        self._slack: Final = (max(1, int(rate)) - 1) / rate
        self._full = 0.0
        """When the bucket will be full again; this is its whole state."""

    def at(self, now: float) -> float:
        """When the next attempt is allowed: `now`, or later."""
        return max(now, self._full - self._slack)

    def take(self, now: float) -> None:
        """Register an attempt."""
        self._full = max(self._full, now) + self._interval
