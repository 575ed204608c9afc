"""The states of a relay through a connector, and their transitions (pure).

The local link is that of the gateway's own peer; the remote link is the one at the container behind the connector.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final


class RelayState(Enum):
    """The state of a relay."""

    ATTACHING = "attaching"
    """The local attach has no answer yet: the container is not connected, or has not answered."""
    OPEN = "open"
    """Both links are open."""
    LOST = "lost"
    """The connection to the container was lost; the local link stays open, without credit."""
    ENDED = "ended"
    """The local link was refused or has ended."""


class RelayEvent(Enum):
    """Events of a relay."""

    CONNECTED = "connected"
    """The connector is connected."""
    ROUTABLE = "routable"
    """Responses to requests on the local link can be received: the remote link can be attached."""
    ATTACHED = "attached"
    """The container has answered the attach of the remote link."""
    REFUSED = "refused"
    """The container refuses the remote link, or responses cannot be received."""
    TIMED_OUT = "timed out"
    """The local attach has timed out."""
    REMOTE_DETACHED = "remote detached"
    """The remote link has ended, but not its connection."""
    REMOTE_LOST = "remote lost"
    """The remote link has ended with its connection."""
    UNANSWERABLE = "unanswerable"
    """The local attach cannot be answered with the container's answer."""
    LOCAL_ENDED = "local ended"
    """The local link has ended, by either side."""


class RelayAction(Enum):
    """Actions of a relay."""

    IGNORE = "ignore"
    FIND_RETURN = "find return"
    """Find the address for responses, then attach the remote link."""
    ATTACH_REMOTE = "attach remote"
    ACCEPT_LOCAL = "accept local"
    """Answer the local attach with the container's answer."""
    RESUME = "resume"
    """Grant credit again."""
    REFUSE_LOCAL = "refuse local"
    DETACH_LOCAL = "detach local"
    DETACH_REMOTE = "detach remote"


_S, _E, _A = RelayState, RelayEvent, RelayAction

TRANSITIONS: Final[Mapping[tuple[RelayState, RelayEvent], tuple[RelayState, RelayAction]]] = {
    (_S.ATTACHING, _E.CONNECTED): (_S.ATTACHING, _A.FIND_RETURN),
    (_S.ATTACHING, _E.ROUTABLE): (_S.ATTACHING, _A.ATTACH_REMOTE),
    (_S.ATTACHING, _E.ATTACHED): (_S.OPEN, _A.ACCEPT_LOCAL),
    (_S.ATTACHING, _E.REFUSED): (_S.ENDED, _A.REFUSE_LOCAL),
    (_S.ATTACHING, _E.TIMED_OUT): (_S.ENDED, _A.REFUSE_LOCAL),
    (_S.ATTACHING, _E.REMOTE_DETACHED): (_S.ENDED, _A.REFUSE_LOCAL),
    (_S.ATTACHING, _E.REMOTE_LOST): (_S.ATTACHING, _A.IGNORE),  # attach on the next connection
    (_S.ATTACHING, _E.UNANSWERABLE): (_S.ATTACHING, _A.IGNORE),
    (_S.ATTACHING, _E.LOCAL_ENDED): (_S.ENDED, _A.DETACH_REMOTE),
    (_S.OPEN, _E.CONNECTED): (_S.OPEN, _A.IGNORE),
    (_S.OPEN, _E.ROUTABLE): (_S.OPEN, _A.IGNORE),
    (_S.OPEN, _E.ATTACHED): (_S.OPEN, _A.IGNORE),
    (_S.OPEN, _E.REFUSED): (_S.ENDED, _A.DETACH_LOCAL),
    (_S.OPEN, _E.TIMED_OUT): (_S.OPEN, _A.IGNORE),
    (_S.OPEN, _E.REMOTE_DETACHED): (_S.ENDED, _A.DETACH_LOCAL),
    (_S.OPEN, _E.REMOTE_LOST): (_S.LOST, _A.IGNORE),
    (_S.OPEN, _E.UNANSWERABLE): (_S.ENDED, _A.REFUSE_LOCAL),
    (_S.OPEN, _E.LOCAL_ENDED): (_S.ENDED, _A.DETACH_REMOTE),
    (_S.LOST, _E.CONNECTED): (_S.LOST, _A.FIND_RETURN),
    (_S.LOST, _E.ROUTABLE): (_S.LOST, _A.ATTACH_REMOTE),
    (_S.LOST, _E.ATTACHED): (_S.OPEN, _A.RESUME),
    (_S.LOST, _E.REFUSED): (_S.ENDED, _A.DETACH_LOCAL),
    (_S.LOST, _E.TIMED_OUT): (_S.LOST, _A.IGNORE),
    (_S.LOST, _E.REMOTE_DETACHED): (_S.ENDED, _A.DETACH_LOCAL),
    (_S.LOST, _E.REMOTE_LOST): (_S.LOST, _A.IGNORE),
    (_S.LOST, _E.UNANSWERABLE): (_S.LOST, _A.IGNORE),
    (_S.LOST, _E.LOCAL_ENDED): (_S.ENDED, _A.DETACH_REMOTE),
    (_S.ENDED, _E.CONNECTED): (_S.ENDED, _A.IGNORE),
    (_S.ENDED, _E.ROUTABLE): (_S.ENDED, _A.IGNORE),
    (_S.ENDED, _E.ATTACHED): (_S.ENDED, _A.DETACH_REMOTE),  # the local link has ended meanwhile
    (_S.ENDED, _E.REFUSED): (_S.ENDED, _A.IGNORE),
    (_S.ENDED, _E.TIMED_OUT): (_S.ENDED, _A.IGNORE),
    (_S.ENDED, _E.REMOTE_DETACHED): (_S.ENDED, _A.IGNORE),
    (_S.ENDED, _E.REMOTE_LOST): (_S.ENDED, _A.IGNORE),
    (_S.ENDED, _E.UNANSWERABLE): (_S.ENDED, _A.IGNORE),
    (_S.ENDED, _E.LOCAL_ENDED): (_S.ENDED, _A.IGNORE),
}
"""For each event in each state: the next state and the action."""
