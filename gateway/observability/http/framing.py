"""Refuses requests whose length is ambiguous: a proxy before this port may see another request than we do."""

from __future__ import annotations

from typing import Final

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

_TEXT: Final = "the request has both Transfer-Encoding and Content-Length, or Transfer-Encoding in HTTP/1.0\n"


class FramingGuard:
    """An application that passes on only requests with one length; others are answered 400 and the connection closed.

    RFC 9112, 6.1 and 6.3: such a request may be an attempt to smuggle another one past a proxy.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app: Final = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and is_ambiguous(Headers(scope=scope), scope["http_version"]):
            await PlainTextResponse(_TEXT, 400, {"connection": "close"})(scope, receive, send)
            return
        await self._app(scope, receive, send)


def is_ambiguous(headers: Headers, version: str) -> bool:
    """Whether two readers may disagree on where the request ends."""
    return "transfer-encoding" in headers and ("content-length" in headers or version == "1.0")
