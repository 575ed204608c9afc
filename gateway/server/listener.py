"""A listener: a port at which AMQP clients connect, with its limits, TLS, SASL, capabilities and scope."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from gateway import PRODUCT
from gateway.amqp.link.config import EngineConfig
from gateway.amqp.message.response_support import CAPABILITY
from gateway.amqp.sasl.password_checks import PasswordChecks, Ticket
from gateway.amqp.sasl.server import SaslServer
from gateway.amqp.sasl.verifiers import UserStore
from gateway.amqp.transport.connection import Connection
from gateway.amqp.transport.flush_scheduler import FlushScheduler
from gateway.amqp.transport.handshake import Handshake
from gateway.amqp.transport.server_handshake import ServerHandshake
from gateway.amqp.transport.tls import ServerTls, peer_subject
from gateway.amqp.transport.tls_server import TlsServer
from gateway.errors import AmqpError
from gateway.observability.link_events import LinkEvents
from gateway.server.composition import make_dialect
from gateway.server.listener_settings import Settings
from gateway.server.logins import REVOKED, Logins
from gateway.server.quota import Quota, Refusal, leaves_reserve
from gateway.tasks import Supervisor

if TYPE_CHECKING:
    from gateway.amqp.link.link import Link
    from gateway.links.dialect import ListenerDialect
    from gateway.nodes.scope import Scope
    from policies.model.scopes.event_hubs import SharedKey

_BACKLOG: Final = 1024


class Listener:
    """One bound port, and the delegate of its connections."""

    def __init__(
        self,
        settings: Settings,
        scope: Scope,
        hub: FlushScheduler,
        report: LinkEvents,
        supervisor: Supervisor,
        *,
        checks: PasswordChecks,
        users: UserStore,
        tls: ServerTls | None,
        logins: Logins,
        quota: Quota,
        keys: Iterable[SharedKey] = (),
    ) -> None:
        """`keys`: those of its dialect, if it has one."""
        self.settings: Final = settings
        self._scope: Final = scope
        self._hub: Final = hub
        self._report: Final = report
        self._supervisor: Final = supervisor
        self._checks: Final = checks
        self._tls = tls
        self._users = users
        self.connections: set[Connection] = set()
        self._logins: Final = logins
        self._quota: Final = quota
        self._servers: list[asyncio.Server | TlsServer] = []
        self._serial = 0
        self._counters: Final = report.metrics.sockets(settings.scope, str(settings.model.bind))
        hubs = settings.model.event_hubs
        dialect = None if hubs is None else make_dialect(hubs, keys, scope, hub.loop)
        self._dialect: Final[ListenerDialect | None] = dialect
        config = _engine_config(settings)
        self._engine_config: Final = config if self._dialect is None else self._dialect.engine_config(config)

    async def start(self, inherited: Sequence[socket.socket] = ()) -> None:
        """Bind and accept; raises OSError if the port is in use. `inherited` listen at the address already."""
        if self._tls is not None:
            self._servers.append(await self._secured(inherited))
        else:
            await self._plain(inherited)
        self._report.log.info(
            "listening", scope=self.settings.scope, bind=self.bound, tls=self._tls is not None,
            **({} if self.settings.model.websocket is None else {"websocket": self.settings.model.websocket}),
        )  # fmt: skip

    async def _plain(self, inherited: Sequence[socket.socket]) -> None:
        bind, create = self.settings.model.bind, self._hub.loop.create_server
        for each in inherited:
            self._servers.append(await create(self._accept, sock=each, backlog=_BACKLOG))
        if not inherited:
            self._servers.append(await create(self._accept, bind.host, bind.port, backlog=_BACKLOG))

    async def _secured(self, inherited: Sequence[socket.socket]) -> TlsServer:
        model = self.settings.model
        server = TlsServer(
            self, self._accept, self._tls_context,
            handshake=model.limits.handshake.seconds, supervisor=self._supervisor,
        )  # fmt: skip
        await server.start(model.bind.host, model.bind.port, inherited)
        return server

    @property
    def bound(self) -> str:
        """The bound address, with the real port instead of 0."""
        if not (sockets := self._sockets()):
            return str(self.settings.model.bind)
        host, port = sockets[0].getsockname()[:2]
        return f"{host}:{port}"

    def _sockets(self) -> list[socket.socket]:
        """The listening ones; a name such as localhost may have several addresses."""
        return [each for server in self._servers for each in server.sockets]

    @property
    def listening(self) -> bool:
        return bool(self._servers) and all(each.is_serving() for each in self._servers)

    def _tls_context(self) -> ssl.SSLContext:
        assert self._tls is not None
        return self._tls.context

    def renew(self, users: UserStore, tls: ServerTls | None) -> None:
        """Use the users and certificates that a reload has read."""
        self._users, self._tls = users, tls

    def renew_keys(self, keys: Iterable[SharedKey]) -> None:
        """Use the keys that a reload has read, if the listener has a dialect."""
        if self._dialect is not None:
            self._dialect.renew(keys)

    def admits_login(self, connection: Connection) -> bool:
        """Whether a connection of this listener, which a reload may have replaced, would be accepted now."""
        return self._logins.admits(self.settings, connection.peer)

    @property
    def busy(self) -> bool:
        """Whether there are connections or TLS handshakes."""
        return bool(self.connections or self._shaking)

    @property
    def _shaking(self) -> int:
        return sum(each.shaking for each in self._servers if isinstance(each, TlsServer))

    def listening_sockets(self) -> list[socket.socket]:
        """Second descriptors of the sockets, for a successor at the address.

        They go on listening after `stop`, so that clients which connect meanwhile wait and are not refused.
        """
        return [socket.socket(fileno=os.dup(each.fileno())) for each in self._sockets()]

    def stop(self) -> None:
        """Stop accepting; connections stay open."""
        for server in self._servers:
            server.close()

    def close(self, error: AmqpError) -> None:
        """Close every connection with `error`."""
        for connection in list(self.connections):
            connection.close(error)

    def _accept(self) -> asyncio.Protocol:
        self._serial += 1
        name = f"{self.settings.scope}/{self.bound}/{self._serial}"
        handshake = self.settings.model.limits.handshake.seconds
        connection = Connection(self._hub, self, server=True, handshake=handshake, name=name)
        path = self.settings.model.websocket
        return connection if path is None else _websocket(connection, path, partial(self.refused, connection))

    def count(self) -> None:
        """Update the counters for a scrape."""
        for connection in self.connections:
            self._count_bytes(connection)

    def _count_bytes(self, connection: Connection) -> None:
        taken = connection.take_bytes()
        self._counters.bytes_in += taken[0]
        self._counters.bytes_out += taken[1]

    # -- delegate of connections

    def admits(self, peer: str, descriptor: int) -> bool:
        """Whether a new socket is within the limits; if not, it is dropped at once."""
        if not leaves_reserve(descriptor):
            self.exhausted(peer)
        elif (reason := self._quota.refusal(self._hub.loop.time(), self._shaking)) is not None:
            self._report.bad_input(reason, bind=self.bound, peer=peer)
        else:
            return True
        return False

    def exhausted(self, peer: str) -> None:
        """There is no file descriptor for another connection."""
        self._report.no_descriptors(self.bound, peer)

    def tls_failed(self, peer: str, error: OSError) -> None:
        """A TLS handshake failed: no TLS, no common version, or a certificate that is not trusted."""
        self._report.tls_failed(self.bound, peer, error)

    def established(self, connection: Connection) -> None:
        """A connection was made; on TLS, its handshake is done."""
        connection.peer.scope = self.settings.scope
        admitted = self._tls is not None or self.admits(connection.peer.address, connection.descriptor)
        self.connections.add(connection)
        self._report.connected(connection)
        self._quota.connected()
        self._report.increment("connections_accepted", self.settings.scope)
        if not admitted:
            connection.abort()

    def secure(self, connection: Connection) -> ServerHandshake:
        model, tls = self.settings.model, connection.ssl_object
        connection.peer.tls = tls is not None
        connection.peer.anchor = self._tls.anchor(tls) if tls is not None and self._tls is not None else b""

        def make_sasl() -> SaslServer:
            return SaslServer(
                model.sasl,
                self._users,
                tls=tls is not None,
                client_subject=peer_subject(tls) if tls is not None else None,
                allow_plain_without_tls=model.allow_plain_without_tls,
            )

        return ServerHandshake(plain_amqp="ANONYMOUS" in model.sasl, make_sasl=make_sasl)

    def engine_config(self, connection: Connection) -> EngineConfig:
        return self._engine_config

    def check_password(
        self, connection: Connection, passes: Callable[[], bool], then: Callable[[bool], None]
    ) -> Ticket:
        address = connection.peer.address.rpartition(":")[0]
        return self._checks.submit(str(self.settings.model.bind), address, passes, then)

    def refused(self, connection: Connection, reason: str) -> None:
        """Log and count input that was refused before AMQP began."""
        self._report.bad_input(reason, connection=connection.name, peer=connection.peer.address)

    def unauthenticated(self, connection: Connection, security: Handshake) -> None:
        """The protocol header or SASL failed."""
        if security.claimed is None:
            self.refused(connection, security.reason)
            return
        self._report.login_failed(connection.peer, security.reason, security.claimed)

    def revoke(self, connection: Connection) -> None:
        """Close a connection whose login a reload has revoked."""
        self._report.increment("logins_revoked", self.settings.scope)
        self._report.log.warning(
            "login revoked",
            user=connection.peer.user,
            mechanism=connection.peer.mechanism,
            connection=connection.name,
            peer=connection.peer.address,
        )
        connection.close(REVOKED)

    def opened(self, connection: Connection) -> None:
        engine, user = connection.engine, connection.peer.user
        assert engine is not None
        engine.open()
        ids = {"connection": connection.name, "peer": connection.peer.address, "user": user}
        self._report.connection_opened(connection, **ids)
        try:
            self._quota.opened(user, self._hub.loop.time())
        except Refusal as refusal:
            self.refused(connection, refusal.reason)
            engine.close(refusal.error)
            return
        if not self.admits_login(connection):  # a reload came while it logged in
            self.revoke(connection)

    def requested(self, connection: Connection, link: Link) -> None:
        if self._dialect is None:
            self._admit(link)
            self._scope.attach(link)
        else:
            self._dialect.attach(link, partial(self._admit, link))
        self._report.link_attached(link)

    def _admit(self, link: Link) -> None:
        """Count a link; raises AmqpError if it is one too many."""
        if (stolen := self._scope.links.register(link)) is not None:
            self._quota.detached(stolen.user, stolen)
        self._quota.attach(link.user, link)

    def _over(self, link: Link) -> None:
        self._quota.detached(link.user, link)
        self._scope.links.release(link)
        if self._dialect is not None:
            self._dialect.link_ended(link)

    def link_refused(self, link: Link, error: AmqpError) -> None:
        self._over(link)
        self._report.link_refused(link, error)

    def link_ended(self, link: Link, error: AmqpError | None) -> None:
        self._over(link)
        self._report.link_ended(link, error)

    def message_refused(self, link: Link, error: AmqpError) -> None:
        self._report.message_refused(link, error)

    def link_counted(self, link: Link) -> None:
        self._report.flush(link)

    def closed(self, connection: Connection, error: AmqpError | None) -> None:
        engine = connection.engine
        if self._dialect is not None:
            self._dialect.closed(engine)
        if engine is not None and engine.opened:
            self._quota.closed(connection.peer.user)
            self._report.connection_closed(connection, error)
        if connection in self.connections:
            self.connections.remove(connection)
            self._report.disconnected(connection)
            self._quota.disconnected()
        self._report.increment("connections_closed", self.settings.scope)
        self._count_bytes(connection)
        if engine is not None and engine.silent:
            self._report.increment("idle_timeouts", self.settings.scope)
        elif engine is not None and engine.faulted:
            self._report.bad_input(
                error.condition if error else "unknown", connection=connection.name, error=str(error), **_cause(error)
            )


def _websocket(connection: Connection, path: str, refused: Callable[[str], None]) -> asyncio.Protocol:
    """The WebSocket of a connection; loaded only by a gateway whose policy has a listener for them."""
    from gateway.amqp.transport.websocket import WebSocketProtocol

    return WebSocketProtocol(connection, path, refused)


def _cause(error: AmqpError | None) -> dict[str, str]:
    """The cause of an error, for the log only and not for the peer."""
    return {} if error is None or error.__cause__ is None else {"cause": str(error.__cause__)}


def _engine_config(settings: Settings) -> EngineConfig:
    limits = settings.model.limits
    return EngineConfig(
        container_id=settings.container_id,
        offered=settings.offered,
        properties=PRODUCT,
        max_frame_size=limits.max_frame_size,
        channel_max=limits.sessions - 1,
        idle_timeout=limits.idle_timeout,
        max_links=limits.links,
        max_message_size=limits.max_message_size,
        memory=limits.memory,
        user_memory=limits.user_memory,
        strict_annotations=settings.model.strict_annotations,
        annotations=settings.model.annotations if CAPABILITY in settings.offered else "never",
    )
