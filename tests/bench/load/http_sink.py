"""An HTTP sink that costs next to nothing: it answers 204 and counts, until it has seen COUNT events.

`python -m tests.bench.load.http_sink PORT COUNT MODE [CERT KEY]` prints a line when it listens, and in the end the
seconds from the first request to the last, and its own processor time. MODE: `each` counts requests; `batched` counts
the events in requests by their `specversion` members; `latency` reads `stamp`, the first member of each event's data,
and prints the median and the 99th percentile of microseconds since then as well. CERT and KEY: it has TLS.
"""

from __future__ import annotations

import asyncio
import ssl
import sys
import time
from typing import Final

_ANSWER: Final = b"HTTP/1.1 204 No Content\r\n\r\n"
_END: Final = b"\r\n\r\n"
_LENGTH: Final = b"content-length: "
_MEMBER: Final = b'"specversion"'
_STAMP: Final = slice(len('{"stamp":'), len('{"stamp":') + 20)


class Count:
    """The events so far, of all connections."""

    def __init__(self, most: int, mode: str) -> None:
        self.most: Final = most
        self.batched: Final = mode == "batched"
        self.stamped: Final = mode == "latency"
        self.late: Final[list[int]] = []
        self.seen = 0
        self.first = 0.0
        self.done: Final[asyncio.Future[float]] = asyncio.get_running_loop().create_future()

    def add(self, body: bytes) -> None:
        """A request has come."""
        if not self.seen:
            self.first = time.perf_counter()
        if self.stamped:
            self.late.append(time.perf_counter_ns() - int(body[_STAMP]))
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


async def _serve(port: int, most: int, mode: str, tls: ssl.SSLContext | None) -> None:
    count = Count(most, mode)
    server = await asyncio.get_running_loop().create_server(lambda: Connection(count), "127.0.0.1", port, ssl=tls)
    print("listens", flush=True)
    async with server:
        seconds = await count.done
    latency = [percentile(count.late, each) for each in (50, 99)] if count.stamped else []
    print(seconds, time.process_time(), *latency, flush=True)


def percentile(times: list[int], percent: int) -> float:
    """Of all but the first fifth, in microseconds."""
    ordered = sorted(times[len(times) // 5 :])
    return ordered[len(ordered) * percent // 100] / 1000


def _tls(files: list[str]) -> ssl.SSLContext | None:
    if not files:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*files)
    return context


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], _tls(sys.argv[4:])))
