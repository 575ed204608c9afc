"""HTTP connections of the admin API: uvicorn's, with limits and what is known of the peer."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

from starlette.requests import Request

from gateway.amqp.transport.tls import ServerTls
from gateway.http.protocol import trusted_subject
from gateway.observability.http.bounded import BoundedProtocol, Waiting

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

CONNECTIONS: Final = 128
"""Open connections at a time."""
ANSWER: Final = 120.0
"""Seconds for an answer: a reload reads files, which may take 30 of them, and then checks every link."""
_STREAM_BUFFER: Final = 64 * 1024
"""Bytes that the kernel may hold of a stream, for its own use as much again."""
_PEER: Final = "scopegate.peer"
_CREDENTIALS: Final = struct.Struct("3i")


class AdminPeer(NamedTuple):
    """The other end of a connection, as the kernel or TLS knows it."""

    uid: int | None
    """The user at a unix socket."""
    subject: Callable[[], str | None]
    """The user of a client certificate, as long as its issuer is trusted."""
    address: str
    """The IP address; empty at a unix socket."""
    connection: AdminProtocol


def peer_of(request: Request) -> AdminPeer:
    """The peer of a request."""
    found = request.scope[_PEER]
    assert isinstance(found, AdminPeer)
    return found


class AdminProtocol(BoundedProtocol):
    """A connection of the admin API; `admin_protocol` creates a subclass for each port."""

    tls: ClassVar[Callable[[], ServerTls | None]]
    answer = ANSWER

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        subject, uid = trusted_subject(transport, type(self).tls), _uid(transport)
        address = "" if uid is not None else str((transport.get_extra_info("peername") or ("",))[0])
        self.app = _WithPeer(self.app, AdminPeer(uid, subject, address, self))
        super().connection_made(transport)


    def stream(self) -> None:
        """An answer without an end begins: it may take any time, and the kernel holds little for a slow reader."""
        self.endless()
        self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _STREAM_BUFFER)


class _WithPeer(NamedTuple):
    """An application whose requests carry the peer of their connection."""

    app: ASGIApp
    peer: AdminPeer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.app({**scope, _PEER: self.peer}, receive, send)


def _uid(transport: asyncio.Transport) -> int | None:
    found = transport.get_extra_info("socket")
    if found is None or found.family != socket.AF_UNIX:
        return None
    _, uid, _ = _CREDENTIALS.unpack(found.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return int(uid)


def admin_protocol(dropped: Callable[[str], None], tls_now: Callable[[], ServerTls | None]) -> type[AdminProtocol]:
    """A class for one port; `dropped` gets the reason for each connection it drops."""

    class PortProtocol(AdminProtocol):
        """The connections of this port."""

        waiting = Waiting(dropped)
        tls = staticmethod(tls_now)
        most = CONNECTIONS

    return PortProtocol
