"""Caches of tokens and cookies: under load, thousands of messages share one cookie.

A cookie is made of the reply-to and an expiry alone, and expiries come in steps (`lifetime`), so the
requests of one client carry the same cookie for a while, and their responses repeat it. Signing and verifying
it once for all of them saves half of the path. The expiry is checked anew at each use.
"""

from __future__ import annotations

from typing import Final, Generic, TypeVar

_MOST: Final = 2048
K = TypeVar("K")
V = TypeVar("V")


def lifetime(now_ms: int, ttl_ms: int) -> int:
    """The expiry of a token made now: at least `ttl_ms` away, rounded up to a step of a 64th of it.

    Requests of one client then carry one cookie or reply address for a while, which makes them
    cheap and lets a responder keep its link to the address.
    """
    step = max(ttl_ms >> 6, 1)
    return -(-(now_ms + ttl_ms) // step) * step


class EpochCache(Generic[K, V]):
    """Results of one epoch; `at(epoch)` is empty when the epoch is a new one or the results grew too many.

    An epoch is whatever the results depend on beside their key: the expiry that is being written, or how many
    keys have retired (`KeyRing.epoch`).
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
    """Results made with an expiry of our own; it begins anew when that expiry takes its next step."""

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
