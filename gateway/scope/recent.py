"""Results that repeat within one millisecond: under load, hundreds of messages share one.

A cookie is made of the reply-to and the time alone, so requests of one client in the same
millisecond carry the same cookie, and their responses repeat it. Signing and verifying it once for all
of them saves half of the path; nothing is remembered beyond the millisecond, so expiry and key dates
are judged as if nothing were remembered at all.
"""

from __future__ import annotations

from typing import Final, Generic, TypeVar

_MOST: Final = 256
K = TypeVar("K")
V = TypeVar("V")


class Recent(Generic[K, V]):
    """`at(now_ms)` is the memory of that millisecond, empty when it is a new one or grew too large."""

    __slots__ = ("_memory", "_now_ms")

    def __init__(self) -> None:
        self._now_ms = -1
        self._memory: dict[K, V] = {}

    def at(self, now_ms: int) -> dict[K, V]:
        if now_ms != self._now_ms or len(self._memory) >= _MOST:
            self._now_ms, self._memory = now_ms, {}
        return self._memory
