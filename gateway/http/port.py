"""The HTTP server of a port: uvicorn's protocol on a TCP port, with or without TLS, or on a unix socket.

It serves the `api` listeners of scopes and the admin API. Limits are those of `gateway.observability.http.bounded`.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from uvicorn import Config

from gateway.amqp.transport.tls_server import TlsServer
from gateway.http.dates import DatedState
from gateway.observability.http.bounded import BoundedProtocol
from gateway.observability.http.framing import FramingGuard
from gateway.tasks import Supervisor, until

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from gateway.amqp.transport.tls_server import HandshakeLimit
    from policies.values.units import Bind

_HANDSHAKE: Final = 10.0
"""Seconds that a TLS handshake may take."""
_GRACE: Final = 1.0
"""Seconds that requests in progress may take to finish when the port closes."""


class HttpPort:
    """One bound port or socket."""

    def __init__(self, app: ASGIApp, kind: type[BoundedProtocol], loop: asyncio.AbstractEventLoop) -> None:
        """`kind`: the class of its connections, which has their limits."""
        self._loop: Final = loop
        self.kind: Final = kind
        self._state: Final = DatedState()
        self._config: Final = Config(
            FramingGuard(app), log_config=None, access_log=False, lifespan="off", server_header=False, ws="none",
            proxy_headers=False, http=kind,
        )  # fmt: skip
        self._config.load()
        self._server: asyncio.Server | TlsServer | None = None

    async def start(self, bind: Bind) -> None:
        """Bind a TCP port without TLS; raises OSError if it cannot be bound."""
        self._server = await self._loop.create_server(self._accept, bind.host, bind.port)

    async def start_tls(
        self, bind: Bind, gate: HandshakeLimit, context: Callable[[], ssl.SSLContext], supervisor: Supervisor
    ) -> None:
        """Bind a TCP port with TLS; `context` is called at each handshake. Raises OSError."""
        server = TlsServer(gate, self._accept, context, handshake=_HANDSHAKE, supervisor=supervisor)
        await server.start(bind.host, bind.port)
        self._server = server

    async def start_unix(self, listening: socket.socket) -> None:
        """Accept the connections of a bound unix socket, which is closed with this port."""
        self._server = await self._loop.create_unix_server(self._accept, sock=listening)

    @property
    def bound(self) -> str | None:
        """The bound address with the actual port; None: it is not bound."""
        if self._server is None or not self._server.sockets:
            return None
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
            assert isinstance(connection, BoundedProtocol)
            connection.drop()

    def _accept(self) -> BoundedProtocol:
        return self.kind(self._config, self._state, {}, self._loop)
