"""Results that repeat: under load, thousands of messages share one cookie.

A cookie is made of the reply-to and an expiry alone, and expiries come in steps (`cookie.lifetime`), so the
requests of one client carry the same cookie for a while, and their responses repeat it. Signing and verifying
it once for all of them saves half of the path. What depends on the time is judged anew at each use.
"""

from __future__ import annotations

from typing import Final, Generic, TypeVar

from gateway.response.cookie import lifetime

_MOST: Final = 2048
K = TypeVar("K")
V = TypeVar("V")


class EpochCache(Generic[K, V]):
    """`at(epoch)` is the memory of that epoch, empty when it is a new one or grew too large.

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
    """A `Recent` of what is made with an expiry of our own: a new memory when that takes its next step."""

    __slots__ = ("_after", "_memory", "_ttl_ms", "_until", "expiry_ms")

    def __init__(self, ttl_ms: int) -> None:
        self._ttl_ms = ttl_ms
        self._after = self._until = self.expiry_ms = 0
        self._memory: dict[K, V] = {}

    def at(self, now_ms: int) -> dict[K, V]:
        """The memory of now, and `expiry_ms` is what `lifetime` says of now."""
        if not self._after < now_ms <= self._until or len(self._memory) >= _MOST:
            self.expiry_ms = expiry = lifetime(now_ms, self._ttl_ms)
            self._after, self._until, self._memory = now_ms - 1, expiry - self._ttl_ms, {}
        return self._memory
