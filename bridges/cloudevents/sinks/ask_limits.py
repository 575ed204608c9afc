"""How often sinks are asked for their consent, so that the manager is no flood by itself. Pure: time is an argument."""

from __future__ import annotations

from collections import deque
from typing import Final

MINUTE: Final = 60.0
OF_USER: Final = 50
TO_HOST: Final = 10
_KEPT: Final = 10_000
"""Users and hosts that are remembered; more than that in a minute are too many in all."""


class AskLimits:
    """Questions of one minute, by user and by host."""

    def __init__(self) -> None:
        self._asked: Final[dict[tuple[str, str], deque[float]]] = {}

    def take(self, user: str, host: str, now: float) -> float | None:
        """Count a question; None: it may be put. Otherwise the seconds until the next one may."""
        counted = [(self._of(("user", user), now), OF_USER), (self._of(("host", host), now), TO_HOST)]
        waits = [times[0] + MINUTE - now for times, most in counted if len(times) >= most]
        if waits:
            return max(waits)
        for times, _ in counted:
            times.append(now)
        return None

    def _of(self, key: tuple[str, str], now: float) -> deque[float]:
        if key not in self._asked and len(self._asked) >= _KEPT:
            self._forget(now)
        times = self._asked.setdefault(key, deque())
        while times and times[0] <= now - MINUTE:
            times.popleft()
        return times

    def _forget(self, now: float) -> None:
        for key in [key for key, times in self._asked.items() if not times or times[-1] <= now - MINUTE]:
            del self._asked[key]
