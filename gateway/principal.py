"""Principals, whose rights count when an address is resolved, and requesters, who own the reply-tos of messages.

Every link has a principal, which the resolver needs (`gateway.nodes.scope`). There are three kinds: a user of a scope,
with the rights of the policy's access entries; the senders behind a connector; and the gateway itself, for one purpose
and with only the rights that it needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, Protocol

Purpose = Literal["pull", "bridge", "response"]


@dataclass(frozen=True, slots=True)
class User:
    """A user of `scope`; an empty `name` is an unknown user, with the rights that everybody has."""

    scope: str
    name: str


@dataclass(frozen=True, slots=True)
class Container:
    """The senders behind `connector`, which are no users of `scope` and resolve no addresses there.

    Responses to their requests may go back to that container, and to addresses where everybody may send or receive.
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
        """Whether the purpose allows the action at the address."""
        return action in _RIGHTS[self.purpose] and self.address in (None, address)


_RIGHTS: Final[Mapping[Purpose, frozenset[str]]] = {
    "pull": frozenset(("send",)),
    "bridge": frozenset(("send", "receive")),
    "response": frozenset(("send",)),
}
Requester = User | Container
"""The owner of a message, whose right to its reply-to counts."""
Principal = User | GatewayItself
"""A principal that may resolve addresses."""


def nobody(scope: str) -> User:
    """An unknown user of `scope`, with the rights that everybody has there."""
    return User(scope, "")


class HasRequester(Protocol):
    """What `client` uses of a link."""

    @property
    def requester(self) -> Requester: ...


def client(link: HasRequester) -> User:
    """The user of a listener's link; raises TypeError for any other link."""
    if not isinstance(link.requester, User):
        raise TypeError(f"no client of a listener: {link.requester}")
    return link.requester


def user_name(principal: Principal) -> str | None:
    """The user, for the journal; None for the gateway itself."""
    return principal.name if isinstance(principal, User) else None
