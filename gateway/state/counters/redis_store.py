"""Counts and values in Redis, shared by all gateways that use it.

The commands of one turn of the loop go into one pipeline. Every command is idempotent, so one that a lost connection
left in doubt is sent again; and a claim whose answer never came is released when Redis is available again. So a failure
of Redis may lose a use, but never grants one twice.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Final, NamedTuple

from redis.asyncio import Redis
from redis.exceptions import ConnectionError as NotConnected
from redis.exceptions import RedisError

from gateway.state.counters.store import PATIENCE, AcquireCallback, GetCallback, PutCallback

MOST: Final = 10_000
"""Maximum number of waiting commands, and of claims to release; more get "unknown", and claims stay."""
_BATCH: Final = 500
_PAUSE: Final = 0.2
"""Seconds between two attempts while Redis is unavailable."""
PREFIX: Final = "scopegate:"
"""The prefix of all keys of this project."""

_COUNT: Final = """
if redis.call('SISMEMBER', KEYS[1], ARGV[1]) == 1 then return 1 end
if redis.call('SCARD', KEYS[1]) >= tonumber(ARGV[2]) then return 0 end
redis.call('SADD', KEYS[1], ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1
"""


class _Ask(NamedTuple):
    """One command; `then` is called with the answer or the exception."""

    command: tuple[str | bytes | int, ...]
    then: Callable[[object], None]


class RedisCounterStore:
    """Counts and values in Redis; while `away()`, the answer is "unknown" at once."""

    def __init__(self, client: Redis, away: Callable[[], bool]) -> None:
        self._client: Final = client
        self._away: Final = away
        self._asks: deque[_Ask] = deque()
        self._owed: deque[_Ask] = deque()
        self._wake: Final = asyncio.Event()
        self._events: Counter[str] = Counter(unknown=0, lost=0)

    def acquire(self, key: str, claim: str, limit: int, ttl_ms: int, then: AcquireCallback) -> None:
        """Uses a set of claims, so that a claim counts once however often it is sent."""

        def answered(result: object) -> None:
            if isinstance(result, Exception):
                self.release(key, claim)
                then(None)
            else:
                then(bool(result))

        command = ("EVAL", _COUNT, 1, PREFIX + key, claim, limit, max(ttl_ms, 1))
        if not self._ask(_Ask(command, answered)):
            then(None)

    def release(self, key: str, claim: str) -> None:
        """Sent before other commands, and again until Redis has executed it."""
        command = ("SREM", PREFIX + key, claim)

        def answered(result: object) -> None:
            if isinstance(result, Exception):
                owe()

        def owe() -> None:
            if len(self._owed) < MOST:
                self._owed.append(_Ask(command, answered))
                self._wake.set()
            else:
                self._events["lost"] += 1

        owe()

    def put(self, key: str, value: bytes, ttl_ms: int, then: PutCallback) -> None:
        """Stored once Redis has confirmed it."""
        command = ("SET", PREFIX + key, value, "PX", max(ttl_ms, 1))
        if not self._ask(_Ask(command, lambda result: then(not isinstance(result, Exception)))):
            then(False)

    def get(self, key: str, then: GetCallback) -> None:
        """None as long as Redis does not answer."""

        def answered(result: object) -> None:
            then(None if isinstance(result, Exception) else result if isinstance(result, bytes) else b"")

        if not self._ask(_Ask(("GET", PREFIX + key), answered)):
            then(None)

    def counts(self) -> Mapping[str, int]:
        """Commands without an answer, and claims that could not be released."""
        return self._events

    async def run(self) -> None:
        """Send commands in batches; if Redis does not answer, all waiting commands fail."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            if self._asks or not self._away():  # claims to release wait for Redis
                batch = [*self._take(self._owed), *self._take(self._asks)]
                failed = self._answer(batch, await self._execute(batch))
                if failed is not None:
                    self._answer([*self._asks], failed)
                    self._asks.clear()
                    await asyncio.sleep(_PAUSE)
            else:
                await asyncio.sleep(_PAUSE)
            if self._asks or self._owed:
                self._wake.set()

    def _answer(self, batch: list[_Ask], results: list[object] | Exception) -> Exception | None:
        """Answer all commands; returns the exception if all of them got it."""
        turn = asyncio.get_running_loop().call_soon
        failed = results if isinstance(results, Exception) else None
        each = results if isinstance(results, list) else [results] * len(batch)
        for ask, result in zip(batch, each, strict=True):
            if isinstance(result, Exception):
                self._events["unknown"] += 1
            turn(ask.then, result)  # an error in there must not end this task
        return failed

    def _ask(self, ask: _Ask) -> bool:
        if self._away() or len(self._asks) >= MOST:
            self._events["unknown"] += 1
            return False
        self._asks.append(ask)
        self._wake.set()
        return True

    @staticmethod
    def _take(queue: deque[_Ask]) -> list[_Ask]:
        taken = list(islice(queue, _BATCH))
        for _ in taken:
            queue.popleft()
        return taken

    async def _execute(self, batch: list[_Ask]) -> list[object] | Exception:
        try:
            async with asyncio.timeout(PATIENCE / 2):
                try:
                    return await self._sent(batch)
                except NotConnected:  # the pool's connection is older than Redis' restart
                    return await self._sent(batch)
        except (RedisError, OSError, TimeoutError) as error:
            return error

    async def _sent(self, batch: list[_Ask]) -> list[object]:
        pipeline = self._client.pipeline(transaction=False)
        for ask in batch:
            pipeline.execute_command(*ask.command)
        results: list[object] = await pipeline.execute(raise_on_error=False)
        return results
