"""What is counted or kept in shared state until it expires: uses of cookies, and cookies too long to travel.

Asked on the loop, answered by a call: at once in memory, one round trip later from Redis, and within `PATIENCE`
whatever happens. "Unknown" (None) means that nothing may be done in its favour: the state is away, or full.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol

PATIENCE: Final = 4.0
"""Seconds after which an answer has come at the latest: two batches of one round trip each."""
AcquireCallback = Callable[[bool | None], None]
PutCallback = Callable[[bool], None]
GetCallback = Callable[[bytes | None], None]


class CounterStore(Protocol):
    """Counters and values by key; keys say what they are for (`uses:…`, `cookie:…`) and hold no secret."""

    def acquire(self, key: str, claim: str, limit: int, ttl_ms: int, then: AcquireCallback) -> None:
        """Take one of `limit` uses: True, it is `claim`'s (again, if it was before); False, they are all taken.

        The count ends `ttl_ms` from now. Unknown leaves no use taken: a claim that may have been made is given back.
        """

    def release(self, key: str, claim: str) -> None:
        """Free what `claim` took; without effect where it took nothing."""

    def put(self, key: str, value: bytes, ttl_ms: int, then: PutCallback) -> None:
        """Keep a value that is not empty, under a key that nobody else uses; False: it is not kept for sure."""

    def get(self, key: str, then: GetCallback) -> None:
        """A value; empty: there is none (any more)."""

    def counts(self) -> Mapping[str, int]:
        """What happened, for metrics: event and how often."""

    async def run(self) -> None:
        """Work until cancelled; a task of the supervisor."""
