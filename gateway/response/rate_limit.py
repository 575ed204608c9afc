"""The rate limit of responses (`response_rate`): a token bucket for each responder; the time is an argument."""

from __future__ import annotations

from typing import Final

MOST: Final = 10_000
"""Maximum number of buckets; the least recently used one is dropped, and is full when it is created again."""


class Bucket:
    """Holds up to `burst` tokens and gains one every `interval` seconds; a response takes one.

    Its state is one number: the time at which it will be full again.
    """

    __slots__ = ("_full", "_interval", "_slack")

    def __init__(self, interval: float, burst: int) -> None:
        self._interval = interval
        self._slack = (burst - 1) * interval
        self._full = 0.0

    def reserve(self, now: float, patience: float) -> float | None:
        """Reserve a token; returns the seconds until it is available, 0 for now.

        None: that would be longer than `patience`, and no token is reserved.
        """
        begin = max(self._full, now)
        wait = begin - now - self._slack
        if wait > patience:
            return None
        self._full = begin + self._interval
        return max(wait, 0.0)

    def wait(self, now: float) -> float:
        """The seconds until a token is available; none is reserved."""
        return max(self._full - now - self._slack, 0.0)


class Buckets:
    """A bucket for each responder: `count` in `per_ms`, with a burst of one second's tokens (at least one)."""

    def __init__(self, count: int, per_ms: int) -> None:
        self._interval: Final = per_ms / count / 1000
        self.burst: Final = max(1, int(1 / self._interval))
        self._buckets: dict[str, Bucket] = {}

    def of(self, responder: str) -> Bucket:
        """The bucket of a responder, which is now the most recently used one."""
        bucket = self._buckets.pop(responder, None) or Bucket(self._interval, self.burst)
        self._buckets[responder] = bucket
        if len(self._buckets) > MOST:
            del self._buckets[next(iter(self._buckets))]
        return bucket
