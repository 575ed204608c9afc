"""The state that gateways share, behind one protocol: in memory for one process, or in Redis for several.

The only package that uses the Redis client. It knows no links, nodes or messages, only keys and values.
"""

from __future__ import annotations

from gateway.state.base import State
from gateway.state.counters.memory_store import MemoryCounterStore
from gateway.state.counters.store import CounterStore
from gateway.state.memory import MemoryState
from gateway.state.termini.store import EACH

__all__ = ["CounterStore", "MemoryCounterStore", "MemoryState", "State", "open_state"]


def open_state(where: str, user_termini: int = EACH) -> State:
    """The state the policy names: `memory`, or a `redis://` or `rediss://` URL; connects when it runs.

    `user_termini`: how many durable termini one user may have.
    """
    if where == "memory":
        return MemoryState(user_termini)
    # Imported here, because the client takes 50 ms to import and most gateways do not need it.
    from gateway.state.redis import RedisState

    return RedisState(where, user_termini=user_termini)
