"""The limits of a TLS port count handshakes that have not begun yet."""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import ExitStack

from gateway.amqp.transport.tls_server import TlsServer
from gateway.tasks import Supervisor, until
from tests.support.gateway.process import PATIENCE

MOST = 2


class TwoHandshakes:
    """Admits so many sockets at a time."""

    server: TlsServer

    def __init__(self) -> None:
        self.asked = list[bool]()

    def admits(self, peer: str, descriptor: int) -> bool:
        self.asked.append(self.server.shaking < MOST)
        return self.asked[-1]

    def exhausted(self, peer: str) -> None:
        raise AssertionError("there are descriptors left")

    def tls_failed(self, peer: str, error: OSError) -> None:
        """Nobody says anything."""


async def test_what_comes_in_one_turn_is_limited() -> None:
    """asyncio accepts all that waits without a pause, before the first handshake begins; a stalled loop has many."""
    gate, supervisor = TwoHandshakes(), Supervisor(lambda name, error: None)
    made, context = asyncio.Protocol, ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server = gate.server = TlsServer(gate, made, lambda: context, handshake=PATIENCE, supervisor=supervisor)
    await server.start("127.0.0.1", 0)
    place = server.sockets[0].getsockname()
    with ExitStack() as stack:
        for _ in range(MOST + 2):
            stack.enter_context(socket.create_connection(place, PATIENCE))
        await until(lambda: len(gate.asked) == MOST + 2, PATIENCE)
        assert gate.asked == [True, True, False, False]
    await until(lambda: not server.shaking, PATIENCE)
    assert not server.shaking
    server.close()
    await supervisor.close()
