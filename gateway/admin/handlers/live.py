"""What is live: rates, and the stream of changes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from gateway.admin.access.gate import caller_of, still_allowed
from gateway.admin.access.protocol import peer_of
from gateway.admin.live.rates_document import rates_document
from gateway.admin.queries import check_names
from gateway.http.request import error_response, json_response

if TYPE_CHECKING:
    from gateway.admin.live.streams import ChangeStream
    from gateway.admin.source import AdminSource

_RETRY = b"retry: 3000\n\n"
"""Milliseconds after which a browser connects again."""
_HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no", "x-content-type-options": "nosniff"}


async def show_rates(source: AdminSource, request: Request) -> Response:
    """`GET /rates`: messages a second; of links the rule and direction, of connectors and clusters."""
    check_names(request.query_params, ())
    source.watched()
    return json_response(rates_document(source.rates))


async def stream_events(source: AdminSource, request: Request) -> Response:
    """`GET /events`: changes as server-sent events, one round a second; a client that does not read is dropped."""
    check_names(request.query_params, ())
    caller = caller_of(request).name
    if refusal := source.streams.refusal(caller):
        status, text = refusal
        return error_response(status, "toomany", text, {"retry-after": "5"})
    connection = peer_of(request).connection
    stream = source.streams.open(caller, connection.drop, lambda: still_allowed(request))
    connection.stream()
    return StreamingResponse(_parts(source, stream), headers=_HEADERS, media_type="text/event-stream")


async def _parts(source: AdminSource, stream: ChangeStream) -> AsyncIterator[bytes]:
    try:
        yield _RETRY
        async for part in stream.read():
            yield part
    finally:
        source.streams.remove(stream)
