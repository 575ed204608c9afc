"""The states of a connector's reply address, and their transitions (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final


class ReplyState(Enum):
    """The state of the address for responses of the container."""

    DISCONNECTED = "disconnected"
    UNUSED = "unused"
    """Connected; no request has needed the address yet."""
    ATTACHING = "attaching"
    """Our attach was sent; requests wait for the answer."""
    REFUSED = "refused"
    """The queue was refused; we attach again after a pause, and requests wait for that."""
    KNOWN = "known"
    """Requests use the address, or that of the gateway if the container has none for us."""
    LOST = "lost"
    """The container has ended our link; requests use the old address until there is a new one."""
    REATTACHING = "reattaching"
    """The same, and our attach was sent again."""


class ReplyEvent(Enum):
    """Events of the address."""

    CONNECTED = "connected"
    DISCONNECTED = "disconnected"
    OWN_ADDRESS = "own address"
    """The policy uses an address of this gateway: no link is needed."""
    NEEDED = "needed"
    """A request needs the address, or the policy names a queue that may hold responses."""
    ATTACHED = "attached"
    """The container has answered our attach."""
    REFUSED = "refused"
    """The container refuses the queue."""
    UNSUPPORTED = "unsupported"
    """The container has no dynamic node for us."""
    LINK_LOST = "link lost"
    """Our link has ended, but not its connection."""
    RETRY = "retry"
    """The pause is over."""


class ReplyAction(Enum):
    """Actions for the address."""

    IGNORE = "ignore"
    RESET = "reset"
    """Forget the requests that waited on the old connection: they ask again."""
    WAIT = "wait"
    """The request waits until the address is known."""
    ANSWER = "answer"
    """The request can be sent at once."""
    ATTACH = "attach"
    """Attach our link; a request waits until the address is known."""
    USE_ADDRESS = "use address"
    """Receive responses at the address of our link, and let requests continue."""
    USE_GATEWAY = "use gateway"
    """Let requests use an address of this gateway."""
    FAIL = "fail"
    """Fail the waiting requests, and attach again after a pause."""
    PAUSE = "pause"
    """Attach again after a pause."""


_S, _E, _A = ReplyState, ReplyEvent, ReplyAction
Step = tuple[ReplyState, ReplyAction]


def _rows(state: ReplyState, rows: Mapping[ReplyEvent, Step]) -> dict[tuple[ReplyState, ReplyEvent], Step]:
    """The transitions of one state; a new connection and the end of the old one are the same in every state."""
    both = {_E.CONNECTED: (_S.UNUSED, _A.RESET), _E.DISCONNECTED: (_S.DISCONNECTED, _A.RESET)}
    return {(state, event): step for event, step in {**both, **rows}.items()}


def _ignored(state: ReplyState, *events: ReplyEvent) -> dict[ReplyEvent, Step]:
    return dict.fromkeys(events, (state, _A.IGNORE))


_ANSWERS: Final = (_E.ATTACHED, _E.REFUSED, _E.UNSUPPORTED)
_IN_ANSWER: Final[dict[ReplyEvent, Step]] = {
    _E.ATTACHED: (_S.KNOWN, _A.USE_ADDRESS),
    _E.REFUSED: (_S.REFUSED, _A.FAIL),
    _E.UNSUPPORTED: (_S.KNOWN, _A.USE_GATEWAY),
}
"""Transitions for the answer to our attach, the same in several states."""

TRANSITIONS: Final[Mapping[tuple[ReplyState, ReplyEvent], Step]] = {
    **_rows(_S.DISCONNECTED, {
        _E.NEEDED: (_S.DISCONNECTED, _A.WAIT),
        **_ignored(_S.DISCONNECTED, _E.OWN_ADDRESS, *_ANSWERS, _E.LINK_LOST, _E.RETRY),
    }),
    **_rows(_S.UNUSED, {
        _E.OWN_ADDRESS: (_S.KNOWN, _A.IGNORE),
        _E.NEEDED: (_S.ATTACHING, _A.ATTACH),
        **_ignored(_S.UNUSED, *_ANSWERS, _E.LINK_LOST, _E.RETRY),
    }),
    **_rows(_S.ATTACHING, {
        _E.NEEDED: (_S.ATTACHING, _A.WAIT),
        **_IN_ANSWER,
        **_ignored(_S.ATTACHING, _E.OWN_ADDRESS, _E.LINK_LOST, _E.RETRY),
    }),
    **_rows(_S.REFUSED, {
        _E.NEEDED: (_S.REFUSED, _A.WAIT),
        _E.RETRY: (_S.ATTACHING, _A.ATTACH),
        **_ignored(_S.REFUSED, _E.OWN_ADDRESS, *_ANSWERS, _E.LINK_LOST),
    }),
    **_rows(_S.KNOWN, {
        _E.NEEDED: (_S.KNOWN, _A.ANSWER),
        _E.LINK_LOST: (_S.LOST, _A.PAUSE),
        **_ignored(_S.KNOWN, _E.OWN_ADDRESS, *_ANSWERS, _E.RETRY),
    }),
    **_rows(_S.LOST, {
        _E.NEEDED: (_S.LOST, _A.ANSWER),
        _E.RETRY: (_S.REATTACHING, _A.ATTACH),
        **_ignored(_S.LOST, _E.OWN_ADDRESS, *_ANSWERS, _E.LINK_LOST),
    }),
    **_rows(_S.REATTACHING, {
        _E.NEEDED: (_S.REATTACHING, _A.ANSWER),
        **_IN_ANSWER,
        **_ignored(_S.REATTACHING, _E.OWN_ADDRESS, _E.LINK_LOST, _E.RETRY),
    }),
}  # fmt: skip
"""For each event in each state: the next state and the action."""
