"""The right of a requester to its reply-to, checked when a cookie or token is first made of it (RA 2.3, 2.5).

The gateway itself sends responses, and it may send anywhere. So the requester needs a right at its reply-to: an access
entry for sending, or for receiving where nothing is stored (a topic stores the response for all its readers). Its own
temporary nodes need no entry, nor do response addresses of this gateway, where the response needs a cookie or token.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Final, Protocol

from gateway.errors import UNAUTHORIZED_ACCESS, AmqpError, quoted
from gateway.principal import Container, Requester, User
from policies.reserved import TEMPORARY
from policies.rules import RelayRoute

if TYPE_CHECKING:
    from policies.rules import ScopeRules

_REMEMBERED: Final = 256
"""Maximum number of allowed addresses that are remembered for one requester."""


_MAX_REQUESTERS: Final = 4096
ANONYMOUS: Final = "anonymous"
"""The user of all clients without a login."""


class NodeCreator(Protocol):
    """The link that created a temporary node."""

    @property
    def incoming(self) -> bool: ...
    @property
    def requester(self) -> Requester: ...
    @property
    def engine(self) -> object: ...


class CreatedNode(Protocol):
    """A temporary node."""

    @property
    def creator(self) -> NodeCreator: ...


class CreatedNodes(Protocol):
    """The temporary nodes of a scope."""

    def find(self, address: str) -> CreatedNode | None: ...


class RequesterScope(Protocol):
    """What the right of a requester needs of its scope."""

    @property
    def name(self) -> str: ...
    @property
    def rules(self) -> ScopeRules: ...
    @property
    def reply_requesters(self) -> dict[str, Requester]: ...
    @property
    def temporaries(self) -> CreatedNodes: ...
    def takes_replies(self, address: str) -> bool: ...


class ReplyRight:
    """The right of one requester to be answered at addresses of its scope.

    Requesters with equal `key` have the same rights, so transforms made for one serve the others.
    """

    __slots__ = ("_known", "_requester", "_scope", "_user", "key")

    def __init__(self, scope: RequesterScope | None, requester: Requester) -> None:
        """`scope` None: it was removed, and nobody has rights in it."""
        self._requester: Final = requester
        self._scope: Final = scope if scope is not None and scope.name == requester.scope else None
        self._user: Final = requester.name if isinstance(requester, User) else ""
        self._known: Final[set[str]] = set()
        self.key: Final[Hashable] = self._key()

    def _key(self) -> Hashable:
        connector = self._requester.connector if isinstance(self._requester, Container) else None
        return None if self._scope is None else (connector, self._scope.rules.entries_for(self._user))

    def __call__(self, address: str) -> bool:
        """Check the right; returns whether it holds for all with this `key`, and raises AmqpError if there is none."""
        scope = self._scope
        if address in self._known:
            return True
        if scope is None:
            raise _refusal(address)
        if address.startswith(TEMPORARY):
            return self._at_temporary(scope, address)
        if not (self._may(scope, address) or scope.takes_replies(address)):
            raise _refusal(address)
        if len(self._known) < _REMEMBERED:
            self._known.add(address)
        if len(scope.reply_requesters) >= _MAX_REQUESTERS:
            scope.reply_requesters.clear()
        scope.reply_requesters[address] = self._requester
        return True

    def _may(self, scope: RequesterScope, address: str) -> bool:
        if scope.rules.may_be_answered_at(self._user, address):
            return True
        if not isinstance(self._requester, Container):
            return False
        route = scope.rules.route(address)  # back to the container that the request came from
        return isinstance(route, RelayRoute) and route.connector == self._requester.connector

    def _at_temporary(self, scope: RequesterScope, address: str) -> bool:
        """Everybody may send to one whose creator receives; to any other one only the creator may.

        A node that is not here may be in another process; otherwise the response will not be found.
        """
        node = scope.temporaries.find(address)
        if node is None or not node.creator.incoming:
            return True
        if node.creator.requester == self._requester:
            return False
        raise _refusal(address)


def requester_at(scope: RequesterScope, address: str) -> Hashable:
    """The requester with this reply address, as far as this process knows; used for fair shares, not for rights.

    All anonymous clients are one user, so each of their addresses counts separately.
    """
    if (node := scope.temporaries.find(address)) is not None:
        return node.creator.engine
    found = scope.reply_requesters.get(address)
    return address if found is None or found == User(scope.name, ANONYMOUS) else found


def permit(scope: RequesterScope | None, requester: Requester) -> ReplyRight:
    """The right of `requester`, whose messages leave `scope`."""
    return ReplyRight(scope, requester)


def _refusal(address: str) -> AmqpError:
    needed = "the requester must have the right to send to it, or to receive from it if it is not a topic"
    return AmqpError(UNAUTHORIZED_ACCESS, f"reply-to {quoted(address)}: {needed}")
