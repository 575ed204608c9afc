"""Reads one value of shared state for `scopegate cookie inspect`, without a gateway and with a short time limit."""

from __future__ import annotations

from typing import Final

from gateway.state.counters.redis_store import PREFIX

_TIMEOUT: Final = 2.0


def read_value(where: str, key: str) -> tuple[bytes | None, str]:
    """The value at `key` (empty: there is none), or None and why it cannot be read. `where` is `gateway.state`."""
    if where == "memory":
        return None, "in the memory of the gateway (gateway.state: memory), where only that looks"
    from redis import Redis
    from redis.exceptions import RedisError

    try:
        with Redis.from_url(where, socket_timeout=_TIMEOUT, socket_connect_timeout=_TIMEOUT, retry=None) as client:
            value = client.get(PREFIX + key)
    except (RedisError, OSError) as error:
        return None, f"in {where}, which does not answer: {error}"
    return (value if isinstance(value, bytes) else b""), f"in {where}"
