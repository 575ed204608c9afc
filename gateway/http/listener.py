"""A listener for HTTP clients of a scope (policy key `api`)."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from gateway.amqp.sasl.password_checks import PasswordChecks
from gateway.amqp.sasl.verifiers import UserStore
from gateway.amqp.transport.tls import ServerTls
from gateway.http.gate import Application, Gate
from gateway.http.login import BasicLogins
from gateway.http.port import HttpPort
from gateway.http.protocol import api_protocol
from gateway.observability.link_events import LinkEvents
from gateway.tasks import Supervisor

if TYPE_CHECKING:
    from policies.model.scopes.api import ApiSection

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
        self.scope: Final = scope
        self.model = model
        self._report: Final = report
        self._supervisor: Final = supervisor
        self._tls: ServerTls | None = None
        self._logins: Final = BasicLogins(f"api {model.bind}", checks, UserStore({}), loop.time)
        self._gate: Final = Gate(model, self._logins, mounted, self, loop.time)
        kind = api_protocol(self._dropped, lambda: self._tls, model.limits.connections)
        self._port: Final = HttpPort(self._gate, kind, loop)

    def renew(self, model: ApiSection, users: UserStore, tls: ServerTls | None) -> None:
        """Apply the limits of a new policy, and the users and certificates that were read from its files."""
        self.model, self._tls = model, tls
        self._logins.renew(users)
        self._gate.configure(model)
        self._port.kind.most = model.limits.connections

    async def start(self) -> None:
        """Bind the port and accept connections; raises OSError if the port cannot be bound."""
        bind = self.model.bind
        if self.model.tls is None:
            await self._port.start(bind)
        else:
            await self._port.start_tls(bind, self, self._context, self._supervisor)
        tls = self.model.tls is not None
        self._report.log.info("listening", scope=self.scope, bind=self.bound, tls=tls, protocol="http")

    @property
    def bound(self) -> str:
        """The bound address, with the actual port if the policy says 0."""
        return self._port.bound or str(self.model.bind)

    @property
    def listening(self) -> bool:
        """Whether connections are accepted."""
        return self._port.listening

    async def close(self) -> None:
        """Stop accepting, give requests in progress a moment to finish, and close the remaining connections."""
        await self._port.close()

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
        self._report.no_descriptors(self.bound, peer)

    def tls_failed(self, peer: str, error: OSError) -> None:
        """Report a failed TLS handshake."""
        self._report.tls_failed(self.bound, peer, error)

    # -- requests

    def login_failed(self, address: str) -> None:
        """Report a wrong user or password."""
        self._report.increment("sasl_failures", "basic")
        self._report.log.warning("authentication failed", reason="basic", bind=self.bound, peer=address)

    def failed(self, error: Exception) -> None:
        """Report an unexpected error, which fails only this request."""
        self._report.task_failed("api", error)
