"""One aiohttp session for all HTTP sinks that a rule of the policy allows (decision 24).

It follows no redirects, stores no cookies, ignores proxy variables and .netrc, and decompresses nothing. It connects
only to addresses that the dialer has checked. Only the status and some headers of an answer are used; up to 64 KiB of
its body are read so that the connection can be reused, and a longer body closes the connection.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from bridges.cloudevents.sinks.dialer import Dialer, family_of
from bridges.cloudevents.sinks.http.bounded_connector import BoundedConnector


def parse_url(url: str) -> URL:
    """Parse a checked URI without normalizing it."""
    return URL(url, encoded=True)


def time_limit(seconds: float) -> aiohttp.ClientTimeout:
    """For a whole request: connect, send and receive."""
    return aiohttp.ClientTimeout(total=seconds)


_MAX_BODY: Final = 65_536
_MAX_HEADER: Final = 16_384
_IDLE_TIMEOUT: Final = 4.0
"""Seconds that an idle connection is kept: less than servers keep theirs, of which node's five are the shortest."""


class HttpAnswer(NamedTuple):
    """The used parts of a response."""

    status: int
    headers: Mapping[str, str]
    """By name in lower case."""


class HttpClient:
    """Sends requests to the places of one rule."""

    def __init__(self, dialer: Dialer, tls: ssl.SSLContext) -> None:
        """Must be called on the event loop."""
        connector = BoundedConnector(
            resolver=CheckedResolver(dialer),
            use_dns_cache=False,
            ssl=tls,
            limit=0,
            keepalive_timeout=_IDLE_TIMEOUT,
            socket_factory=dialer.socket,
        )
        self._session: Final = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
            skip_auto_headers=("Accept-Encoding", "Content-Type", "User-Agent"),
            max_line_size=_MAX_HEADER,
            max_field_size=_MAX_HEADER,
            requote_redirect_url=False,
        )
        # Requests are sent once: the outlet counts attempts and repeats them. There is no public switch.
        self._session._retry_connection = False

    async def request(
        self,
        method: str,
        url: URL,
        headers: Iterable[tuple[str, str]],
        body: bytes | None,
        limit: aiohttp.ClientTimeout,
    ) -> HttpAnswer:
        """Send and wait for the answer; raises OSError, TimeoutError or aiohttp.ClientError."""
        async with self._session.request(
            method, url, headers=headers, data=body, timeout=limit, allow_redirects=False
        ) as response:
            await _discard_body(response)
            return HttpAnswer(response.status, response.headers)

    async def post_form(
        self, url: str, form: Mapping[str, str], headers: Iterable[tuple[str, str]], seconds: float
    ) -> tuple[int, bytes]:
        """Send a form; returns the status and up to 64 KiB of the body; raises the same errors as `request`."""
        async with self._session.post(
            parse_url(url), data=dict(form), headers=headers, timeout=time_limit(seconds), allow_redirects=False
        ) as response:
            body = await response.content.read(_MAX_BODY)
            response.close()
            return response.status, body

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()


class CheckedResolver(AbstractResolver):
    """Adapts a dialer to aiohttp's resolver interface."""

    def __init__(self, dialer: Dialer) -> None:
        self._dialer: Final = dialer

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """The allowed addresses of a host; raises EgressRefused."""
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=family_of(address),
                proto=socket.IPPROTO_TCP,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for address in await self._dialer.addresses(host, port)
        ]

    async def close(self) -> None:
        """Nothing to close."""


async def _discard_body(response: aiohttp.ClientResponse) -> None:
    """Read it, so that the connection can be reused; a long or truncated body closes the connection."""
    left = _MAX_BODY
    try:
        while left >= 0:
            chunk = await response.content.readany()
            if not chunk:
                return
            left -= len(chunk)
    except (aiohttp.ClientError, OSError):
        pass
    response.close()
