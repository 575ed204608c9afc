"""How many attempts a second a sink is sent: a token bucket, with time as argument. Pure."""

from __future__ import annotations

from typing import Final


class AttemptRate:
    """Up to `rate` attempts a second, and at once what one second brings (one at least)."""

    __slots__ = ("__weakref__", "_full", "_interval", "_slack")

    def __init__(self, rate: float) -> None:
        self._interval: Final = 1 / rate
        self._slack: Final = (max(1, int(rate)) - 1) / rate
        self._full = 0.0
        """When the bucket will be full again: its whole state."""

    def at(self, now: float) -> float:
        """When the next attempt may be made: `now`, or later."""
        return max(now, self._full - self._slack)

    def take(self, now: float) -> None:
        """An attempt is made."""
        self._full = max(self._full, now) + self._interval
