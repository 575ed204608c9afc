"""What an application gets with a request: who asks, and how large and slow its body may be."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Final, NamedTuple

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

ANONYMOUS: Final = "anonymous"
"""The user of a request without a login, as of a connection without one."""
_KEY: Final = "scopegate.request"


class ApiRequest(NamedTuple):
    """What the listener knows of a request."""

    user: str
    body: int
    """Bytes that the body may have."""
    body_time: float
    """Seconds until the body has to be there."""


class BodyRefused(Exception):
    """A body that is too large, comes too slowly, or is of another kind: `status` 413, 408 or 415."""

    def __init__(self, status: int, code: str, text: str) -> None:
        super().__init__(text)
        self.status: Final = status
        self.code: Final = code
        self.text: Final = text

    @property
    def headers(self) -> Mapping[str, str]:
        """A client that is too slow is not waited for any more."""
        return {"connection": "close"} if self.status == 408 else {}


def of_request(request: Request) -> ApiRequest:
    """What the listener knows of this request."""
    known = request.scope[_KEY]
    assert isinstance(known, ApiRequest)
    return known


def put(scope: Mapping[str, object], known: ApiRequest) -> dict[str, object]:
    """The ASGI scope with what the listener knows."""
    return {**scope, _KEY: known}


async def read_body(request: Request, limit: int) -> bytes:
    """The whole body, at most `limit` bytes and those of the listener; raises BodyRefused, ClientDisconnect."""
    known = of_request(request)
    most = min(limit, known.body)
    announced = request.headers.get("content-length", "0")
    if announced.isdigit() and int(announced) > most:
        raise _too_large(most)
    try:
        async with asyncio.timeout(known.body_time):
            return await _read(request, most)
    except TimeoutError:
        text = f"the body was not there after {known.body_time:g} seconds"
        raise BodyRefused(408, "toolate", text) from None


async def _read(request: Request, most: int) -> bytes:
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > most:
            raise _too_large(most)
    return bytes(body)


def _too_large(most: int) -> BodyRefused:
    return BodyRefused(413, "toolarge", f"the body may have {most} bytes")


def json_response(document: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A JSON document as an answer."""
    body = json.dumps(document, ensure_ascii=False).encode()
    return Response(body, status, {"cache-control": "no-store", **(headers or {})}, "application/json")


def error_response(status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> Response:
    """The error object of docs/subscriptions.md."""
    return json_response({"error": code, "message": message}, status, headers)


__all__ = [
    "ANONYMOUS",
    "ApiRequest",
    "BodyRefused",
    "ClientDisconnect",
    "error_response",
    "json_response",
    "of_request",
    "put",
    "read_body",
]
