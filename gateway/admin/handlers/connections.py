"""Connections: list them by page, show one, close one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.requests import Request
from starlette.responses import Response

from gateway.admin.access.gate import caller_of
from gateway.admin.documents.connections import connection_document
from gateway.admin.queries import BadQuery, check_names, numbers_of, page_of
from gateway.admin.walk import connections_after
from gateway.errors import CONNECTION_FORCED, AmqpError
from gateway.http.request import error_response, json_response

if TYPE_CHECKING:
    from gateway.admin.documents.common import Document
    from gateway.admin.source import AdminSource
    from gateway.amqp.transport.connection import Connection
    from gateway.observability.roster import Entry

_FILTERS: Final = ("scope", "user", "connector")
_MAX_REASON: Final = 200


async def list_connections(source: AdminSource, request: Request) -> Response:
    """`GET /connections`."""
    query = request.query_params
    check_names(query, ("limit", "after", *_FILTERS))
    page = page_of(query, 1)
    wanted = [(name, query[name]) for name in _FILTERS if name in query]
    items: list[Document] = []
    async for entry in connections_after(source.connections, page.after[0]):
        if all(getattr(entry.item.peer, name) == value for name, value in wanted):
            items.append(connection_document(entry))
            if len(items) == page.limit:
                break
    following = items[-1]["id"] if len(items) == page.limit else None
    return json_response({"items": items, "next": following, "total": len(source.connections)})


async def show_connection(source: AdminSource, request: Request) -> Response:
    """`GET /connections/{id}`."""
    check_names(request.query_params, ())
    entry = _entry(source, request)
    return _unknown() if entry is None else json_response(connection_document(entry))


async def close_connection(source: AdminSource, request: Request) -> Response:
    """`DELETE /connections/{id}`: the peer gets `amqp:connection:forced`."""
    reason = reason_of(request)
    entry = _entry(source, request)
    if entry is None:
        return _unknown()
    about = connection_document(entry)
    entry.item.close(AmqpError(CONNECTION_FORCED, reason))
    shown = {name: about[name] for name in ("name", "user", "peer")}
    source.audit(caller_of(request).name, "close connection", id=about["id"], why=reason, **shown)
    return json_response({"closed": about["id"]})


def reason_of(request: Request) -> str:
    """The description of an error for the peer, from the parameter `reason`."""
    check_names(request.query_params, ("reason",))
    reason = request.query_params.get("reason", "")
    if len(reason) > _MAX_REASON or not (reason.isprintable()):
        raise BadQuery(f"reason: up to {_MAX_REASON} printable characters")
    return f"closed by an operator of the gateway{': ' if reason else ''}{reason}"


def _entry(source: AdminSource, request: Request) -> Entry[Connection] | None:
    return source.connections.get(*numbers_of(request.path_params["id"], 1))


def _unknown() -> Response:
    return error_response(404, "notfound", "no connection has this id; it may have ended")
