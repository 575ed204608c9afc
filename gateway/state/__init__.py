"""What gateways share: behind one protocol, in memory for one process or in Redis for several."""

from __future__ import annotations

from gateway.state.base import State
from gateway.state.memory import MemoryState
from gateway.state.memory_store import MemoryStore
from gateway.state.store import Store
from gateway.state.termini import EACH

__all__ = ["MemoryState", "MemoryStore", "State", "Store", "open_state"]


def open_state(where: str, user_termini: int = EACH) -> State:
    """The state the policy names: `memory`, or a `redis://` or `rediss://` URL; connects when it runs.

    `user_termini`: how many durable termini one user may have.
    """
    if where == "memory":
        return MemoryState(user_termini)
    # Here, because importing the client costs a twentieth of a second that most gateways do not need.
    from gateway.state.redis import RedisState

    return RedisState(where, user_termini=user_termini)
