"""Refuses requests whose length is ambiguous, or whose version nobody speaks (RFC 9112, 6.3; RFC 9110, 2.5)."""

from __future__ import annotations

from typing import Final

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

_VERSIONS: Final = frozenset(("1.0", "1.1"))
_VERSION_TEXT: Final = "this port speaks HTTP/1.1 and HTTP/1.0\n"
_TEXT: Final = "the request has both Transfer-Encoding and Content-Length, or Transfer-Encoding in HTTP/1.0\n"


class FramingGuard:
    """An application that passes on only requests of HTTP/1 with one length; it closes the connection of others.

    RFC 9112, 6.1 and 6.3: such a request may be an attempt to smuggle another one past a proxy.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app: Final = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["http_version"] not in _VERSIONS:
            await PlainTextResponse(_VERSION_TEXT, 505, {"connection": "close"})(scope, receive, send)
            return
        if scope["type"] == "http" and is_ambiguous(Headers(scope=scope), scope["http_version"]):
            await PlainTextResponse(_TEXT, 400, {"connection": "close"})(scope, receive, send)
            return
        await self._app(scope, receive, send)


def is_ambiguous(headers: Headers, version: str) -> bool:
    """Whether two readers may disagree on where the request ends."""
    return "transfer-encoding" in headers and ("content-length" in headers or version == "1.0")
