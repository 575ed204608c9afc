"""An HTTP server that answers by script, byte for byte, and keeps what it was sent: a sink of subscriptions."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from tests.support.gateway.process import PATIENCE


@dataclass
class SunkRequest:
    """One request as it came."""

    method: str
    path: str
    headers: list[tuple[str, str]]
    body: bytes
    at: float
    connection: int

    def header(self, name: str) -> str | None:
        """The value of a header, None if it is missing."""
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)

    def header_all(self, name: str) -> list[str]:
        """Every value of a header."""
        return [value for key, value in self.headers if key.lower() == name.lower()]


_LONGEST_HEAD = 1 << 20
"""Bytes."""
NO_CONTENT = b"HTTP/1.1 204 No Content\r\n\r\n"


def status(code: int, *headers: str, body: bytes = b"") -> bytes:
    """An answer with a length, on which the connection stays open."""
    lines = [f"HTTP/1.1 {code} Scripted", f"content-length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


Script = Callable[[SunkRequest], bytes | Awaitable[bytes | None] | None]
"""What to write for a request; None closes the connection without an answer."""


@dataclass
class HttpSinkServer:
    """`answer` may be replaced at any time."""

    answer: Script = lambda request: NO_CONTENT
    requests: list[SunkRequest] = field(default_factory=list)
    connections: int = 0
    port: int = 0
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    async def wait_for(self, count: int, seconds: float = PATIENCE) -> list[SunkRequest]:
        """The requests so far, once there are `count`; fails after `seconds`."""
        async with asyncio.timeout(seconds):
            while len(self.requests) < count:
                self._changed.clear()
                await self._changed.wait()
        return self.requests

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        self.connections += 1
        number = self.connections
        try:
            while (request := await self._read(reader, number)) is not None:
                self.requests.append(request)
                self._changed.set()
                answer = self.answer(request)
                data = await answer if isinstance(answer, Awaitable) else answer
                if data is None:
                    return
                writer.write(data)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            pass
        finally:
            writer.close()

    async def _read(self, reader: asyncio.StreamReader, connection: int) -> SunkRequest | None:
        head = await reader.readuntil(b"\r\n\r\n") if not reader.at_eof() else b""
        if not head:
            return None
        first, *lines = head.decode("latin-1").split("\r\n")[:-2]
        method, path, _ = first.split(" ")
        headers = [(name, value.strip()) for name, _, value in (line.partition(":") for line in lines)]
        request = SunkRequest(method, path, headers, b"", time.monotonic(), connection)
        if request.header("transfer-encoding"):
            request.body = await _chunks(reader)
        elif length := request.header("content-length"):
            request.body = await reader.readexactly(int(length))
        return request


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    body = b""
    while size := int(await reader.readline(), 16):
        body += await reader.readexactly(size)
        await reader.readline()
    await reader.readline()
    return body


@asynccontextmanager
async def http_sink(
    answer: Script | None = None, tls: ssl.SSLContext | None = None, port: int = 0
) -> AsyncIterator[HttpSinkServer]:
    """A sink on this machine; `port` 0 is a free one."""
    sink = HttpSinkServer() if answer is None else HttpSinkServer(answer)
    tasks: set[asyncio.Task[None]] = set()

    def begun(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(sink.serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(begun, "127.0.0.1", port, ssl=tls, limit=_LONGEST_HEAD)
    sink.port = server.sockets[0].getsockname()[1]
    try:
        yield sink
    finally:
        server.close()
        for task in [*tasks]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
