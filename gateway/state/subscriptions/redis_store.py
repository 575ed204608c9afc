"""Subscriptions in Redis, shared by all gateways that use it: a hash for each manager, and a stream of changes.

Create, replace and delete are one script each, which checks the request, counts, writes and announces the change in one
atomic step.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

from redis.asyncio import Redis
from redis.exceptions import RedisError

from gateway.observability.logs import get_logger
from gateway.state.counters.redis_store import PREFIX
from gateway.state.subscriptions.store import (
    AlreadyExists,
    Change,
    Changed,
    Follower,
    LimitReached,
    StoredSubscription,
    SubscriptionLimits,
    SubscriptionsUnavailable,
)
from gateway.state.termini.redis_store import ScriptAnswer

LOG: Final = get_logger(__name__)
_KEEP: Final = 10_000
"""The length of a stream of changes, roughly."""
_BLOCK_MS: Final = 1000
_AGAIN: Final = 0.2
_AT_ONCE: Final = 500
"""Subscriptions that are read in one turn of the loop, roughly."""

# KEYS: documents (id -> revision, owner, document), owners (owner -> count), revision, changes
_HEAD: Final = """
local function split(text)
  local a = string.find(text, '\\n', 1, true)
  local b = string.find(text, '\\n', a + 1, true)
  return tonumber(string.sub(text, 1, a - 1)), string.sub(text, a + 1, b - 1)
end
local function changed(id)
  local revision = redis.call('INCR', KEYS[3])
  redis.call('XADD', KEYS[4], 'MAXLEN', '~', ARGV[1], '*', 'id', id, 'revision', revision)
  return revision
end
"""
_CREATE: Final = (
    _HEAD
    + """
if redis.call('HEXISTS', KEYS[1], ARGV[2]) == 1 then return -1 end
if redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[5]) then return -2 end
if tonumber(redis.call('HGET', KEYS[2], ARGV[3]) or 0) >= tonumber(ARGV[6]) then return -3 end
redis.call('HINCRBY', KEYS[2], ARGV[3], 1)
local revision = changed(ARGV[2])
redis.call('HSET', KEYS[1], ARGV[2], string.format('%d', revision) .. '\\n' .. ARGV[3] .. '\\n' .. ARGV[4])
return revision
"""
)
_REPLACE: Final = (
    _HEAD
    + """
local known = redis.call('HGET', KEYS[1], ARGV[2])
if not known then return false end
local revision, owner = split(known)
if revision ~= tonumber(ARGV[3]) then return false end
revision = changed(ARGV[2])
redis.call('HSET', KEYS[1], ARGV[2], string.format('%d', revision) .. '\\n' .. owner .. '\\n' .. ARGV[4])
return {revision, owner}
"""
)
_DELETE: Final = (
    _HEAD
    + """
local known = redis.call('HGET', KEYS[1], ARGV[2])
if not known then return 0 end
local revision, owner = split(known)
if revision ~= tonumber(ARGV[3]) then return 0 end
redis.call('HDEL', KEYS[1], ARGV[2])
if redis.call('HINCRBY', KEYS[2], owner, -1) <= 0 then redis.call('HDEL', KEYS[2], owner) end
return changed(ARGV[2])
"""
)


class RedisSubscriptionStore:
    """Subscriptions in Redis. `client` is shared; `listener` is used only here: its reads block for a second."""

    lasting: Final = True

    def __init__(self, client: Redis, listener: Redis) -> None:
        self._client: Final = client
        self._listener: Final = listener
        self._followers: Final[dict[str, dict[object, Follower]]] = {}
        self._seen: Final[dict[bytes, bytes]] = {}
        """The id of the last entry that was read from each stream of changes."""
        self._wake: Final = asyncio.Event()

    async def create(
        self, manager: str, id: str, owner: str, document: bytes, limits: SubscriptionLimits
    ) -> StoredSubscription:
        """See `SubscriptionStore`."""
        answer = await self._run(_CREATE, manager, _KEEP, id, _line(owner), document, *limits)
        if answer == -1:
            raise AlreadyExists(id)
        if answer == -2:
            raise LimitReached("subscriptions", limits.subscriptions)
        if answer == -3:
            raise LimitReached("user", limits.user)
        return StoredSubscription(id, owner, int(answer), document)

    async def replace(self, manager: str, id: str, document: bytes, revision: int) -> StoredSubscription:
        """See `SubscriptionStore`."""
        answer = await self._run(_REPLACE, manager, _KEEP, id, revision, document)
        if answer is None:
            raise Changed(id)
        return StoredSubscription(id, _owner(answer[1]), int(answer[0]), document)

    async def delete(self, manager: str, id: str, revision: int) -> int:
        """See `SubscriptionStore`."""
        done: ScriptAnswer = await self._run(_DELETE, manager, _KEEP, id, revision)
        if not done:
            raise Changed(id)
        return int(done)

    async def load(self, manager: str) -> tuple[int, Mapping[str, StoredSubscription]]:
        """See `SubscriptionStore`."""
        revision = await self.revision(manager)
        found: dict[str, StoredSubscription] = {}
        cursor = None
        while cursor != 0:
            scan = self._client.hscan(_keys(manager)[0], cursor or 0, count=_AT_ONCE)
            cursor, fields = await _answered(scan)
            found.update(_read(manager, fields.items()))
        return revision, found

    async def load_some(self, manager: str, ids: Collection[str]) -> Mapping[str, StoredSubscription]:
        """See `SubscriptionStore`."""
        names = list(ids)
        texts = await _answered(self._client.hmget(_keys(manager)[0], names)) if names else []
        pairs = ((name.encode(), text) for name, text in zip(names, texts, strict=True) if text is not None)
        return _read(manager, pairs)

    async def revision(self, manager: str) -> int:
        """See `SubscriptionStore`."""
        return int(await _answered(self._client.get(_keys(manager)[2])) or 0)

    async def _run(self, script: str, manager: str, *arguments: str | bytes | int) -> ScriptAnswer:
        return await _answered(self._client.eval(script, 4, *_keys(manager), *arguments))

    # -- changes

    def follow(self, manager: str, changed: Follower) -> Callable[[], None]:
        """See `SubscriptionStore`."""
        followers, me = self._followers.setdefault(manager, {}), object()
        followers[me] = changed
        self._wake.set()

        def end() -> None:
            followers.pop(me, None)
            if not followers and self._followers.get(manager) is followers:
                del self._followers[manager]

        return end

    async def run(self) -> None:
        """Read the streams of changes; after an interruption, every manager counts as changed."""
        while True:
            if not self._followers:
                self._wake.clear()
                await self._wake.wait()
            try:
                changes = await self._changes()
            except (RedisError, OSError, TimeoutError) as error:
                LOG.debug("subscription change notifications interrupted", reason=type(error).__name__)
                self._seen.clear()
                await asyncio.sleep(_AGAIN)
                continue
            self._notify(changes)

    async def _changes(self) -> Mapping[str, Sequence[Change] | None]:
        """The changes of managers since the last call; None for one that was not followed before."""
        names = {_keys(manager)[3].encode(): manager for manager in self._followers}
        fresh = [key for key in names if key not in self._seen]
        for key in [key for key in self._seen if key not in names]:
            del self._seen[key]
        for key in fresh:
            last: ScriptAnswer = await self._listener.xrevrange(key, count=1)
            self._seen[key] = last[0][0] if last else b"0-0"
        if fresh:
            return {names[key]: None for key in fresh}
        seen: dict[ScriptAnswer, ScriptAnswer] = dict(self._seen)
        found: ScriptAnswer = await self._listener.xread(seen, block=_BLOCK_MS)
        for key, entries in found or ():
            self._seen[key] = entries[-1][0]
        return {names[key]: _changes_in(entries) for key, entries in found or ()}

    def _notify(self, changes: Mapping[str, Sequence[Change] | None]) -> None:
        for manager, own in changes.items():
            for changed in list(self._followers.get(manager, {}).values()):
                changed(own)


async def _answered(call: Awaitable[ScriptAnswer]) -> ScriptAnswer:
    """The answer of Redis; raises SubscriptionsUnavailable if there is none."""
    try:
        return await call
    except (RedisError, OSError, TimeoutError) as error:
        raise SubscriptionsUnavailable(type(error).__name__) from error


def _read(manager: str, fields: Iterable[tuple[bytes, bytes]]) -> dict[str, StoredSubscription]:
    """Fields of the hash of documents."""
    found = {}
    for name, text in fields:
        try:
            known, owner, document = text.split(b"\n", 2)
            found[name.decode()] = StoredSubscription(name.decode(), _owner(owner), int(known), document)
        except ValueError as error:  # not written by this project
            key = _keys(manager)[0]
            raise SubscriptionsUnavailable(f"a subscription in {key} cannot be read; delete it in Redis") from error
    return found


def _changes_in(entries: ScriptAnswer) -> Sequence[Change] | None:
    """The changes that entries of the stream announce; None if an earlier version wrote one, without the revision."""
    try:
        return [Change(int(fields[b"revision"]), fields[b"id"].decode()) for _, fields in entries]
    except KeyError:
        return None


def _keys(manager: str) -> tuple[str, str, str, str]:
    name = f"{PREFIX}subs:{manager}"
    return name, f"{name}:owners", f"{name}:revision", f"{name}:changes"


def _line(owner: str) -> bytes:
    """The name of a user without line breaks, which separate the stored fields."""
    return owner.encode("unicode_escape")


def _owner(line: bytes) -> str:
    return line.decode("unicode_escape")
