"""Counters and values in shared state until they expire: uses of cookies, and cookies that are too long to send.

Calls are made on the event loop and answered by a callback: at once in memory, after a round trip with Redis, and in
any case within `PATIENCE`. "Unknown" (None) means that the state is unavailable or full.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol

PATIENCE: Final = 4.0
"""Maximum seconds until the answer: two batches of one round trip each."""
AcquireCallback = Callable[[bool | None], None]
PutCallback = Callable[[bool], None]
GetCallback = Callable[[bytes | None], None]


class CounterStore(Protocol):
    """Counters and values by key; keys begin with their purpose (`uses:…`, `cookie:…`) and contain no secret."""

    def acquire(self, key: str, claim: str, limit: int, ttl_ms: int, then: AcquireCallback) -> None:
        """Acquire one of `limit` uses for `claim`: True: acquired, now or before; False: all are used.

        The count expires after `ttl_ms`. After "unknown", a claim that may have been made is released.
        """

    def release(self, key: str, claim: str) -> None:
        """Release the use of `claim`, if it has one."""

    def put(self, key: str, value: bytes, ttl_ms: int, then: PutCallback) -> None:
        """Store a value that is not empty under a unique key; False: it may not be stored."""

    def get(self, key: str, then: GetCallback) -> None:
        """Get a value; empty: there is none."""

    def counts(self) -> Mapping[str, int]:
        """Events and their counts, for metrics."""

    async def run(self) -> None:
        """Work until cancelled; a task of the supervisor."""
