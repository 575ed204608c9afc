"""Password hashing off the event loop, in turn by listener and peer address.

A PLAIN login hashes for 1 to 30 ms, in a pool of threads. The next login is taken in turn by listener and then by
address, so an address that floods the gateway with logins delays only itself. The number of waiting logins is bounded
by the listeners' limits of connections, and by their time limit of handshakes.
"""

from __future__ import annotations

import asyncio
import os
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

_WORKERS: Final = max((os.cpu_count() or 1) // 2, 1)
"""Threads: at most half of the processors, so that the event loop has one."""


class Ticket:
    """A check that waits or runs; after `cancel`, its result is dropped."""

    __slots__ = ("passes", "then")

    def __init__(self, passes: Callable[[], bool], then: Callable[[bool], None]) -> None:
        self.passes: Final = passes
        self.then: Callable[[bool], None] | None = then

    def cancel(self) -> None:
        """The connection was closed: do not start the check, or drop its result."""
        self.then = None


class Turns:
    """Tickets in turn: by listener, then by address, then by arrival; each operation is O(1)."""

    def __init__(self) -> None:
        self._listeners: OrderedDict[str, OrderedDict[str, deque[Ticket]]] = OrderedDict()

    def add(self, listener: str, address: str, ticket: Ticket) -> None:
        """Add a ticket to the queue of its address."""
        self._listeners.setdefault(listener, OrderedDict()).setdefault(address, deque()).append(ticket)

    def pop(self) -> Ticket | None:
        """Remove the next ticket; None if there is none."""
        while self._listeners:
            listener, addresses = self._listeners.popitem(last=False)
            address, tickets = addresses.popitem(last=False)
            ticket = tickets.popleft()
            if tickets:
                addresses[address] = tickets
            if addresses:
                self._listeners[listener] = addresses
            if ticket.then is not None:
                return ticket
        return None


class PasswordChecks:
    """The pool of one process; used from its event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, workers: int = _WORKERS) -> None:
        self._loop: Final = loop
        self._workers: Final = workers
        self._pool: Final = ThreadPoolExecutor(workers, "password-check")
        self._turns: Final = Turns()
        self._running = 0

    def submit(
        self, listener: str, address: str, passes: Callable[[], bool], then: Callable[[bool], None]
    ) -> Ticket:
        """Call `passes` in a thread when it is the address's turn, and `then` on the event loop with its result."""
        ticket = Ticket(passes, then)
        self._turns.add(listener, address, ticket)
        self._fill()
        return ticket

    def close(self) -> None:
        """Start no more checks."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _fill(self) -> None:
        while self._running < self._workers and (ticket := self._turns.pop()) is not None:
            self._running += 1
            future = self._loop.run_in_executor(self._pool, ticket.passes)
            future.add_done_callback(lambda done, ticket=ticket: self._done(ticket, done))  # type: ignore[misc]

    def _done(self, ticket: Ticket, future: asyncio.Future[bool]) -> None:
        self._running -= 1
        if future.cancelled():
            return
        self._fill()
        # Unexpected: this login fails, and the error is logged and counted
        if (error := future.exception()) is not None:
            self._loop.call_exception_handler({"message": "password check", "exception": error})
        if ticket.then is not None:
            ticket.then(error is None and future.result())
