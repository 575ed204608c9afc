"""Group records in Redis: compare and set in Lua, sessions that expire, notifications by PUBLISH (KM-10).

A single Redis server decides, by its own clock: a script reads time, records and members atomically. The server must
not lose writes: with `appendfsync everysec`, a power failure can lose the grants of the last second.

Keys: `scopegate:members` (when each session expires), `scopegate:about` (descriptions of members), `scopegate:fence`,
`scopegate:group:<key>`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, Final, TypeAlias, TypeVar

from redis.asyncio.client import PubSub
from redis.exceptions import RedisError

from gateway.observability.logs import get_logger
from gateway.state.leases.claim import Now
from gateway.state.leases.store import EVERYTHING, CasResult, ChangeListener, StoreUnavailable, VersionedRecord
from gateway.state.redis_connections import redis_client

T = TypeVar("T")
ScriptAnswer: TypeAlias = Any
"""The result of a script; the Lua code determines its type."""
LOG: Final = get_logger(__name__)
_MEMBERS: Final = "scopegate:members"
_ABOUT: Final = "scopegate:about"
_FENCE: Final = "scopegate:fence"
_GROUP: Final = "scopegate:group:"
_CHANNEL: Final = "scopegate:groups"
_KEEP_MS: Final = 7 * 86_400_000
"""How long an unused record lasts: longer than any epoch is retained."""
_AGAIN: Final = 0.2
_LISTEN: Final = 5.0

_NOW: Final = """
local now = tonumber(ARGV[1])
if now < 0 then local t = redis.call('TIME'); now = t[1] * 1000 + math.floor(t[2] / 1000) end
"""
_LOAD: Final = (
    _NOW
    + """
local fence = tonumber(redis.call('GET', KEYS[3]) or '0') + 1
if fence < now then fence = now end
redis.call('SET', KEYS[3], string.format('%.0f', fence))
local record = redis.call('HMGET', KEYS[1], 'v', 't')
local alive = redis.call('ZRANGEBYSCORE', KEYS[2], '(' .. string.format('%.0f', now), '+inf')
return {now, fence, record[1] or '0', record[2] or '', alive}
"""
)
_SWAP: Final = (
    _NOW
    + """
local till = redis.call('ZSCORE', KEYS[2], ARGV[2])
if not till or tonumber(till) <= now then return -1 end
if (redis.call('HGET', KEYS[1], 'v') or '0') ~= ARGV[3] then return 0 end
redis.call('HSET', KEYS[1], 'v', ARGV[4], 't', ARGV[5])
redis.call('PEXPIRE', KEYS[1], ARGV[6])
redis.call('PUBLISH', ARGV[7], ARGV[8])
return 1
"""
)
_BEAT: Final = (
    _NOW
    + """
for _, dead in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now))) do
  redis.call('ZREM', KEYS[1], dead); redis.call('HDEL', KEYS[2], dead)
end
if ARGV[5] ~= 'join' and not redis.call('ZSCORE', KEYS[1], ARGV[2]) then return 0 end
redis.call('ZADD', KEYS[1], string.format('%.0f', now + tonumber(ARGV[3])), ARGV[2])
redis.call('HSET', KEYS[2], ARGV[2], ARGV[4])
for i = 3, #KEYS do redis.call('PEXPIRE', KEYS[i], ARGV[6]) end
return 1
"""
)
_ALIVE: Final = (
    _NOW
    + """
local found = {}
for _, member in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. string.format('%.0f', now), '+inf')) do
  found[#found + 1] = member; found[#found + 1] = redis.call('HGET', KEYS[2], member) or ''
end
return found
"""
)


class RedisLeaseStore:
    """Records in the Redis server at `url`, shared by several processes.

    `ttl`: the time to live of a session in seconds. `patience`: the timeout of a call in seconds, much shorter than
    `ttl` by default, so that renewals are in time. `now_ms` replaces the server's clock in tests.
    """

    def __init__(
        self, url: str, ttl: float, now_ms: Callable[[], int] = lambda: -1, patience: float | None = None
    ) -> None:
        limit = patience or min(2.0, ttl / 4)
        self._client: Final = redis_client(url, timeout=limit, connect_timeout=limit, decode_responses=True)
        self._listener: Final = redis_client(url, timeout=_LISTEN, connect_timeout=limit, decode_responses=True)
        self._ttl: Final = ttl
        self._now_ms: Final = now_ms
        self._limit: Final = 2 * limit
        self._on_change: ChangeListener = lambda _key: None
        self._load: Final = self._client.register_script(_LOAD)
        self._swap: Final = self._client.register_script(_SWAP)
        self._beat: Final = self._client.register_script(_BEAT)
        self._alive: Final = self._client.register_script(_ALIVE)

    @property
    def ttl(self) -> float | None:
        return self._ttl

    def listen(self, changed: ChangeListener) -> None:
        self._on_change = changed

    async def join(self, member: str, about: str) -> None:
        await self._session(member, about, (), "join")

    async def heartbeat(self, member: str, about: str, keys: Collection[str]) -> bool:
        return bool(await self._session(member, about, keys, "beat"))

    async def _session(self, member: str, about: str, keys: Collection[str], what: str) -> ScriptAnswer:
        names = [_MEMBERS, _ABOUT, *(_GROUP + key for key in keys)]
        values: list[str | int] = [self._now_ms(), member, int(self._ttl * 1000), about, what, _KEEP_MS]
        return await self._ask(self._beat(keys=names, args=values))

    async def leave(self, member: str) -> None:
        async def left() -> None:
            await self._client.zrem(_MEMBERS, member)
            await self._client.hdel(_ABOUT, member)
            await self._client.publish(_CHANNEL, EVERYTHING)

        await self._ask(left())

    async def members(self) -> Mapping[str, str]:
        found = await self._ask(self._alive(keys=[_MEMBERS, _ABOUT], args=[self._now_ms()]))
        return dict(zip(found[::2], found[1::2], strict=True))

    async def load(self, key: str) -> VersionedRecord:
        names = [_GROUP + key, _MEMBERS, _FENCE]
        now, fence, version, text, alive = await self._ask(self._load(keys=names, args=[self._now_ms()]))
        return VersionedRecord(int(version), text, Now(now, fence, frozenset(alive)))

    async def swap(self, member: str, key: str, seen: VersionedRecord, text: str) -> CasResult:
        # An empty record keeps its version, so that a swap based on an older one fails (fences only grow).
        values: list[str | int] = [self._now_ms(), member, seen.version, seen.now.fence, text, _KEEP_MS, _CHANNEL, key]
        return CasResult(await self._ask(self._swap(keys=[_GROUP + key, _MEMBERS], args=values)))

    async def _ask(self, question: Awaitable[T]) -> T:
        try:
            async with asyncio.timeout(self._limit):
                return await question
        except (RedisError, OSError, TimeoutError) as error:
            raise StoreUnavailable(str(error) or type(error).__name__) from error

    async def run(self) -> None:
        """Receive notifications; after an interruption, everything may have changed."""
        while True:
            try:
                async with self._listener.pubsub(ignore_subscribe_messages=True) as channel:
                    await channel.subscribe(_CHANNEL)
                    self._on_change(EVERYTHING)
                    await self._hear(channel)
            except (RedisError, OSError, TimeoutError) as error:
                LOG.debug("lease change notifications interrupted", reason=str(error) or type(error).__name__)
            await asyncio.sleep(_AGAIN)

    async def _hear(self, channel: PubSub) -> None:
        while True:
            message = await channel.get_message(timeout=_LISTEN / 2)
            if message is not None:
                self._on_change(str(message["data"]))

    async def close(self) -> None:
        await self._client.aclose()
        await self._listener.aclose()
