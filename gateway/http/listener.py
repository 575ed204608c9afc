"""A listener for HTTP clients of a scope (policy key `api`)."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from uvicorn import Config

from gateway.amqp.sasl.password_checks import PasswordChecks
from gateway.amqp.sasl.verifiers import UserStore
from gateway.amqp.transport.tls import ServerTls
from gateway.amqp.transport.tls_server import TlsServer
from gateway.http.gate import Application, Gate
from gateway.http.login import BasicLogins
from gateway.http.protocol import ApiProtocol, DatedState, api_protocol
from gateway.observability.http.framing import FramingGuard
from gateway.observability.link_events import LinkEvents
from gateway.tasks import Supervisor, until

if TYPE_CHECKING:
    from policies.model.scopes.api import ApiSection

_HANDSHAKE: Final = 10.0
"""Seconds that a TLS handshake may take."""
_GRACE: Final = 1.0
"""Seconds that requests in progress may take to finish when the listener closes."""


class ApiListener:
    """One bound port; reports failures of peers in the same way as AMQP listeners."""

    def __init__(
        self,
        scope: str,
        model: ApiSection,
        report: LinkEvents,
        supervisor: Supervisor,
        checks: PasswordChecks,
        mounted: Callable[[], Mapping[str, Application]],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._loop: Final = loop
        self.scope: Final = scope
        self.model = model
        self._report: Final = report
        self._supervisor: Final = supervisor
        self._tls: ServerTls | None = None
        self._logins: Final = BasicLogins(f"api {model.bind}", checks, UserStore({}), loop.time)
        self._gate: Final = Gate(model, self._logins, mounted, self, loop.time)
        self._state: Final = DatedState()
        self._kind: Final = api_protocol(self._dropped, lambda: self._tls, model.limits.connections)
        self._config: Final = Config(
            FramingGuard(self._gate), log_config=None, access_log=False, lifespan="off", server_header=False, ws="none",
            proxy_headers=False,
        )  # fmt: skip
        self._config.load()
        self._server: asyncio.Server | TlsServer | None = None

    def renew(self, model: ApiSection, users: UserStore, tls: ServerTls | None) -> None:
        """Apply the limits of a new policy, and the users and certificates that were read from its files."""
        self.model, self._tls = model, tls
        self._logins.renew(users)
        self._gate.configure(model)
        self._kind.most = model.limits.connections

    async def start(self) -> None:
        """Bind the port and accept connections; raises OSError if the port cannot be bound."""
        bind = self.model.bind
        if self.model.tls is None:
            self._server = await self._loop.create_server(self._accept, bind.host, bind.port)
        else:
            server = TlsServer(self, self._accept, self._context, handshake=_HANDSHAKE, supervisor=self._supervisor)
            await server.start(bind.host, bind.port)
            self._server = server
        tls = self.model.tls is not None
        self._report.log.info("listening", scope=self.scope, bind=self.bound, tls=tls, protocol="http")

    @property
    def bound(self) -> str:
        """The bound address, with the actual port if the policy says 0."""
        if self._server is None or not self._server.sockets:
            return str(self.model.bind)
        host, port = self._server.sockets[0].getsockname()[:2]
        return f"{host}:{port}"

    @property
    def listening(self) -> bool:
        """Whether connections are accepted."""
        return self._server is not None and self._server.is_serving()

    async def close(self) -> None:
        """Stop accepting, give requests in progress a moment to finish, and close the remaining connections."""
        if self._server is not None:
            self._server.close()
        for connection in list(self._state.connections):
            connection.shutdown()
        await until(lambda: not self._state.connections, _GRACE)
        for connection in list(self._state.connections):
            assert isinstance(connection, ApiProtocol)
            connection.drop()

    def _accept(self) -> ApiProtocol:
        return self._kind(self._config, self._state, {}, self._loop)

    def _context(self) -> ssl.SSLContext:
        assert self._tls is not None
        return self._tls.context

    def _dropped(self, reason: str) -> None:
        self._report.bad_input(reason, bind=self.bound)

    # -- handshakes

    def admits(self, peer: str, descriptor: int) -> bool:
        """Admit every socket: the number of connections is limited later (`gateway.observability.http.bounded`)."""
        return True

    def exhausted(self, peer: str) -> None:
        """Report a connection that failed because the process has no file descriptor left."""
        self._report.bad_input("no-file-descriptors", bind=self.bound, peer=peer)

    def tls_failed(self, peer: str, error: OSError) -> None:
        """Report a failed TLS handshake."""
        self._report.increment("tls_failures")
        why = getattr(error, "reason", None) or str(error) or type(error).__name__
        self._report.log.warning("TLS handshake failed", error=why, bind=self.bound, peer=peer)

    # -- requests

    def login_failed(self, address: str) -> None:
        """Report a wrong user or password."""
        self._report.increment("sasl_failures", "basic")
        self._report.log.warning("authentication failed", reason="basic", bind=self.bound, peer=address)

    def failed(self, error: Exception) -> None:
        """Report an unexpected error, which fails only this request."""
        self._report.task_failed("api", error)
