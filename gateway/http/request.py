"""What an application receives with a request: the user, and the limits for the size and time of the body."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Final, NamedTuple

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

ANONYMOUS: Final = "anonymous"
"""The user of a request without a login, as for AMQP connections."""
_KEY: Final = "scopegate.request"


class ApiRequest(NamedTuple):
    """The user and the limits of a request, set by the listener."""

    user: str
    body: int
    """The largest body, in bytes."""
    body_time: float
    """Seconds in which the whole body has to arrive."""


class BodyRefused(Exception):
    """The body is too large, too slow, or of an unsupported media type: `status` 413, 408 or 415."""

    def __init__(self, status: int, code: str, text: str) -> None:
        super().__init__(text)
        self.status: Final = status
        self.code: Final = code
        self.text: Final = text

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers of the response; the connection of a client that is too slow is closed."""
        return {"connection": "close"} if self.status == 408 else {}


def of_request(request: Request) -> ApiRequest:
    """The user and the limits of this request."""
    known = request.scope[_KEY]
    assert isinstance(known, ApiRequest)
    return known


def put(scope: Mapping[str, object], known: ApiRequest) -> dict[str, object]:
    """The ASGI scope with the user and the limits added."""
    return {**scope, _KEY: known}


async def read_body(request: Request, limit: int) -> bytes:
    """The whole body, within `limit` bytes and the listener's limits; raises BodyRefused, ClientDisconnect."""
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
    """A response with a JSON document."""
    body = json.dumps(document, ensure_ascii=False).encode()
    return Response(body, status, {"cache-control": "no-store", **(headers or {})}, "application/json")


def error_response(status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> Response:
    """A response with the error object of docs/subscriptions.md."""
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
