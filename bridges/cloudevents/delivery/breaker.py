"""When nothing is sent to a sink because it fails, or has asked for a pause; shared by all who use it. Pure.

Five failures in a row open a breaker. Then one attempt at a time is let through, at pauses that double; the first
success closes it. Times are seconds of a clock that never goes back.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

_FAILURES: Final = 5
"""In a row, after which a breaker opens."""
_DOUBLINGS: Final = 32


class RetryPauses:
    """Pauses that double from `least` to `most` seconds, with full jitter."""

    __slots__ = ("_draw", "_least", "_most")

    def __init__(self, least: float, most: float, draw: Callable[[], float] = random.random) -> None:
        """`draw`: a number from 0 to 1."""
        self._least: Final = least
        self._most: Final = most
        self._draw: Final = draw

    def after(self, failures: int) -> float:
        """Seconds to wait after so many failures, one at least."""
        longest = min(self._most, self._least * 2.0 ** min(failures - 1, _DOUBLINGS))
        return longest * self._draw()


class Breaker:
    """One sink, or one place."""

    __slots__ = ("__weakref__", "_asked", "_changed", "_failures", "_probe", "_serial", "next_at", "open_since")

    def __init__(self) -> None:
        self._failures = 0
        self._serial = 0
        self._asked = 0
        """The last attempt that was made before the sink asked for a pause."""
        self._probe: int | None = None
        """The attempt that was let through while it is open."""
        self._changed: Final[dict[Callable[[], None], None]] = {}
        self.open_since: float | None = None
        """When it opened; None: it is closed."""
        self.next_at = 0.0
        """While it is open: when the next attempt is due."""

    def listen(self, changed: Callable[[], None]) -> None:
        """Call `changed` when it opens or closes, or when another attempt may be made."""
        self._changed[changed] = None

    def forget(self, changed: Callable[[], None]) -> None:
        """Call it no more."""
        self._changed.pop(changed, None)

    @property
    def open(self) -> bool:
        """Whether only single attempts are let through."""
        return self.open_since is not None

    def allows(self, now: float) -> bool:
        """Whether an attempt may be made now."""
        return self.open_since is None or (self._probe is None and now >= self.next_at)

    def sent(self) -> int:
        """An attempt is made; returns the number under which its end is told."""
        self._serial += 1
        if self.open_since is not None:
            self._probe = self._serial
        return self._serial

    def abandoned(self, serial: int) -> None:
        """An attempt has ended without an answer, because it was cut."""
        if self._probe == serial:
            self._probe = None
            self._tell()

    def failed(self, serial: int, now: float, backoff: RetryPauses) -> None:
        """The sink has failed an attempt; those that were under way when it opened say nothing new."""
        if self.open_since is None:
            self._failures += 1
            if self._failures >= _FAILURES:
                self._wait(now, now + backoff.after(1))
        elif self._probe == serial:
            self._failures += 1
            self._wait(now, now + backoff.after(self._failures - _FAILURES + 1))

    def paused(self, serial: int, now: float, seconds: float | None, backoff: RetryPauses) -> None:
        """The sink has asked for a pause of `seconds`; None: it did not say how long."""
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
        """The sink has answered as it should: everything may be sent again.

        What was under way when it asked for a pause does not end the pause.
        """
        if self.open_since is not None and serial <= self._asked:
            return
        self._failures = 0
        if self.open_since is not None:
            self.open_since, self._probe, self.next_at = None, None, 0.0
            self._tell()

    def renew(self, now: float) -> None:
        """Let the next attempt through at once, if it is open."""
        if self.open_since is not None:
            self._wait(now, now)

    def _tell(self) -> None:
        for changed in list(self._changed):
            changed()
