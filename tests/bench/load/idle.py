"""Idle connections beside a measurement: `python -m tests.bench.load.idle PORT COUNT ADDRESS [LINKS]`.

Opens COUNT connections with LINKS (1) receiving links each and no credit, prints `ready`, and holds them until its
standard input ends.
"""

from __future__ import annotations

import asyncio
import resource
import sys
from typing import Any

import uvloop

from tests.bench.load.peer import Peer
from tests.bench.load.roles import Base

AT_A_TIME = 50


class Idle(Base):
    """Links at addresses of their own, attached and left alone."""

    def __init__(self, address: str, links: int, attached: asyncio.Future[None]) -> None:
        super().__init__(self._failed)
        self.address, self.left, self.done = address, links, attached

    def attach(self) -> None:
        for number in range(self.left):
            self.peer.receiver(f"{self.address}/{number}" if number else self.address)

    def attached(self, link: Any) -> None:
        self.left -= 1
        if not self.left and not self.done.done():
            self.done.set_result(None)

    def _failed(self, reason: str) -> None:
        if not self.done.done():
            self.done.set_exception(ConnectionError(reason))


async def open_one(port: int, address: str, links: int) -> None:
    """Connects and waits for the attaches."""
    loop = asyncio.get_running_loop()
    role = Idle(address, links, loop.create_future())
    await loop.create_connection(lambda: Peer(role), "127.0.0.1", port)
    await asyncio.wait_for(role.done, 120)


async def run(port: int, count: int, address: str, links: int = 1) -> None:
    """Opens all, a few at a time, and waits for the end of the input."""
    for start in range(0, count, AT_A_TIME):
        numbers = range(start, min(start + AT_A_TIME, count))
        await asyncio.gather(*(open_one(port, f"{address}/{number}", links) for number in numbers))
    print("ready", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    uvloop.run(run(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], *map(int, sys.argv[4:])))
