"""Connections to HTTP sinks that take a bounded number of answers to one request.

aiohttp ignores informational answers (1xx) until the final one, and queues any answers that follow it, without a
limit: a sink that sends nothing else would have the loop and the memory of all others.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import aiohttp
from aiohttp.client_proto import ResponseHandler

_MAX_ANSWERS: Final = 100
"""Answers to one request; all but the final one are informational."""
_CHUNK: Final = 4096
"""Bytes that are parsed at a time, so that few answers are read beyond the limit."""


class BoundedConnector(aiohttp.TCPConnector):
    """Makes connections that are closed when more answers come than one request can have."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        # There is no public way to choose the class of the connections.
        self._factory = self._connection  # type: ignore[assignment]

    def _connection(self) -> BoundedResponseHandler:
        return BoundedResponseHandler(self._loop)


class BoundedResponseHandler(ResponseHandler):
    """aiohttp's connection, with a limit of answers to one request."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self._answers = 0

    def set_response_params(self, **settings: Any) -> None:
        """A request is sent; its answers are counted."""
        self._answers = 0
        super().set_response_params(**settings)

    def feed_data(self, data: Any, size: int = 0) -> None:
        """An answer's head was read."""
        self._answers += 1
        super().feed_data(data, size)

    def data_received(self, data: bytes) -> None:
        """Parse what came; too many answers end the connection, and the request unless its final answer was there."""
        for start in range(0, max(len(data), 1), _CHUNK):
            super().data_received(data[start : start + _CHUNK])
            if self._answers > _MAX_ANSWERS:
                self.abort()  # it forgets an exception that was set before
                self.set_exception(aiohttp.ClientPayloadError("too many answers"))
                return
