"""The states of a direct node, and their transitions. Pure.

The state changes when links come and go, when messages begin or cease to wait, and when the node ends, but not for a
message that is passed on at once. `TRANSITIONS` has the next state for every event in every state, or None where the
event cannot happen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final, NamedTuple


class NodeState(Enum):
    """What happens to a message that comes now."""

    UNATTENDED = "it goes back: there is no receiver"
    SOLE = "it goes straight to the one receiver, which takes everything"
    SHARED = "it goes to the receiver whose turn it is, or waits for credit"
    HOLDING = "it waits behind a message whose cookie is still to be stored"
    CLOSED = "it goes back: the last link has left, or the node was removed"


class NodeEvent(Enum):
    """Events that may change the state."""

    RECEIVER_JOINED = "a receiver has attached"
    MESSAGE_WAITS = "a message begins to wait for credit"
    COOKIE_PENDING = "the cookie of a message may have to be stored first"
    SETTLED_DOWN = "a receiver has left or has credit, or what waited is gone"
    LAST_LINK_LEFT = "no link is left"
    REMOVED = "the node is taken away from its links"


class Facts(NamedTuple):
    """The facts that determine the next state."""

    receivers: int
    takes_all: bool
    """No receiver has a filter, and messages are not copied."""
    waiting: bool
    """Messages wait."""
    holding: bool
    """One of them waits until its cookie is stored."""


def _by_facts(facts: Facts) -> NodeState:
    if facts.holding:
        return NodeState.HOLDING
    if not facts.receivers:
        return NodeState.UNATTENDED
    sole = facts.receivers == 1 and facts.takes_all and not facts.waiting
    return NodeState.SOLE if sole else NodeState.SHARED


def _closed(facts: Facts) -> NodeState:
    return NodeState.CLOSED


Rule = Callable[[Facts], NodeState]
TRANSITIONS: Final[Mapping[NodeState, Mapping[NodeEvent, Rule | None]]] = {
    NodeState.UNATTENDED: {
        NodeEvent.RECEIVER_JOINED: _by_facts,
        NodeEvent.MESSAGE_WAITS: None,  # nothing waits where nobody receives
        NodeEvent.COOKIE_PENDING: None,  # cookies are made for a receiver
        NodeEvent.SETTLED_DOWN: _by_facts,
        NodeEvent.LAST_LINK_LEFT: _closed,
        NodeEvent.REMOVED: _closed,
    },
    NodeState.SOLE: {
        NodeEvent.RECEIVER_JOINED: _by_facts,
        NodeEvent.MESSAGE_WAITS: _by_facts,
        NodeEvent.COOKIE_PENDING: _by_facts,
        NodeEvent.SETTLED_DOWN: _by_facts,
        NodeEvent.LAST_LINK_LEFT: None,  # the receiver is a link
        NodeEvent.REMOVED: _closed,
    },
    NodeState.SHARED: {
        NodeEvent.RECEIVER_JOINED: _by_facts,
        NodeEvent.MESSAGE_WAITS: _by_facts,
        NodeEvent.COOKIE_PENDING: _by_facts,
        NodeEvent.SETTLED_DOWN: _by_facts,
        NodeEvent.LAST_LINK_LEFT: None,  # the receivers are links
        NodeEvent.REMOVED: _closed,
    },
    NodeState.HOLDING: {
        NodeEvent.RECEIVER_JOINED: _by_facts,
        NodeEvent.MESSAGE_WAITS: _by_facts,
        NodeEvent.COOKIE_PENDING: _by_facts,
        NodeEvent.SETTLED_DOWN: _by_facts,
        NodeEvent.LAST_LINK_LEFT: _closed,  # the held message came settled: nobody could send it again
        NodeEvent.REMOVED: _closed,
    },
    NodeState.CLOSED: {
        NodeEvent.RECEIVER_JOINED: _by_facts,  # a connector's node is used again when the connector is back
        NodeEvent.MESSAGE_WAITS: _closed,  # links that are about to be detached may still send
        NodeEvent.COOKIE_PENDING: _closed,
        NodeEvent.SETTLED_DOWN: _closed,
        NodeEvent.LAST_LINK_LEFT: None,  # it has been told once
        NodeEvent.REMOVED: _closed,
    },
}
"""By state and event: how the next state follows from the facts; None: the event cannot happen in this state."""


def next_state(state: NodeState, event: NodeEvent, facts: Facts) -> NodeState:
    """The state after `event`; raises RuntimeError for one that cannot happen in `state`."""
    rule = TRANSITIONS[state][event]
    if rule is None:
        raise RuntimeError(f"a direct node that is {state.name} has the event {event.name}")
    return rule(facts)
