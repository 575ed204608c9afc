"""One aiohttp session for all HTTP sinks that a rule of the policy allows (decision 24).

It follows no redirect, keeps no cookie, reads no proxy variable and no .netrc, and decompresses nothing. Connections go
to addresses that the dialer has checked. Of an answer only the status and some headers are used: up to 64 KiB of its
body are read so that the connection can be used again; a longer one closes it.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterable
from typing import Final, NamedTuple

import aiohttp
from yarl import URL

from bridges.cloudevents.sinks.dial import CheckedResolver, Dialer

_BODY: Final = 65_536
_HEADER: Final = 16_384
_IDLE: Final = 4.0
"""Seconds that an idle connection is kept: less than servers keep theirs, of which node's five are the shortest."""


class HttpAnswer(NamedTuple):
    """What is used of a response."""

    status: int
    headers: dict[str, str]
    """Names in lower case; of several with one name the last."""


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

    async def request(
        self, method: str, url: str, headers: Iterable[tuple[str, str]], body: bytes | None, seconds: float
    ) -> HttpAnswer:
        """Send and wait for the answer; raises OSError, TimeoutError or aiohttp.ClientError."""
        limit = aiohttp.ClientTimeout(total=seconds)
        async with self._session.request(
            method, URL(url, encoded=True), headers=list(headers), data=body, timeout=limit, allow_redirects=False
        ) as response:
            await _forget_body(response)
            return HttpAnswer(response.status, {name.lower(): value for name, value in response.headers.items()})

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()


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
