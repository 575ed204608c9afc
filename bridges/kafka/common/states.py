"""State machines as tables: an enum of states, an enum of events, and a table of transitions. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TypeVar

S = TypeVar("S", bound=Enum)
E = TypeVar("E", bound=Enum)
Table = Mapping[S, Mapping[E, S]]
"""For each state, the events that it handles and the state that each leads to; any other event raises an error."""


class TransitionRefused(RuntimeError):
    """An event that cannot happen in this state: a bug of the caller."""


def next_state(table: Table[S, E], state: S, event: E) -> S:
    """The state after `event`; raises TransitionRefused if the table has none."""
    found = table[state].get(event)
    if found is None:
        raise TransitionRefused(f"{event} cannot happen in {state}")
    return found
