"""Sends requests to the HTTP hosts that a rule of the policy allows (docs/decisions/0029).

It connects only to addresses that the dialer has checked. It follows no redirects, stores no cookies, ignores proxy
variables and .netrc, decompresses nothing, and sends each request once: the delivery queue counts
attempts and repeats them.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from urllib.parse import urlencode

from bridges.cloudevents.sinks.common.dialer import Dialer
from bridges.cloudevents.sinks.http.connection import HttpConnection, NoAnswer
from bridges.cloudevents.sinks.http.pool import ConnectionPool
from bridges.cloudevents.sinks.http.request import Origin, field_lines, head_start, request_bytes, target_of
from bridges.cloudevents.sinks.http.response import HttpAnswer


class HttpClient:
    """Its methods send at once; each sink limits the number of its requests."""

    def __init__(self, dialer: Dialer, tls: ssl.SSLContext) -> None:
        """Must be called on the event loop."""
        self.pool: Final = ConnectionPool(dialer, tls)
        self._loop: Final = asyncio.get_running_loop()
        self.now: Final = self._loop.time
        """The clock of deadlines, in seconds."""

    async def send(self, origin: Origin, request: Sequence[bytes], seconds: float, *, body: bool = False) -> HttpAnswer:
        """Send a request and wait for the answer, at most `seconds` in all; raises NotSent or NoAnswer."""
        deadline = self._loop.time() + seconds
        connection = self.pool.acquire(origin) or await self.pool.open(origin, deadline)
        return await self._exchange(connection, request, deadline, body)

    async def _exchange(
        self, connection: HttpConnection, request: Sequence[bytes], deadline: float, body: bool
    ) -> HttpAnswer:
        result: asyncio.Future[HttpAnswer] = self._loop.create_future()

        def answered(answer: HttpAnswer | NoAnswer) -> None:
            if result.done():
                return
            if isinstance(answer, NoAnswer):
                result.set_exception(answer)
            else:
                result.set_result(answer)

        connection.send(request, deadline, answered, body=body)
        try:
            return await result
        except asyncio.CancelledError:
            connection.abort()
            raise

    async def request(
        self, method: str, uri: str, headers: Iterable[tuple[str, str]], seconds: float
    ) -> HttpAnswer:
        """Send a request without a body; raises NotSent, NoAnswer, or ValueError for an invalid header."""
        target = target_of(uri)
        return await self.send(target.origin, request_bytes(head_start(method, target, headers), "", None), seconds)

    async def post_form(
        self, uri: str, form: Mapping[str, str], headers: Iterable[tuple[str, str]], seconds: float
    ) -> tuple[int, bytes]:
        """Send a form; returns the status and the body, of at most 64 KiB; raises as `request` does."""
        target = target_of(uri)
        start = head_start("POST", target, headers)
        kind = field_lines([("Content-Type", "application/x-www-form-urlencoded")])
        request = request_bytes(start, kind, urlencode(form).encode())
        answer = await self.send(target.origin, request, seconds, body=True)
        if answer.body is None:
            raise NoAnswer("the answer is too long, or incomplete")
        return answer.status, answer.body

    async def close(self) -> None:
        """Close all connections."""
        await self.pool.close()
