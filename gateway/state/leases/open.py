"""Which leases a policy means."""

from __future__ import annotations

from gateway.state.leases.manager import Leases
from gateway.state.leases.store import MemoryLeaseStore
from gateway.tasks import Supervisor


def open_leases(where: str, ttl: float, supervisor: Supervisor) -> Leases:
    """Leases at the state the policy names: in memory, or in Redis with sessions of `ttl` seconds."""
    if where == "memory":
        return Leases(MemoryLeaseStore(), supervisor)
    # Here, because importing the client costs a twentieth of a second that most gateways do not need.
    from gateway.state.leases.redis_store import RedisLeaseStore

    return Leases(RedisLeaseStore(where, ttl), supervisor)
