"""Consumer groups for operators: show the owners of partitions, and rebalance.

Everybody who reaches the port may read; only programs on this machine may change something, because the port has no
users. Requests that a web page made a browser send have an `Origin` and are refused.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from gateway.errors import INTERNAL_ERROR, AmqpError
from policies.values.hosts import is_loopback

GroupRequest = Callable[[str, str, str], Awaitable[Mapping[str, object]]]
"""A request about a group: scope, address, group."""


class GroupAdminHandler(Protocol):
    """Answers requests about groups; raises AmqpError if there is no such event log, or no answer."""

    async def show(self, scope: str, address: str, group: str) -> Mapping[str, object]: ...
    async def rebalance(self, scope: str, address: str, group: str) -> Mapping[str, object]: ...


def group_routes(admin: GroupAdminHandler) -> list[Route]:
    """`GET /groups` and `POST /groups/rebalance`, both with scope, address and group in the query."""

    async def show(request: Request) -> Response:
        return await _answer(request, admin.show)

    async def rebalance(request: Request) -> Response:
        if not _local(request):
            return _error(403, "only programs on the gateway's own machine may use this")
        return await _answer(request, admin.rebalance)

    return [Route("/groups", show), Route("/groups/rebalance", rebalance, methods=["POST"])]


async def _answer(request: Request, ask: GroupRequest) -> Response:
    scope, address, group = (request.query_params.get(name, "") for name in ("scope", "address", "group"))
    if not (scope and address and group):
        return _error(400, "name scope, address and group in the query: /groups?scope=…&address=…&group=…")
    try:
        return JSONResponse(await ask(scope, address, group))
    except AmqpError as error:
        return _error(503 if error.condition == INTERNAL_ERROR else 404, error.description)


def _error(status: int, text: str) -> Response:
    return JSONResponse({"error": text}, status_code=status)


def _local(request: Request) -> bool:
    return request.client is not None and "origin" not in request.headers and is_loopback(request.client.host)
