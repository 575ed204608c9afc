"""Which leases a policy means."""

from __future__ import annotations

from gateway.state.leases import Leases
from gateway.state.leases_board import MemoryBoard
from gateway.tasks import Supervisor


def open_leases(where: str, ttl: float, supervisor: Supervisor) -> Leases:
    """Leases at the state the policy names: in memory, or in Redis with sessions of `ttl` seconds."""
    if where == "memory":
        return Leases(MemoryBoard(), supervisor)
    # Here, because importing the client costs a twentieth of a second that most gateways do not need.
    from gateway.state.leases_redis import RedisBoard

    return Leases(RedisBoard(where, ttl), supervisor)
