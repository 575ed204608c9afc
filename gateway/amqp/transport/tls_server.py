"""Accepts TLS connections.

asyncio's own TLS servers report a connection only after its handshake has succeeded, and drop the others silently.
Here, limits apply from the first byte, and failed handshakes are logged and counted.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Protocol

from gateway.tasks import Supervisor

_BACKLOG: Final = 1024
_PAUSE: Final = 0.1
"""Seconds to wait if the system has no more sockets."""


_LEAST: Final = 0.001
"""Seconds of a handshake that begins late."""


class HandshakeLimit(Protocol):
    """Decides about accepted sockets before any data."""

    def admits(self, peer: str, descriptor: int) -> bool: ...
    def exhausted(self, peer: str) -> None: ...
    def tls_failed(self, peer: str, error: OSError) -> None: ...


class TlsServer:
    """The sockets of one listener; used like an `asyncio.Server`."""

    def __init__(
        self,
        gate: HandshakeLimit,
        make: Callable[[], asyncio.Protocol],
        context: Callable[[], ssl.SSLContext],
        *,
        handshake: float,
        supervisor: Supervisor,
    ) -> None:
        self._gate: Final = gate
        self._make: Final = make
        self._context: Final = context  # called at each handshake: a reload creates a new one
        self._handshake: Final = handshake
        self._supervisor: Final = supervisor
        self._tasks: list[asyncio.Task[None]] = []
        self.sockets: list[socket.socket] = []
        self.shaking = 0
        """Handshakes in progress."""

    async def start(self, host: str, port: int, inherited: Sequence[socket.socket] = ()) -> None:
        """Bind every address of the host; raises OSError when one is taken. `inherited` listen there already."""
        for each in inherited:
            each.setblocking(False)
            self.sockets.append(each)
        if not inherited:
            await self._bind(host, port)
        self._tasks = [self._supervisor.keep(partial(self._accept, each), "tls-accept") for each in self.sockets]

    async def _bind(self, host: str, port: int) -> None:
        loop = asyncio.get_running_loop()
        places = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        try:
            for family, _, _, _, place in dict.fromkeys(places):
                self.sockets.append(_listen(family, place))
        except OSError:
            self.close()
            raise

    def is_serving(self) -> bool:
        """Whether connections are accepted."""
        return bool(self.sockets)

    def close(self) -> None:
        """Stop accepting."""
        for task in self._tasks:
            task.cancel()
        for each in self.sockets:
            # A successor may have a second descriptor: closing this one alone would leave it with the poller.
            asyncio.get_running_loop().remove_reader(each)
            each.close()
        self.sockets = []

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, place = await loop.sock_accept(listening)
            except OSError as error:  # the peer has left already, or the system has no more descriptors
                if error.errno in (errno.EMFILE, errno.ENFILE):
                    self._gate.exhausted("unknown")
                await asyncio.sleep(_PAUSE)
                continue
            peer = f"{place[0]}:{place[1]}"
            if self._gate.admits(peer, accepted.fileno()):
                self.shaking += 1  # now: asyncio may accept the next one before that task begins
                self._supervisor.start(self._shake_hands(accepted, peer), "tls-handshake")
            else:
                accepted.close()

    async def _shake_hands(self, accepted: socket.socket, peer: str) -> None:
        try:
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            loop = asyncio.get_running_loop()
            end = loop.time() + self._handshake
            if not await _says_something(accepted, end):  # a probe of the port, as load balancers make
                accepted.close()
                return
            await loop.connect_accepted_socket(
                self._make, accepted, ssl=self._context(), ssl_handshake_timeout=max(end - loop.time(), _LEAST)
            )
        except OSError as error:  # includes ssl.SSLError and TimeoutError
            self._gate.tls_failed(peer, error)
        finally:
            self.shaking -= 1


async def _says_something(accepted: socket.socket, end: float) -> bool:
    """Wait for the first byte, which stays to be read; False: the peer leaves without any.

    Raises TimeoutError at `end`, a time of the loop, and closes the socket.
    """
    loop = asyncio.get_running_loop()
    readable: asyncio.Future[None] = loop.create_future()
    loop.add_reader(accepted, lambda: None if readable.done() else readable.set_result(None))
    try:
        async with asyncio.timeout_at(end):
            await readable
    except BaseException:
        loop.remove_reader(accepted)
        accepted.close()
        raise
    loop.remove_reader(accepted)
    try:
        return bool(accepted.recv(1, socket.MSG_PEEK))
    except OSError:
        return False


def _listen(family: int, place: tuple[object, ...]) -> socket.socket:
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listening.bind(place)
        listening.listen(_BACKLOG)
        listening.setblocking(False)
    except OSError:
        listening.close()
        raise
    return listening
