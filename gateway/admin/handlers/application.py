"""The application of the admin API: its paths and their handlers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from gateway.admin.access.gate import PREFIX, READS
from gateway.admin.body import check_no_body
from gateway.admin.console.pages import page_routes
from gateway.admin.handlers import connections, groups, links, lists, live, policy, sessions, steering
from gateway.admin.queries import BadQuery, check_names
from gateway.http.request import error_response, json_response

if TYPE_CHECKING:
    from gateway.admin.source import AdminSource

Handler = Callable[["AdminSource", Request], Awaitable[Response]]


async def _status(source: AdminSource, request: Request) -> Response:
    """`GET /status`."""
    check_names(request.query_params, ())
    return json_response(source.status())


async def _openapi(source: AdminSource, request: Request) -> Response:
    """`GET /openapi.json`."""
    from gateway.admin.openapi.description import openapi

    check_names(request.query_params, ())
    return json_response(openapi())


HANDLERS: Final[tuple[tuple[str, str, Handler], ...]] = (
    ("GET", "/status", _status),
    ("GET", "/connections", connections.list_connections),
    ("GET", "/connections/{id}", connections.show_connection),
    ("DELETE", "/connections/{id}", connections.close_connection),
    ("GET", "/links", links.list_links),
    ("GET", "/links/{id}", links.show_link),
    ("DELETE", "/links/{id}", links.close_link),
    ("GET", "/addresses", policy.list_addresses),
    ("GET", "/clusters", lists.list_clusters),
    ("GET", "/topics", lists.list_topics),
    ("GET", "/topics/{cluster}/{topic}", lists.show_topic),
    ("GET", "/groups", groups.list_groups),
    ("POST", "/groups/rebalance", groups.rebalance_group),
    ("GET", "/bridges", lists.list_bridges),
    ("GET", "/connectors", lists.list_connectors),
    ("GET", "/policy", policy.show_policy),
    ("GET", "/policy/diff", policy.show_diff),
    ("GET", "/explain", policy.explain_access),
    ("GET", "/keys", policy.list_keys),
    ("GET", "/certificates", policy.list_certificates),
    ("GET", "/refusals", policy.list_refusals),
    ("GET", "/rates", live.show_rates),
    ("GET", "/events", live.stream_events),
    ("GET", "/openapi.json", _openapi),
    ("GET", "/session", sessions.show_session),
    ("POST", "/session", sessions.begin_session),
    ("DELETE", "/session", sessions.end_session),
    ("POST", "/reload", steering.reload),
    ("POST", "/check", steering.check),
    ("POST", "/drain", steering.drain),
)


_IN_TURN: Final = frozenset((connections.list_connections, links.list_links, policy.list_addresses))
"""Handlers whose answers take milliseconds of the loop: one is made at a time, or many would stop everything else."""


def make_admin_app(source: AdminSource) -> Starlette:
    """The application; `gateway.admin.access.gate.AdminGate` stands before it."""
    turn = asyncio.Lock()
    paths: dict[str, dict[str, Handler]] = {}
    for method, path, handler in HANDLERS:
        paths.setdefault(path, {})[method] = handler
    routes = [Route(PREFIX + path, _endpoint(source, found, turn), methods=[*found]) for path, found in paths.items()]
    return Starlette(routes=[*routes, *page_routes()], exception_handlers={HTTPException: _plain, BadQuery: _bad})


def _endpoint(
    source: AdminSource, handlers: dict[str, Handler], turn: asyncio.Lock
) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        handler = handlers["GET" if request.method == "HEAD" else request.method]
        if handler is not sessions.begin_session and request.method not in READS:
            await check_no_body(request)
        if handler not in _IN_TURN:
            return await handler(source, request)
        async with turn:
            await asyncio.sleep(0)  # the loop's other work comes before each
            return await handler(source, request)

    return endpoint


async def _plain(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    codes = {404: ("notfound", "there is nothing at this path"), 405: ("method", "this path has no such method")}
    code, text = codes.get(error.status_code, ("refused", str(error.detail)))
    return error_response(error.status_code, code, text, error.headers)


async def _bad(_: Request, error: Exception) -> Response:
    return error_response(400, "query", str(error))
