"""How many responses one responder may send in a time (`response_rate`): a token bucket, with time as argument."""

from __future__ import annotations

from typing import Final

MOST: Final = 10_000
"""Responders remembered; beyond, those that have not sent for longest start with a full bucket again."""


class Bucket:
    """Holds up to `burst` tokens and gains one every `interval` seconds; a response takes one.

    Its whole state is one number: the time at which it will be full again.
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
    """A bucket for each responder: `count` in `per_ms`, and at once what one second brings (one at least)."""

    def __init__(self, count: int, per_ms: int) -> None:
        self._interval: Final = per_ms / count / 1000
        self.burst: Final = max(1, int(1 / self._interval))
        self._buckets: dict[str, Bucket] = {}

    def of(self, responder: str) -> Bucket:
        """Its bucket, now the last one to be forgotten."""
        bucket = self._buckets.pop(responder, None) or Bucket(self._interval, self.burst)
        self._buckets[responder] = bucket
        if len(self._buckets) > MOST:
            del self._buckets[next(iter(self._buckets))]
        return bucket
