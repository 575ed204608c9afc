"""HTTP connections with limits: on the time of a request and its answer, and on the number of open connections.

uvicorn waits without limit for the rest of a request, and answers 503 to all clients when its limit of connections is
reached. Here slow connections are dropped, and a new connection replaces the one that has waited longest without a
complete request, so that health checks are answered however many connections there are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ClassVar, Final

from uvicorn.protocols.http.h11_impl import H11Protocol

CONNECTIONS: Final = 128
"""Maximum number of open connections of the HTTP listener."""
HEAD: Final = 10.0
"""Seconds from the connection, or the last answer, to the end of a request's head."""
ANSWER: Final = 30.0
"""Seconds from the head of a request to the end of its answer; a client that does not read is dropped, too."""


class Waiting:
    """The connections that have no request in progress, in the order in which they began to wait."""

    def __init__(self, dropped: Callable[[str], None]) -> None:
        self._order: dict[BoundedProtocol, None] = {}
        self.dropped: Final = dropped

    def add(self, connection: BoundedProtocol) -> None:
        """Add a connection at the end."""
        self._order.pop(connection, None)
        self._order[connection] = None

    def remove(self, connection: BoundedProtocol) -> None:
        """Remove a connection that has a request in progress or is closed."""
        self._order.pop(connection, None)

    def drop_first(self) -> None:
        """Drop the connection that has waited longest."""
        connection = next(iter(self._order))
        self.dropped("http-too-many-connections")
        connection.drop()


class BoundedProtocol(H11Protocol):
    """uvicorn's HTTP/1.1 protocol with deadlines; `bounded` makes the class of one listener."""

    waiting: ClassVar[Waiting]
    most: ClassVar[int] = CONNECTIONS
    """Open connections at a time."""
    answer: ClassVar[float] = ANSWER
    """Seconds for an answer."""
    _deadline: asyncio.TimerHandle | None = None
    _answering: object = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()
        if len(self.connections) > self.most:
            self.waiting.drop_first()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._check_request()

    def _unsupported_upgrade_warning(self) -> None:
        """Say nothing: whoever connects may ask for an upgrade, and is answered as without."""

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._wait()
        self._check_request()  # a pipelined request may have begun

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        super().connection_lost(exc)

    def drop(self) -> None:
        """Close the socket at once."""
        self._stop()
        self.transport.abort()

    def endless(self) -> None:
        """Let the answer in progress take any time: whoever gives it sees to its end."""
        if self._deadline is not None:
            self._deadline.cancel()

    def _wait(self) -> None:
        self.waiting.add(self)
        self._set_deadline(HEAD)

    def _check_request(self) -> None:
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete and cycle is not self._answering:
            self._answering = cycle
            self.waiting.remove(self)
            self._set_deadline(type(self).answer)

    def _set_deadline(self, seconds: float) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self.loop.call_later(seconds, self._too_slow)

    def _too_slow(self) -> None:
        self.waiting.dropped("http-too-slow")
        self.drop()

    def _stop(self) -> None:
        self.waiting.remove(self)
        if self._deadline is not None:
            self._deadline.cancel()


def bounded(dropped: Callable[[str], None]) -> type[BoundedProtocol]:
    """The protocol class for uvicorn; `dropped` is called with the reason when a connection is dropped."""

    class ListenerProtocol(BoundedProtocol):
        """The connections of this listener."""

        waiting = Waiting(dropped)

    return ListenerProtocol
