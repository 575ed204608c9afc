"""Limits requests for consent, so that a manager cannot be used to flood sinks. Pure: time is an argument."""

from __future__ import annotations

from collections import deque
from typing import Final

MINUTE: Final = 60.0
PER_USER: Final = 50
PER_HOST: Final = 10
_PRUNE_FROM: Final = 10_000
"""Users and hosts from which on those without a request in the last minute are forgotten."""


class ConsentRateLimiter:
    """Counts the requests of one minute by user and by host."""

    def __init__(self) -> None:
        self._requests: Final[dict[tuple[str, str], deque[float]]] = {}

    def take(self, user: str, host: str, now: float) -> float | None:
        """Count a request; returns None if it is allowed, otherwise the seconds until the next one is."""
        counted = [(self._recent(("user", user), now), PER_USER), (self._recent(("host", host), now), PER_HOST)]
        waits = [times[0] + MINUTE - now for times, most in counted if len(times) >= most]
        if waits:
            return max(waits)
        for times, _ in counted:
            times.append(now)
        return None

    def _recent(self, key: tuple[str, str], now: float) -> deque[float]:
        if key not in self._requests and len(self._requests) >= _PRUNE_FROM:
            self._prune(now)
        times = self._requests.setdefault(key, deque())
        while times and times[0] <= now - MINUTE:
            times.popleft()
        return times

    def _prune(self, now: float) -> None:
        for key in [key for key, times in self._requests.items() if not times or times[-1] <= now - MINUTE]:
            del self._requests[key]
