"""An HTTP sink that costs next to nothing: it answers 204 and counts, until it has seen COUNT events.

`python -m tests.bench.load.http_sink PORT COUNT [batched]` prints a line when it listens, and in the end the seconds
from the first request to the last, and its own processor time. With `batched` each request holds several events,
which are counted by their `specversion` members.
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Final

_ANSWER: Final = b"HTTP/1.1 204 No Content\r\n\r\n"
_END: Final = b"\r\n\r\n"
_LENGTH: Final = b"content-length: "
_MEMBER: Final = b'"specversion"'


class Count:
    """The events so far, of all connections."""

    def __init__(self, most: int, *, batched: bool) -> None:
        self.most: Final = most
        self.batched: Final = batched
        self.seen = 0
        self.first = 0.0
        self.done: Final[asyncio.Future[float]] = asyncio.get_running_loop().create_future()

    def add(self, body: bytes) -> None:
        """A request has come."""
        if not self.seen:
            self.first = time.perf_counter()
        self.seen += body.count(_MEMBER) if self.batched else 1
        if self.seen >= self.most and not self.done.done():
            self.done.set_result(time.perf_counter() - self.first)


class Connection(asyncio.Protocol):
    """One connection; requests may come in pieces, and several in one piece."""

    def __init__(self, count: Count) -> None:
        self._count: Final = count
        self._data = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._data += data
        while (end := self._data.find(_END)) >= 0:
            head = self._data[:end].lower()
            at = head.find(_LENGTH)
            length = int(head[at + len(_LENGTH) :].split(b"\r", 1)[0]) if at >= 0 else 0
            whole = end + len(_END) + length
            if len(self._data) < whole:
                return
            self._count.add(self._data[end + len(_END) : whole])
            self._data = self._data[whole:]
            assert self._transport is not None
            self._transport.write(_ANSWER)


async def _serve(port: int, most: int, batched: bool) -> None:
    count = Count(most, batched=batched)
    server = await asyncio.get_running_loop().create_server(lambda: Connection(count), "127.0.0.1", port)
    print("listens", flush=True)
    async with server:
        seconds = await count.done
    print(seconds, time.process_time(), flush=True)


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1]), int(sys.argv[2]), len(sys.argv) > 3))
