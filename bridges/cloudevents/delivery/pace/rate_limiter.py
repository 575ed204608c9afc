"""Limits the attempts per second at a sink: a token bucket, with time as an argument. Pure."""

from __future__ import annotations

from typing import Final


class AttemptRateLimiter:
    """Up to `rate` attempts per second, with a burst of one second's attempts (at least one)."""

    __slots__ = ("__weakref__", "_full_at", "_interval", "_slack")

    def __init__(self, rate: float) -> None:
        self._interval: Final = 1 / rate
        self._slack: Final = (max(1, int(rate)) - 1) / rate
        self._full_at = 0.0
        """When the bucket will be full again; this is its whole state."""

    def next_allowed(self, now: float) -> float:
        """When the next attempt is allowed: `now`, or later."""
        return max(now, self._full_at - self._slack)

    def take(self, now: float) -> None:
        """Register an attempt."""
        self._full_at = max(self._full_at, now) + self._interval
