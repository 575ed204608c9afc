"""Who acts: whose rights count when an address is resolved, and whose reply-tos the messages of a link carry.

Every link has a principal, and the resolver cannot be asked without one (`gateway.nodes.scope`). Three kinds act:
a user of a scope, whose rights the policy's access entries are; whoever sends through the container behind a
connector; and the gateway itself, for one named purpose and with no other right than that purpose needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, Protocol

Purpose = Literal["pull", "bridge", "response"]


@dataclass(frozen=True, slots=True)
class User:
    """A user of `scope`; an empty `name` is nobody in particular, who may do what everybody may."""

    scope: str
    name: str


@dataclass(frozen=True, slots=True)
class Container:
    """Whoever sends through the container behind `connector`: no user of `scope`, so it resolves no address there.

    A response to its requests may go back to that container, and where everybody may send or receive.
    """

    scope: str
    connector: str


@dataclass(frozen=True, slots=True)
class GatewayItself:
    """The gateway in `scope`, for `purpose`; `address` is the only one it may use, None for any.

    A response may go to any address, because the right of its requester was checked at the request.
    """

    scope: str
    purpose: Purpose
    address: str | None = None

    def may(self, action: str, address: str) -> bool:
        """Whether the purpose needs it."""
        return action in _RIGHTS[self.purpose] and self.address in (None, address)


_RIGHTS: Final[Mapping[Purpose, frozenset[str]]] = {
    "pull": frozenset(("send",)),
    "bridge": frozenset(("send", "receive")),
    "response": frozenset(("send",)),
}
Requester = User | Container
"""Whose message it is, and so whose right to be answered at its reply-to counts."""
Principal = User | GatewayItself
"""Who may resolve an address."""


def nobody(scope: str) -> User:
    """Nobody in particular in `scope`: what everybody may do there, and nothing else."""
    return User(scope, "")


class HasRequester(Protocol):
    """A link, as far as it says whose messages it carries."""

    @property
    def requester(self) -> Requester: ...


def client(link: HasRequester) -> User:
    """The user behind a link of a listener; raises TypeError for any other link."""
    if not isinstance(link.requester, User):
        raise TypeError(f"no client of a listener: {link.requester}")
    return link.requester


def user_name(principal: Principal) -> str | None:
    """The user, for the journal; None is the gateway itself."""
    return principal.name if isinstance(principal, User) else None
