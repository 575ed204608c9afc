"""The body of a request: small, and refused where nobody reads it."""

from __future__ import annotations

import json
from typing import Final

from starlette.requests import Request

from gateway.admin.queries import BadQuery

_LARGEST: Final = 4096


async def small_body(request: Request) -> bytes:
    """The whole body; raises BadQuery if it is large."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > _LARGEST:
            raise BadQuery(f"the body may have {_LARGEST} bytes")
    return bytes(body)


async def check_no_body(request: Request) -> None:
    """Refuse a body that nobody reads: who asks for less than all must not get all. Raises BadQuery."""
    body = await small_body(request)
    try:
        empty = not body or json.loads(body) == {}
    except ValueError:
        empty = False
    if not empty:
        raise BadQuery("this takes no body")
