"""Circuit breaker: sends nothing to a sink that fails, or has asked for a pause; shared by all users of the sink. Pure.

Five failures in a row open a breaker. Then it allows one attempt at a time, at pauses that double; the first success
closes it. Times are seconds of a monotonic clock.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

_FAILURES: Final = 5
"""Number of failures in a row that opens a breaker."""
_DOUBLINGS: Final = 32


class RetryPauses:
    """Pauses that double from `least` to `most` seconds, with full jitter."""

    __slots__ = ("_draw", "_least", "_most")

    def __init__(self, least: float, most: float, draw: Callable[[], float] = random.random) -> None:
        """`draw` returns a random number from 0 to 1."""
        self._least: Final = least
        self._most: Final = most
        self._draw: Final = draw

    def after(self, failures: int) -> float:
        """Seconds to wait after `failures` failures, at least one."""
        longest = min(self._most, self._least * 2.0 ** min(failures - 1, _DOUBLINGS))
        return longest * self._draw()


class Breaker:
    """The breaker of one sink, or of one place."""

    __slots__ = ("__weakref__", "_asked", "_changed", "_failures", "_probe", "_serial", "next_at", "open_since")

    def __init__(self) -> None:
        self._failures = 0
        self._serial = 0
        self._asked = 0
        """The number of the last attempt before the sink asked for a pause."""
        self._probe: int | None = None
        """The attempt that was allowed while the breaker is open."""
        self._changed: Final[dict[Callable[[], None], None]] = {}
        self.open_since: float | None = None
        """When it opened; None while it is closed."""
        self.next_at = 0.0
        """When the next attempt is due; valid while it is open."""

    def listen(self, changed: Callable[[], None]) -> None:
        """Call `changed` when it opens or closes, or allows another attempt."""
        self._changed[changed] = None

    def forget(self, changed: Callable[[], None]) -> None:
        """Do not call it any more."""
        self._changed.pop(changed, None)

    @property
    def open(self) -> bool:
        """Whether it allows only single attempts."""
        return self.open_since is not None

    def allows(self, now: float) -> bool:
        """Whether an attempt may be made now."""
        return self.open_since is None or (self._probe is None and now >= self.next_at)

    def sent(self) -> int:
        """An attempt was made; returns its number, by which its result is reported."""
        self._serial += 1
        if self.open_since is not None:
            self._probe = self._serial
        return self._serial

    def abandoned(self, serial: int) -> None:
        """An attempt was cancelled and has no answer."""
        if self._probe == serial:
            self._probe = None
            self._tell()

    def failed(self, serial: int, now: float, backoff: RetryPauses) -> None:
        """An attempt failed. Attempts from before the breaker opened are ignored."""
        if self.open_since is None:
            self._failures += 1
            if self._failures >= _FAILURES:
                self._wait(now, now + backoff.after(1))
        elif self._probe == serial:
            self._failures += 1
            self._wait(now, now + backoff.after(self._failures - _FAILURES + 1))

    def paused(self, serial: int, now: float, seconds: float | None, backoff: RetryPauses) -> None:
        """The sink has asked for a pause of `seconds`, or for one of unknown length (None)."""
        if self.open_since is None or self._probe == serial:
            self._failures = max(self._failures, _FAILURES - 1) + 1
        elif seconds is None:
            return
        self._asked = self._serial
        pause = backoff.after(self._failures - _FAILURES + 1) if seconds is None else seconds
        self._wait(now, max(self.next_at, now + pause))

    def _wait(self, now: float, until: float) -> None:
        if self.open_since is None:
            self.open_since = now
        self._probe = None
        self.next_at = until
        self._tell()

    def succeeded(self, serial: int) -> None:
        """An attempt succeeded: close the breaker.

        Attempts from before the sink asked for a pause do not end the pause.
        """
        if self.open_since is not None and serial <= self._asked:
            return
        self._failures = 0
        if self.open_since is not None:
            self.open_since, self._probe, self.next_at = None, None, 0.0
            self._tell()

    def renew(self, now: float) -> None:
        """If it is open, allow the next attempt at once."""
        if self.open_since is not None:
            self._wait(now, now)

    def _tell(self) -> None:
        for changed in list(self._changed):
            changed()
