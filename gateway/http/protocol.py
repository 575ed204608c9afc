"""HTTP connections of an `api` listener: uvicorn's, with limits and the user of the client certificate."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ClassVar

from gateway.amqp.transport.tls import ServerTls, peer_subject
from gateway.http.gate import WithSubject
from gateway.observability.http.bounded import BoundedProtocol, Waiting


class ApiProtocol(BoundedProtocol):
    """A connection of an `api` listener; `api_protocol` creates a subclass for each listener."""

    tls: ClassVar[Callable[[], ServerTls | None]]

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.app = WithSubject(self.app, trusted_subject(transport, type(self).tls))
        super().connection_made(transport)


def trusted_subject(
    transport: asyncio.BaseTransport, tls_now: Callable[[], ServerTls | None]
) -> Callable[[], str | None]:
    """A function that returns the user of a connection's client certificate, as long as its issuer is trusted."""
    ssl_object = transport.get_extra_info("ssl_object")
    subject, tls = peer_subject(ssl_object), tls_now()
    anchor = tls.anchor(ssl_object) if tls is not None and subject is not None else b""

    def trusted() -> str | None:
        now = tls_now()
        return subject if now is not None and now.trusts(anchor) else None

    return trusted


def api_protocol(
    dropped: Callable[[str], None], tls_now: Callable[[], ServerTls | None], connections: int
) -> type[ApiProtocol]:
    """A class for one listener: at most `connections` connections; `dropped` gets the reason for each one it drops."""

    class ListenerProtocol(ApiProtocol):
        """The connections of this listener."""

        waiting = Waiting(dropped)
        tls = staticmethod(tls_now)
        most = connections

    return ListenerProtocol
