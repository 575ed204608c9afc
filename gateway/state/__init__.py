"""What gateways share: behind one protocol, in memory for one process or in Redis for several.

The only room that uses the Redis client. Knows no links, nodes or messages: keys and values go in and out.
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
    # Here, because importing the client costs a twentieth of a second that most gateways do not need.
    from gateway.state.redis import RedisState

    return RedisState(where, user_termini=user_termini)
