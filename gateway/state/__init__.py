"""What gateways share: behind one protocol, in memory for one process or in Redis for several."""

from __future__ import annotations

from gateway.state.base import State
from gateway.state.memory import MemoryState
from gateway.state.memory_store import MemoryStore
from gateway.state.store import Store

__all__ = ["MemoryState", "MemoryStore", "State", "Store", "open_state"]


def open_state(where: str) -> State:
    """The state the policy names: `memory`, or a `redis://` or `rediss://` URL; connects when it runs."""
    if where == "memory":
        return MemoryState()
    # Here, because importing the client costs a twentieth of a second that most gateways do not need.
    from gateway.state.redis import RedisState

    return RedisState(where)
