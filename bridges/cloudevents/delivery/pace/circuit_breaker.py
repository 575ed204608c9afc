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


class RetryBackoff:
    """Pauses that double from `shortest` to `longest` seconds, with full jitter."""

    __slots__ = ("_longest", "_random", "_shortest")

    def __init__(self, shortest: float, longest: float, draw: Callable[[], float] = random.random) -> None:
        """`draw` returns a random number from 0 to 1."""
        self._shortest: Final = shortest
        self._longest: Final = longest
        self._random: Final = draw

    def delay(self, failures: int) -> float:
        """Seconds to wait after `failures` failures, at least one."""
        pause = min(self._longest, self._shortest * 2.0 ** min(failures - 1, _DOUBLINGS))
        return pause * self._random()


class CircuitBreaker:
    """The breaker of one sink, or of one origin (scheme, host and port)."""

    __slots__ = (
        "__weakref__", "_failures", "_last_before_pause", "_listeners", "_probe", "_serial", "open_since", "probe_at",
    )  # fmt: skip

    def __init__(self) -> None:
        self._failures = 0
        self._serial = 0
        self._last_before_pause = 0
        """The number of the last attempt before the sink asked for a pause."""
        self._probe: int | None = None
        """The attempt that was allowed while the breaker is open."""
        self._listeners: Final[dict[Callable[[], None], None]] = {}
        self.open_since: float | None = None
        """When it opened; None while it is closed."""
        self.probe_at = 0.0
        """When the next attempt is due; valid while it is open."""

    def add_listener(self, callback: Callable[[], None]) -> None:
        """Call `callback` when it opens or closes, or allows another attempt."""
        self._listeners[callback] = None

    def remove_listener(self, callback: Callable[[], None]) -> None:
        """Do not call it any more."""
        self._listeners.pop(callback, None)

    @property
    def open(self) -> bool:
        """Whether it allows only single attempts."""
        return self.open_since is not None

    def allows(self, now: float) -> bool:
        """Whether an attempt may be made now."""
        return self.open_since is None or (self._probe is None and now >= self.probe_at)

    def start_attempt(self) -> int:
        """An attempt was made; returns its number, by which its result is reported."""
        self._serial += 1
        if self.open_since is not None:
            self._probe = self._serial
        return self._serial

    def cancelled(self, serial: int) -> None:
        """An attempt was cancelled and has no answer."""
        if self._probe == serial:
            self._probe = None
            self._notify()

    def failed(self, serial: int, now: float, backoff: RetryBackoff) -> None:
        """An attempt failed. Attempts from before the breaker opened are ignored."""
        if self.open_since is None:
            self._failures += 1
            if self._failures >= _FAILURES:
                self._open_until(now, now + backoff.delay(1))
        elif self._probe == serial:
            self._failures += 1
            self._open_until(now, now + backoff.delay(self._failures - _FAILURES + 1))

    def paused(self, serial: int, now: float, seconds: float | None, backoff: RetryBackoff) -> None:
        """The sink has asked for a pause of `seconds`, or for one of unknown length (None)."""
        if self.open_since is None or self._probe == serial:
            self._failures = max(self._failures, _FAILURES - 1) + 1
        elif seconds is None:
            return
        self._last_before_pause = self._serial
        pause = backoff.delay(self._failures - _FAILURES + 1) if seconds is None else seconds
        self._open_until(now, max(self.probe_at, now + pause))

    def _open_until(self, now: float, until: float) -> None:
        if self.open_since is None:
            self.open_since = now
        self._probe = None
        self.probe_at = until
        self._notify()

    def succeeded(self, serial: int) -> None:
        """An attempt succeeded: close the breaker.

        Attempts from before the sink asked for a pause do not end the pause.
        """
        if self.open_since is not None and serial <= self._last_before_pause:
            return
        self._failures = 0
        if self.open_since is not None:
            self.open_since, self._probe, self.probe_at = None, None, 0.0
            self._notify()

    def allow_probe(self, now: float) -> None:
        """If it is open, allow the next attempt at once."""
        if self.open_since is not None:
            self._open_until(now, now)

    def _notify(self) -> None:
        for callback in list(self._listeners):
            callback()
