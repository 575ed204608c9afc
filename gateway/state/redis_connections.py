"""Connections to Redis on which a cancellation always arrives, and none that was lost while nobody used it.

redis-py sends with `asyncio.wait_for`, which up to Python 3.11 returns the result of a send that has just ended instead
of the cancellation (python/cpython#86296). A loop with a time limit then goes on after it, and a task that was
cancelled stays.

Its pool looks at a connection before it lends it, and makes another if it was closed; but not while it hopes for news
of maintenance, as it does unless told otherwise, and it takes a connection that was reset for an idle one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from redis.asyncio import Redis
from redis.asyncio.connection import AbstractConnection, Connection, SSLConnection, UnixDomainSocketConnection
from redis.exceptions import TimeoutError as NotSent
from redis.maint_notifications import MaintNotificationsConfig


class _CancellableConnection(AbstractConnection):
    """Sends within the time limit of its socket, by a time-out that cannot lose a cancellation."""

    async def send_packed_command(self, command: bytes | str | Iterable[bytes], check_health: bool = True) -> None:
        """As its base, which sends without `wait_for` while it has no time limit; raises `RedisError`."""
        limit, self.socket_timeout = self.socket_timeout, None
        try:
            async with asyncio.timeout(limit):
                await super().send_packed_command(command, check_health)
        except TimeoutError:
            raise NotSent("Timeout writing to socket") from None
        finally:
            self.socket_timeout = limit

    async def can_read(self) -> bool:
        """As its base, which tells the pool by it that a connection was closed; also if it was reset."""
        reset = self._reader is not None and self._reader.exception() is not None
        return reset or await super().can_read()


class _CancellableTcp(_CancellableConnection, Connection):
    pass


class _CancellableTls(_CancellableConnection, SSLConnection):
    pass


class _CancellableUnix(_CancellableConnection, UnixDomainSocketConnection):
    pass


_CLASSES: Final[dict[type[AbstractConnection], type[AbstractConnection]]] = {
    Connection: _CancellableTcp,
    SSLConnection: _CancellableTls,
    UnixDomainSocketConnection: _CancellableUnix,
}


def redis_client(url: str, *, timeout: float, connect_timeout: float, decode_responses: bool = False) -> Redis:
    """A client of the Redis at `url` that repeats nothing by itself; both limits in seconds."""
    client: Redis = Redis.from_url(
        url,
        socket_timeout=timeout,
        socket_connect_timeout=connect_timeout,
        retry_on_timeout=False,
        retry=None,
        decode_responses=decode_responses,
        maint_notifications_config=MaintNotificationsConfig(enabled=False),
    )
    pool = client.connection_pool
    pool.connection_class = _CLASSES[pool.connection_class]
    return client
