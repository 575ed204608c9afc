"""State in Redis: connects, checks the connection, and reconnects."""

from __future__ import annotations

import asyncio
from typing import Final

from redis.exceptions import RedisError, ResponseError

from gateway.observability.logs import get_logger
from gateway.state.counters.redis_store import PREFIX, RedisCounterStore
from gateway.state.redis_connections import redis_client
from gateway.state.subscriptions.redis_store import RedisSubscriptionStore
from gateway.state.termini.redis_store import RedisTermini
from gateway.state.termini.store import EACH

LOG: Final = get_logger(__name__)
TIMEOUT: Final = 2.0
"""Time limit of a command in seconds: enough for a busy Redis, and not too long for `/readyz`."""
_PROBE: Final = f"{PREFIX}writable"
_PROBE_TTL: Final = 60
"""Seconds that it stays after the last gateway."""
LISTEN: Final = 5.0
"""Time limit in seconds of calls that wait for a change."""


class RedisState:
    """A Redis server by URL. The URL may contain a password, so only host and port are shown."""

    def __init__(self, url: str, *, every: float = 1.0, user_termini: int = EACH) -> None:
        self._client: Final = redis_client(url, timeout=TIMEOUT, connect_timeout=TIMEOUT)
        self._listener: Final = redis_client(url, timeout=LISTEN, connect_timeout=TIMEOUT)
        known = self._client.connection_pool.connection_kwargs
        self._where = str(known.get("path") or f"{known.get('host', 'localhost')}:{known.get('port', 6379)}")
        self._every = every
        self._asked = False
        self._ready = False
        self._answers = False
        """Whether it answers at all: one that is full, or a replica, still reads."""
        self._detail = "not asked yet"
        self.termini: Final = RedisTermini(self._client, user_termini)
        self.subscriptions: Final = RedisSubscriptionStore(self._client, self._listener)
        self.store: Final = RedisCounterStore(self._client, lambda: self._asked and not self._answers)

    def ready(self) -> tuple[bool, str]:
        """Whether the last write succeeded."""
        return self._ready, f"redis {self._where}: {self._detail}"

    async def run(self) -> None:
        """Write until cancelled: a Redis that is full, or has become a replica, answers a PING and stores nothing."""
        while True:
            self._note(await self._write())
            await asyncio.sleep(self._every)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()
        await self._listener.aclose()

    async def _write(self) -> str | None:
        """None if it was written, else the problem."""
        try:
            await self._client.set(_PROBE, b"", ex=_PROBE_TTL)
        except ResponseError as error:
            self._answers = True
            return f"it cannot be written: {error}"
        except (RedisError, OSError, TimeoutError) as error:
            self._answers = False
            return str(error) or type(error).__name__
        self._answers = True
        return None

    def _note(self, trouble: str | None) -> None:
        ready = trouble is None
        if ready != self._ready or not self._asked:
            log = LOG.info if ready else LOG.warning
            log("state connected" if ready else "state lost", redis=self._where, detail=trouble)
        self._asked = True
        self._ready = ready
        self._detail = trouble or "connected"
