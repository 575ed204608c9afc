"""Durable termini in Redis: one hash for each, the same for every gateway (KM-11).

Every script is idempotent for positions; the token in the record fences writers, and is compared in the same step as
the write. Expired records are removed from their owner's set when it is full.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from redis.asyncio import Redis
from redis.exceptions import RedisError

from gateway.state.termini.store import EACH, Fenced, Full, Save, Saved, TerminiUnavailable, TerminusRecord

ScriptAnswer: TypeAlias = Any
"""The result of a script; its type is in the Lua code."""
_PREFIX: Final = "scopegate:terminus:"
_OWNED: Final = "scopegate:termini-of:"
_MARK: Final = b"@"
"""The prefix of the names of marks, which separates them from partitions and `token`."""

_LIVES: Final = """
if tonumber(ARGV[2]) < 0 then redis.call('PERSIST', KEYS[1]) else redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
"""
_TAKE: Final = f"""
if tonumber(redis.call('HGET', KEYS[1], 'fence') or 0) > tonumber(ARGV[4]) then return false end
if #KEYS > 1 and redis.call('EXISTS', KEYS[1]) == 0 then
  local most = tonumber(ARGV[5])
  if redis.call('SCARD', KEYS[2]) >= most then
    for _, key in ipairs(redis.call('SMEMBERS', KEYS[2])) do
      if redis.call('EXISTS', key) == 0 then redis.call('SREM', KEYS[2], key) end
    end
    if redis.call('SCARD', KEYS[2]) >= most then return 'full' end
  end
  redis.call('SADD', KEYS[2], KEYS[1])
end
if redis.call('HGET', KEYS[1], 'about') ~= ARGV[3] then redis.call('DEL', KEYS[1]) end
redis.call('HSET', KEYS[1], 'about', ARGV[3], 'token', ARGV[1], 'fence', ARGV[4])
{_LIVES}
return redis.call('HGETALL', KEYS[1])
"""
_SAVE: Final = f"""
local token = redis.call('HGET', KEYS[1], 'token')
if token ~= ARGV[1] then return token and 0 or 2 end
local first = 4 + tonumber(ARGV[3])
for i = 4, first - 1 do redis.call('HDEL', KEYS[1], ARGV[i]) end
for i = first, #ARGV, 2 do redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
{_LIVES}
return 1
"""
_DROP: Final = """
if redis.call('HGET', KEYS[1], 'token') == ARGV[1] then redis.call('DEL', KEYS[1]) end
return 1
"""


class RedisTermini:
    """Durable termini in Redis, with the client of the state and its time limits."""

    lasting: Final = True

    def __init__(self, client: Redis, each: int = EACH) -> None:
        self._client: Final = client
        self._each: Final = each

    async def acquire(
        self, key: str, about: str, ttl_ms: int | None, fence: int = 0, owner: str = ""
    ) -> TerminusRecord:
        """One round trip."""
        token = secrets.token_hex(8)
        keys = [_PREFIX + key, _OWNED + owner] if owner else [_PREFIX + key]
        found = await self._run(_TAKE, keys, token, _ttl(ttl_ms), about, fence, self._each)
        if found is None:
            raise Fenced
        if found == b"full":
            raise Full(self._each)
        try:
            fields = dict(zip(found[::2], found[1::2], strict=True))
            positions = {int(name): int(at) for name, at in fields.items() if name.isdigit()}
            marks = {name[1:].decode(): at.decode() for name, at in fields.items() if name.startswith(_MARK)}
        except ValueError as error:  # not written by this project
            raise TerminiUnavailable(f"the record {_PREFIX}{key} cannot be read; delete it in Redis") from error
        return TerminusRecord(token, positions or None, marks)

    async def save(self, saves: Sequence[Save]) -> list[Saved]:
        """One round trip for all of them."""
        try:
            async with self._client.pipeline(transaction=False) as pipe:
                for save in saves:
                    removed = [_MARK + name.encode() for name in save.removed]
                    pairs: list[int | str | bytes] = [part for item in save.positions.items() for part in item]
                    pairs += [part for name, at in save.marks.items() for part in (_MARK + name.encode(), at)]
                    ours = save.token, _ttl(save.ttl_ms), len(removed)
                    pipe.eval(_SAVE, 1, _PREFIX + save.key, *ours, *removed, *pairs)
                return [Saved(done) for done in await pipe.execute()]
        except (RedisError, OSError, TimeoutError) as error:
            raise TerminiUnavailable(type(error).__name__) from error

    async def marks(self, key: str, names: Sequence[str]) -> list[str | None]:
        """One round trip."""
        try:
            found: ScriptAnswer = await self._client.hmget(_PREFIX + key, [_MARK + name.encode() for name in names])
            return [None if mark is None else mark.decode() for mark in found]
        except (RedisError, OSError, TimeoutError, UnicodeDecodeError) as error:
            raise TerminiUnavailable(type(error).__name__) from error

    async def drop(self, key: str, token: str) -> None:
        """One round trip."""
        await self._run(_DROP, [_PREFIX + key], token)

    async def _run(self, script: str, keys: Sequence[str], *arguments: str | int) -> ScriptAnswer:
        try:
            return await self._client.eval(script, len(keys), *keys, *arguments)
        except (RedisError, OSError, TimeoutError) as error:
            raise TerminiUnavailable(type(error).__name__) from error


def _ttl(ttl_ms: int | None) -> int:
    return -1 if ttl_ms is None else max(ttl_ms, 1)
