"""Decides after a reload whether the logins of open connections are still accepted (docs/policy.md, ListenerSection).

A connection is checked as a new one at its listener would be, or at the listener that has the same address now. Only
the policy and the files that it names count, not whether a port could be bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from gateway.amqp.sasl.server import offered
from gateway.errors import UNAUTHORIZED_ACCESS, AmqpError
from policies.model.scopes.sasl import PASSWORD_MECHANISMS

if TYPE_CHECKING:
    from gateway.amqp.link.config import PeerInfo
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
    """The requirements of one listener of the policy for its clients."""

    settings: Settings
    users: UserStore
    tls: ServerTls | None

    def admits(self, peer: PeerInfo) -> bool:
        """Whether a new connection with this login would be accepted."""
        model, tls = self.settings.model, self.tls
        if tls is not None and not (peer.tls and tls.admits(peer.anchor)):
            return False
        certificate = tls is not None and tls.trusts(peer.anchor)
        mechanisms = offered(model.sasl, tls=peer.tls, certificate=certificate, plain=model.allow_plain_without_tls)
        if peer.mechanism not in mechanisms:
            return False
        return peer.mechanism not in PASSWORD_MECHANISMS or self.users.admits(peer.user, peer.mechanism)


class Logins:
    """The requirements of all listeners of the policy, bound or not."""

    def __init__(self) -> None:
        self._scopes: Mapping[str, list[Admission]] = {}

    def install(self, wanted: Iterable[Settings], credentials: CredentialFiles) -> None:
        """Use the requirements of these listeners from now on."""
        scopes: dict[str, list[Admission]] = {}
        for settings in wanted:
            users, tls = credentials.users_of(settings.model), credentials.servers.get(settings.model)
            scopes.setdefault(settings.scope, []).append(Admission(settings, users, tls))
        self._scopes = scopes

    def admits(self, listener: Settings, peer: PeerInfo) -> bool:
        """Whether a connection that `listener`, of this or an earlier policy, accepted would be accepted now.

        If no listener has that address any more, another one of the scope counts; for a login with a password only one
        with the same users file, because the name may be another user's elsewhere.
        """
        scope = self._scopes.get(listener.scope, [])
        if successors := [each for each in scope if each.settings.model.bind == listener.model.bind]:
            return any(each.admits(peer) for each in successors)
        if peer.mechanism in PASSWORD_MECHANISMS:
            scope = [each for each in scope if each.settings.model.users == listener.model.users]
        return any(each.admits(peer) for each in scope)


class LoginListener(Protocol):
    """What `close_revoked` uses of a listener."""

    connections: set[Connection]

    def admits_login(self, connection: Connection) -> bool: ...
    def revoke(self, connection: Connection) -> None: ...


def close_revoked(listeners: Iterable[LoginListener]) -> int:
    """Close open connections that the policy no longer accepts; returns how many.

    Those that log in are checked at open.
    """
    closed = 0
    for listener in listeners:
        for connection in list(listener.connections):
            engine = connection.engine
            if engine is not None and not engine.discarding and not listener.admits_login(connection):
                listener.revoke(connection)
                closed += 1
    return closed
