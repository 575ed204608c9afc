"""One HTTP connection to a sink: one request at a time, whose answer is read within limits and a time limit."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from typing import Final, Protocol, cast

from bridges.cloudevents.sinks.common.dialer import failure_reason
from bridges.cloudevents.sinks.http.response import AnswerReader, HttpAnswer, InvalidAnswer

_PEEK: Final = 0.01
"""Seconds without a request after which the socket is asked whether the sink has closed it meanwhile."""
_INVALID: Final = "what the sink sent is no valid answer"


class NoAnswer(Exception):
    """There is no valid answer; the sink may have received the request. The text has nothing that the sink sent."""


Answered = Callable[[HttpAnswer | NoAnswer], None]
"""Receives the result of a request; called on the event loop, never from within `send`."""


class ConnectionOwner(Protocol):
    """The pool of a connection."""

    def on_idle(self, connection: HttpConnection) -> None:
        """Another request may be sent on it."""

    def on_lost(self, connection: HttpConnection) -> None:
        """It is closed."""


class HttpConnection(asyncio.Protocol):
    """Sends requests one after the other; closes itself when it cannot be used any more."""

    def __init__(self, owner: ConnectionOwner, opened: socket.socket) -> None:
        self._owner: Final = owner
        self._socket: Final = opened
        self._loop: Final = asyncio.get_running_loop()
        self._reader: Final = AnswerReader()
        self._transport: asyncio.Transport | None = None
        self._answered: Answered | None = None
        self._deadline = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self.idle_since = 0.0
        """When its last request was done, on the loop's clock."""

    def usable(self, now: float) -> bool:
        """Whether a request may be sent; False if the sink has closed it, or sent what nobody has asked for."""
        transport = self._transport
        if transport is None or transport.is_closing() or self._answered is not None:
            return False
        return now - self.idle_since < _PEEK or self._quiet()

    def _quiet(self) -> bool:
        try:
            self._socket.recv(1, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            return True
        except OSError:
            return False
        return False  # the end of the stream, or data

    def send(self, request: Sequence[bytes], deadline: float, answered: Answered, *, body: bool = False) -> None:
        """Send a request while `usable`; `deadline`: on the loop's clock; `body`: return the answer's."""
        assert self._transport is not None
        self._reader.expect(body=body)
        self._answered, self._deadline = answered, deadline
        if self._timer is None or self._timer.when() > deadline:
            self._watch()
        if len(request) == 1:
            self._transport.write(request[0])
        else:
            self._transport.writelines(request)

    def _watch(self) -> None:
        """One timer serves all requests: most are done long before their time is over."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(self._deadline, self._look)

    def _look(self) -> None:
        self._timer = None
        if self._answered is None:
            return
        if self._deadline > self._loop.time():
            self._watch()
        else:
            self._end("no answer in time")

    def abort(self) -> None:
        """Close at once; a pending request gets no result."""
        self._answered = None
        self._close()

    def fail(self, reason: str) -> None:
        """Close at once; a pending request fails."""
        if self._answered is not None:
            self._end(reason)
        else:
            self._close()

    def _close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._transport is not None:
            self._transport.abort()

    # -- from the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio."""
        self._transport, self.idle_since = cast(asyncio.Transport, transport), self._loop.time()

    def data_received(self, data: bytes) -> None:
        """See asyncio. Data that nobody has asked for closes the connection."""
        try:
            if self._reader.feed(data):
                self._done()
        except InvalidAnswer:
            self.fail(_INVALID)

    def eof_received(self) -> None:
        """See asyncio: the transport closes itself."""

    def connection_lost(self, error: Exception | None) -> None:
        """See asyncio."""
        self._transport = None
        self._owner.on_lost(self)
        if self._answered is None:
            self._close()
        elif isinstance(error, OSError):
            self._end(failure_reason(error))
        else:
            self._end(_INVALID if self._reader.begun else "the sink closed the connection without an answer")

    # -- the end of a request

    def _done(self) -> None:
        """The answer is complete."""
        answered, answer, transport = self._answered, self._reader.result(), self._transport
        assert answered is not None
        assert answer is not None
        self._answered = None
        self.idle_since = self._loop.time()
        if self._reader.reusable and transport is not None and not transport.get_write_buffer_size():
            self._owner.on_idle(self)
        else:  # an early answer, or the last one
            self._close()
        answered(answer)

    def _end(self, reason: str) -> None:
        """No more is read: the answer counts if its head is complete."""
        answered, answer = self._answered, self._reader.end()
        assert answered is not None
        self._answered = None
        self._close()
        answered(answer or NoAnswer(reason))
