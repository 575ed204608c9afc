"""Redis was away and is back: connections that were lost meanwhile are not used again."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator
from typing import Any

import pytest

from gateway.state.redis_connections import redis_client
from tests.support.amqp.numbered import until
from tests.support.servers.servers import Redis

AT_ONCE = 8
LINGER_NOT = struct.pack("ii", 1, 0)
"""Closing sends a reset instead of an end."""


class Network:
    """Connections through a port of its own to another one, which can all be lost."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._near: list[StreamWriter] = []

    async def join(self, reader: StreamReader, near: StreamWriter) -> None:
        """Forward both ways until one of them ends."""
        far_reader, far = await asyncio.open_connection("127.0.0.1", self._target)
        self._near.append(near)
        ways = [asyncio.ensure_future(forward(*way)) for way in ((reader, far), (far_reader, near))]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        far.close()
        near.close()
        await asyncio.gather(*ways)

    def lose(self, *, reset: bool) -> None:
        """Close all connections, or reset them."""
        for near in self._near:
            if reset:
                near.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_NOT)
            near.transport.abort()


async def forward(reader: StreamReader, writer: StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)


def over(connection: Any) -> bool:
    """Whether its end has come to a connection of the pool, which nobody uses."""
    reader = connection._reader
    return bool(reader.at_eof() or reader.exception())


@pytest.fixture
async def network(redis_server: Redis) -> AsyncIterator[tuple[Network, str]]:
    network = Network(redis_server.port)
    server = await asyncio.start_server(network.join, "127.0.0.1")
    yield network, f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    server.close()


@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
async def test_no_command_fails_because_a_connection_was_lost_before_it(
    network: tuple[Network, str], reset: bool
) -> None:
    through, url = network
    client = redis_client(url, timeout=30.0, connect_timeout=30.0)

    async def ask() -> list[object]:
        return await asyncio.gather(*(client.get("scopegate:nothing") for _ in range(AT_ONCE)))

    try:
        await ask()
        through.lose(reset=reset)
        await until(lambda: all(map(over, client.connection_pool._available_connections)), "the end of all connections")
        assert await ask() == [None] * AT_ONCE
    finally:
        await client.aclose()
