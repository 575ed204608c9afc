"""Whose login a policy accepts, for connections that are there (docs/policy.md, Listener).

A connection is judged as a new one would be at the listener that it came by, or at the one that has its address now.
What counts is the policy and the files that it names: whether a port could be bound does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from gateway.amqp.sasl.server import offered
from gateway.errors import UNAUTHORIZED_ACCESS, AmqpError
from policies.model.sasl import PASSWORD_MECHANISMS

if TYPE_CHECKING:
    from gateway.amqp.engine.config import PeerInfo
    from gateway.amqp.sasl.verifiers import UserStore
    from gateway.amqp.transport.connection import Connection
    from gateway.amqp.transport.tls import ServerTls
    from gateway.config.credential_files import CredentialFiles
    from gateway.server.listener_settings import Settings

REVOKED: Final = AmqpError(
    UNAUTHORIZED_ACCESS,
    "this connection is no longer accepted: its listener, user, certificate or SASL mechanism was removed, "
    "or the listener now requires more; connect again",
)


class Admission(NamedTuple):
    """What one listener of the policy asks of its clients."""

    settings: Settings
    users: UserStore
    tls: ServerTls | None

    def admits(self, peer: PeerInfo) -> bool:
        """Whether a connection like this, with this login, would be accepted now."""
        model, tls = self.settings.model, self.tls
        if tls is not None and not (peer.tls and tls.admits(peer.anchor)):
            return False
        named = tls is not None and tls.trusts(peer.anchor)
        mechanisms = offered(model.sasl, tls=peer.tls, certificate=named, plain=model.allow_plain_without_tls)
        if peer.mechanism not in mechanisms:
            return False
        return peer.mechanism not in PASSWORD_MECHANISMS or self.users.admits(peer.user, peer.mechanism)


class Logins:
    """The listeners of the policy, bound or not."""

    def __init__(self) -> None:
        self._scopes: Mapping[str, list[Admission]] = {}

    def install(self, wanted: Iterable[Settings], credentials: CredentialFiles) -> None:
        """Judge by these listeners from now on."""
        scopes: dict[str, list[Admission]] = {}
        for settings in wanted:
            users, tls = credentials.users_of(settings.model), credentials.servers.get(settings.model)
            scopes.setdefault(settings.scope, []).append(Admission(settings, users, tls))
        self._scopes = scopes

    def admits(self, came_by: Settings, peer: PeerInfo) -> bool:
        """Whether a connection that came by a listener of this or of an earlier policy would be accepted now.

        Where the listener's address is gone, another of its scope may do: with a password only one that has the same
        users file, for elsewhere the name may be somebody else's.
        """
        scope = self._scopes.get(came_by.scope, [])
        if heirs := [each for each in scope if each.settings.model.bind == came_by.model.bind]:
            return any(heir.admits(peer) for heir in heirs)
        if peer.mechanism in PASSWORD_MECHANISMS:
            scope = [each for each in scope if each.settings.model.users == came_by.model.users]
        return any(each.admits(peer) for each in scope)


class Admitting(Protocol):
    """A listener as far as its connections' logins go (`listener.Listener`)."""

    connections: set[Connection]

    def admits_login(self, connection: Connection) -> bool: ...
    def revoke(self, connection: Connection) -> None: ...


def close_revoked(listeners: Iterable[Admitting]) -> int:
    """Close the connections that the policy no longer accepts; returns how many. Who logs in now is asked at open."""
    closed = 0
    for listener in listeners:
        for connection in list(listener.connections):
            engine = connection.engine
            if engine is not None and not engine.discarding and not listener.admits_login(connection):
                listener.revoke(connection)
                closed += 1
    return closed
