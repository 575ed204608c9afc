"""Connections to the HTTP sinks of one rule of the policy: kept between requests, and dialled to checked addresses."""

from __future__ import annotations

import asyncio
import ssl
from typing import Final

from bridges.cloudevents.sinks.common.dialer import Dialer, failure_reason
from bridges.cloudevents.sinks.http.connection import HttpConnection
from bridges.cloudevents.sinks.http.request import Origin
from gateway.tasks import until

IDLE: Final = 4.0
"""Seconds for which an idle connection is used again: less than servers keep theirs, node for example for 5."""
_SWEEP: Final = 1.0
"""Seconds between two looks for connections that were idle for longer."""
_CLOSE: Final = 1.0


class NotSent(Exception):
    """There is no connection, so the sink has not received the request; the text says why."""


class ConnectionPool:
    """Used on the event loop only; it has no limit of its own, because each sink has one."""

    def __init__(self, dialer: Dialer, tls: ssl.SSLContext) -> None:
        self._dialer: Final = dialer
        self._tls: Final = tls
        self._loop: Final = asyncio.get_running_loop()
        self._idle: Final[dict[Origin, list[HttpConnection]]] = {}
        self._origins: Final[dict[HttpConnection, Origin]] = {}
        """Of all open connections."""
        self._sweeper: asyncio.TimerHandle | None = None
        self._closed = False

    def acquire(self, origin: Origin) -> HttpConnection | None:
        """An idle connection, the one that was used last; None if there is none."""
        idle, now = self._idle.get(origin), self._loop.time()
        while idle:
            connection = idle.pop()
            if now - connection.idle_since < IDLE and connection.usable(now):
                return connection
            connection.abort()
        return None

    async def open(self, origin: Origin, deadline: float) -> HttpConnection:
        """A new connection to a checked address of the host; raises NotSent."""
        try:
            async with asyncio.timeout_at(deadline):
                connection = await self._connect(origin)
        except OSError as error:
            raise NotSent(failure_reason(error)) from error
        if self._closed:
            connection.abort()
            raise NotSent("connection closed")
        return connection

    async def _connect(self, origin: Origin) -> HttpConnection:
        opened = await self._dialer.connect(origin.host, origin.port)
        connection = HttpConnection(self, opened)
        tls, name = (self._tls, origin.host) if origin.secure else (None, None)
        try:
            await self._loop.create_connection(lambda: connection, sock=opened, ssl=tls, server_hostname=name)
        except BaseException:
            opened.close()
            raise
        if not connection.usable(self._loop.time()):
            raise ConnectionResetError
        self._origins[connection] = origin
        return connection

    async def close(self) -> None:
        """Close all connections; pending requests fail."""
        self._closed = True
        if self._sweeper is not None:
            self._sweeper.cancel()
        for connection in list(self._origins):
            connection.fail("connection closed")
        await until(lambda: not self._origins, _CLOSE)  # the transports report it soon

    # -- from the connections

    def on_idle(self, connection: HttpConnection) -> None:
        """See `ConnectionOwner`."""
        origin = self._origins.get(connection)
        if origin is None or self._closed:
            connection.abort()
            return
        self._idle.setdefault(origin, []).append(connection)
        if self._sweeper is None:
            self._sweeper = self._loop.call_later(_SWEEP, self._sweep)

    def on_lost(self, connection: HttpConnection) -> None:
        """See `ConnectionOwner`."""
        origin = self._origins.pop(connection, None)
        if origin is None or connection not in (idle := self._idle.get(origin, [])):
            return
        idle.remove(connection)
        if not idle:
            del self._idle[origin]

    def _sweep(self) -> None:
        """Close connections that nobody has used for a while."""
        self._sweeper, now = None, self._loop.time()
        for connection in [each for idle in self._idle.values() for each in idle]:
            if now - connection.idle_since >= IDLE:
                connection.abort()
        if self._idle:
            self._sweeper = self._loop.call_later(_SWEEP, self._sweep)
