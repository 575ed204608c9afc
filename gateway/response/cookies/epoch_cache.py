"""Caches of tokens and cookies: under load, thousands of messages share one cookie.

A cookie depends only on the reply-to and an expiry, and expiries come in steps (`lifetime`), so the requests of one
client have the same cookie for a while, and so have their responses. It is signed and verified once for all of them,
which saves half of the time. The expiry is checked at each use.
"""

from __future__ import annotations

from typing import Final, Generic, TypeVar

_MOST: Final = 2048
K = TypeVar("K")
V = TypeVar("V")


def lifetime(now_ms: int, ttl_ms: int) -> int:
    """The expiry of a token made now: at least `ttl_ms` away, rounded up to a step of a 64th of it.

    Requests of one client then have the same cookie or reply address for a while, which makes them cheap and lets a
    responder keep its link to the address.
    """
    step = max(ttl_ms >> 6, 1)
    return -(-(now_ms + ttl_ms) // step) * step


class EpochCache(Generic[K, V]):
    """The results of one epoch; `at(epoch)` is empty for a new epoch, or after too many results.

    An epoch is what results depend on beside their key: the present expiry, or the number of retired keys
    (`KeyRing.epoch`).
    """

    __slots__ = ("_epoch", "_memory")

    def __init__(self) -> None:
        self._epoch = -1
        self._memory: dict[K, V] = {}

    def at(self, epoch: int) -> dict[K, V]:
        if epoch != self._epoch or len(self._memory) >= _MOST:
            self._epoch, self._memory = epoch, {}
        return self._memory


class ExpiryStepCache(Generic[K, V]):
    """The results of the present expiry step; empty again after the next step."""

    __slots__ = ("_after", "_memory", "_ttl_ms", "_until", "expiry_ms")

    def __init__(self, ttl_ms: int) -> None:
        self._ttl_ms = ttl_ms
        self._after = self._until = self.expiry_ms = 0
        self._memory: dict[K, V] = {}

    def at(self, now_ms: int) -> dict[K, V]:
        """The results for the time `now_ms`, in milliseconds since 1970; sets `expiry_ms` to its `lifetime`."""
        if not self._after < now_ms <= self._until or len(self._memory) >= _MOST:
            self.expiry_ms = expiry = lifetime(now_ms, self._ttl_ms)
            self._after, self._until, self._memory = now_ms - 1, expiry - self._ttl_ms, {}
        return self._memory
