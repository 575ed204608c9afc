"""Opens the leases in the shared state that a policy configures."""

from __future__ import annotations

from gateway.state.leases.manager import Leases
from gateway.state.leases.store import MemoryLeaseStore
from gateway.tasks import Supervisor


def open_leases(where: str, ttl: float, supervisor: Supervisor) -> Leases:
    """Leases in memory, or in Redis with sessions of `ttl` seconds."""
    if where == "memory":
        return Leases(MemoryLeaseStore(), supervisor)
    # Imported here, because importing the client takes 50 ms and most gateways do not need it.
    from gateway.state.leases.redis_store import RedisLeaseStore

    return Leases(RedisLeaseStore(where, ttl), supervisor)
