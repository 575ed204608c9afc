"""Where the admin API of a running gateway listens: unix sockets and TCP ports."""

from __future__ import annotations

import asyncio
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gateway.admin.access.protocol import admin_protocol
from gateway.admin.sockets import bind, own_path
from gateway.http.port import HttpPort

if TYPE_CHECKING:
    import ssl

    from starlette.types import ASGIApp

    from gateway.amqp.transport.tls import ServerTls
    from gateway.observability.link_events import LinkEvents
    from gateway.tasks import Supervisor
    from policies.model.admin import AdminSection, UnixSocket
    from policies.values.units import Bind


class AdminPorts:
    """The sockets and ports of one admin API; a reload changes only their certificates."""

    def __init__(self, app: ASGIApp, report: LinkEvents, supervisor: Supervisor) -> None:
        self._app: Final = app
        self._report: Final = report
        self._supervisor: Final = supervisor
        self._tls: ServerTls | None = None
        self._ports: Final[list[HttpPort]] = []
        self._paths: Final[list[Path]] = []

    def renew(self, tls: ServerTls | None) -> None:
        """Use the certificates that a reload has read."""
        self._tls = tls

    async def start(self, name: str, admin: AdminSection) -> None:
        """Bind everything; `name` is that of the gateway. Raises OSError.

        A default socket that cannot be bound, as on a read-only file system, is only reported.
        """
        for place in admin.sockets:
            try:
                await self._start_unix(name, place)
            except OSError as error:
                if place.path is not None:
                    raise
                self._report.log.info("no admin socket", error=str(error))
        for at in admin.ports:
            await self._start_tcp(at)

    async def _start_unix(self, name: str, place: UnixSocket) -> None:
        path = own_path(name, os.environ, os.geteuid()) if place.path is None else Path(place.path)
        await self._port(f"unix:{path}", with_tls=False).start_unix(bind(path))
        self._paths.append(path)
        self._report.log.info("listening", bind=f"unix:{path}", protocol="admin")

    async def _start_tcp(self, at: Bind) -> None:
        port = self._port(str(at), with_tls=self._tls is not None)
        if self._tls is None:
            await port.start(at)
        else:
            await port.start_tls(at, _Handshakes(str(at), self._report), self._context, self._supervisor)
        self._report.log.info("listening", bind=port.bound, protocol="admin", tls=self._tls is not None)

    def _port(self, where: str, *, with_tls: bool) -> HttpPort:
        kind = admin_protocol(partial(self._report.bad_input, bind=where), lambda: self._tls if with_tls else None)
        port = HttpPort(self._app, kind, asyncio.get_running_loop())
        self._ports.append(port)
        return port

    def _context(self) -> ssl.SSLContext:
        assert self._tls is not None
        return self._tls.context

    async def close(self) -> None:
        """Answer no more requests, and remove the sockets."""
        await asyncio.gather(*(each.close() for each in self._ports))
        for path in self._paths:
            path.unlink(missing_ok=True)


class _Handshakes:
    """Reports the failures of TLS at one port."""

    def __init__(self, where: str, report: LinkEvents) -> None:
        self._where: Final = where
        self._report: Final = report

    def admits(self, peer: str, descriptor: int) -> bool:
        """Admit every socket: connections are limited later (`gateway.observability.http.bounded`)."""
        return True

    def exhausted(self, peer: str) -> None:
        """The process has no file descriptor left."""
        self._report.no_descriptors(self._where, peer)

    def tls_failed(self, peer: str, error: OSError) -> None:
        """A handshake has failed."""
        self._report.tls_failed(self._where, peer, error)
