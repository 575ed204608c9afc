"""Where a requester may be answered: asked when its reply-to is first made into a cookie or a token (RA 2.3, 2.5).

A response is brought home by the gateway itself, which may send anywhere. So whose reply-to it is has to have a right
there: an access entry that lets it send at the address, or receive where nothing is kept (a topic keeps the response
for all its readers). Its own temporary nodes need none, nor does an address under which this gateway takes responses:
there the response needs a cookie or token of its own.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Final, Protocol

from gateway.errors import UNAUTHORIZED_ACCESS, AmqpError, quoted
from gateway.principal import Container, Requester, User
from gateway.routing.reserved import TEMPORARY
from policies.rules import RelayRoute

if TYPE_CHECKING:
    from policies.rules import ScopeRules

_REMEMBERED: Final = 256
"""Addresses that are known to be allowed, of one requester."""


_MAX_REQUESTERS: Final = 4096
ANONYMOUS: Final = "anonymous"
"""The user that all clients without a login are."""


class NodeCreator(Protocol):
    """The link that made a temporary node."""

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
    """The scope of a requester, as far as its rights to be answered go."""

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

    Requesters with an equal `key` have the same rights: what is made for one may serve the others.
    """

    __slots__ = ("_known", "_requester", "_scope", "_user", "key")

    def __init__(self, scope: RequesterScope | None, requester: Requester) -> None:
        """`scope` None: it is gone, and nobody may do anything there."""
        self._requester: Final = requester
        self._scope: Final = scope if scope is not None and scope.name == requester.scope else None
        self._user: Final = requester.name if isinstance(requester, User) else ""
        self._known: Final[set[str]] = set()
        self.key: Final[Hashable] = self._key()

    def _key(self) -> Hashable:
        connector = self._requester.connector if isinstance(self._requester, Container) else None
        return None if self._scope is None else (connector, self._scope.rules.entries_for(self._user))

    def __call__(self, address: str) -> bool:
        """Whether the answer is the same for all with this `key`; raises AmqpError where there is no right."""
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
        route = scope.rules.route(address)  # back to where the request came from
        return isinstance(route, RelayRoute) and route.connector == self._requester.connector

    def _at_temporary(self, scope: RequesterScope, address: str) -> bool:
        """Everybody may send to one where its creator receives; to any other only who made it.

        One that is not here may be in another process; if there is none, the response will find none.
        """
        node = scope.temporaries.find(address)
        if node is None or not node.creator.incoming:
            return True
        if node.creator.requester == self._requester:
            return False
        raise _refusal(address)


def requester_at(scope: RequesterScope, address: str) -> Hashable:
    """Whose responses come to `address`, as far as this process knows; for shares, not for rights.

    All anonymous clients are one user: each address stands for itself.
    """
    if (node := scope.temporaries.find(address)) is not None:
        return node.creator.engine
    found = scope.reply_requesters.get(address)
    return address if found is None or found == User(scope.name, ANONYMOUS) else found


def permit(scope: RequesterScope | None, requester: Requester) -> ReplyRight:
    """The right that decides on the reply-tos of `requester`, whose messages leave `scope`."""
    return ReplyRight(scope, requester)


def _refusal(address: str) -> AmqpError:
    needed = "the requester must have the right to send to it, or to receive from it if it is not a topic"
    return AmqpError(UNAUTHORIZED_ACCESS, f"reply-to {quoted(address)}: {needed}")
