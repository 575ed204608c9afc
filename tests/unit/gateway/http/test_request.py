"""Bodies of requests within their limits of time and size."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.requests import Request

from gateway.http.request import ApiRequest, BodyRefused, put, read_body


def request(*parts: bytes, seconds: float = 10.0, most: int = 100) -> Request:
    """A chunked request whose last chunk never comes."""
    left = list(parts)

    async def receive() -> dict[str, Any]:
        if left:
            return {"type": "http.request", "body": left.pop(0), "more_body": True}
        await asyncio.Event().wait()
        raise AssertionError

    scope = put({"type": "http", "headers": []}, ApiRequest("ann", most, seconds))
    return Request(scope, receive)


async def test_a_body_that_does_not_end_is_too_late_and_the_connection_is_closed() -> None:
    with pytest.raises(BodyRefused) as refused:
        await asyncio.wait_for(read_body(request(b"{", seconds=0.05), 1000), 5)
    assert (refused.value.status, refused.value.code) == (408, "toolate")
    assert refused.value.headers == {"connection": "close"}
    assert "0.05 seconds" in refused.value.text


@pytest.mark.parametrize(("limit", "most"), [(10, 100), (100, 10)])
async def test_a_body_without_a_length_is_refused_as_soon_as_it_is_too_large(limit: int, most: int) -> None:
    with pytest.raises(BodyRefused, match="the body may have 10 bytes") as refused:
        await asyncio.wait_for(read_body(request(b"x" * 11, most=most), limit), 5)
    assert refused.value.status == 413
