"""One aiohttp session for all HTTP sinks that a rule of the policy allows (decision 24).

It follows no redirect, keeps no cookie, reads no proxy variable and no .netrc, and decompresses nothing. Connections go
to addresses that the dialer has checked. Of an answer only the status and some headers are used: up to 64 KiB of its
body are read so that the connection can be used again; a longer one closes it.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from bridges.cloudevents.sinks.dial import Dialer, family_of


def place(url: str) -> URL:
    """A checked URI, exactly as it was given."""
    return URL(url, encoded=True)


def time_limit(seconds: float) -> aiohttp.ClientTimeout:
    """For a whole request: connecting, sending and the answer."""
    return aiohttp.ClientTimeout(total=seconds)


_BODY: Final = 65_536
_HEADER: Final = 16_384
_IDLE: Final = 4.0
"""Seconds that an idle connection is kept: less than servers keep theirs, of which node's five are the shortest."""


class HttpAnswer(NamedTuple):
    """What is used of a response."""

    status: int
    headers: Mapping[str, str]
    """By names in lower case."""


class HttpClient:
    """Requests to the places of one rule."""

    def __init__(self, dialer: Dialer, tls: ssl.SSLContext) -> None:
        """Must be made on the loop."""
        connector = aiohttp.TCPConnector(
            resolver=CheckedResolver(dialer),
            use_dns_cache=False,
            ssl=tls,
            limit=0,
            keepalive_timeout=_IDLE,
            socket_factory=dialer.socket,
        )
        self._session: Final = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
            skip_auto_headers=("Accept-Encoding", "Content-Type", "User-Agent"),
            max_line_size=_HEADER,
            max_field_size=_HEADER,
            requote_redirect_url=False,
        )
        # A request is sent once: its repetition is for the one who counts attempts. There is no public switch.
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
            await _forget_body(response)
            return HttpAnswer(response.status, response.headers)

    async def post_form(
        self, url: str, form: Mapping[str, str], headers: Iterable[tuple[str, str]], seconds: float
    ) -> tuple[int, bytes]:
        """Send a form; returns the status and up to 64 KiB of the body; raises as `request` does."""
        async with self._session.post(
            place(url), data=dict(form), headers=headers, timeout=time_limit(seconds), allow_redirects=False
        ) as response:
            body = await response.content.read(_BODY)
            response.close()
            return response.status, body

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()


class CheckedResolver(AbstractResolver):
    """A dialer as aiohttp asks for addresses."""

    def __init__(self, dialer: Dialer) -> None:
        self._dialer: Final = dialer

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """The addresses that may be dialled; raises EgressRefused."""
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
        """Nothing is kept."""


async def _forget_body(response: aiohttp.ClientResponse) -> None:
    """Read it, so that the connection can serve the next request; what is longer or ends early closes it."""
    left = _BODY
    try:
        while left >= 0:
            chunk = await response.content.readany()
            if not chunk:
                return
            left -= len(chunk)
    except (aiohttp.ClientError, OSError):
        pass
    response.close()
