"""A server that answers the first bytes of a client and then sends without end: the client has to limit that."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

PIECE = 64 * 1024


class Flood:
    """What a server has sent."""

    def __init__(self) -> None:
        self.sent = 0
        """Bytes, on all connections."""
        self.connections = 0


@asynccontextmanager
async def flooding(port: int, greeting: bytes, answer: bytes, endless: bytes, most: int) -> AsyncIterator[Flood]:
    """Serve: `greeting` at once, `answer` after the first bytes of the client, then `endless`, up to `most` bytes."""
    flood, piece = Flood(), endless * (PIECE // len(endless))

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        flood.connections += 1
        try:
            writer.write(greeting)
            await reader.read(PIECE)
            writer.write(answer)
            while flood.sent < most:
                writer.write(piece)
                await writer.drain()
                flood.sent += len(piece)
        except OSError:
            pass
        finally:
            writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", port):
        yield flood
