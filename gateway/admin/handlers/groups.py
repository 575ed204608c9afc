"""Consumer groups: those with links of this process, the owners of partitions of any, and rebalancing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

from gateway.admin.gate import caller_of
from gateway.admin.queries import BadQuery, check_names, page_of
from gateway.errors import INTERNAL_ERROR, AmqpError
from gateway.http.request import error_response, json_response

if TYPE_CHECKING:
    from gateway.admin.documents.common import Document
    from gateway.admin.source import AdminSource

_NAMES = ("scope", "address", "group")
Ask = Callable[[str, str, str], Awaitable[Mapping[str, object]]]


async def list_groups(source: AdminSource, request: Request) -> Response:
    """`GET /groups`: with scope, address and group, that one of all gateways; else those with links here."""
    query = request.query_params
    check_names(query, ("limit", "after", *_NAMES))
    if any(name in query for name in _NAMES):
        return await _answer(source.groups.show, request)
    page, keys = page_of(query, 1), source.groups.keys()
    end = page.after[0] + page.limit
    try:
        items: list[Document] = [
            {**_parts(key), **await source.groups.show_key(key)} for key in keys[page.after[0] : end]
        ]
    except AmqpError as error:
        return error_response(503, "unavailable", error.description)
    following = str(end) if end < len(keys) else None
    return json_response({"items": items, "next": following, "total": len(keys)})


async def rebalance_group(source: AdminSource, request: Request) -> Response:
    """`POST /groups/rebalance` with scope, address and group: links that were assigned a partition end in order."""
    check_names(request.query_params, _NAMES)
    answer = await _answer(source.groups.rebalance, request)
    if answer.status_code == 200:
        source.audit(caller_of(request).name, "rebalance group", **dict(request.query_params))
    return answer


async def _answer(ask: Ask, request: Request) -> Response:
    scope, address, group = (request.query_params.get(name, "") for name in _NAMES)
    if not (scope and address and group):
        raise BadQuery("scope, address and group are needed together")
    try:
        return json_response(await ask(scope, address, group))
    except AmqpError as error:
        gone = error.condition != INTERNAL_ERROR
        return error_response(404 if gone else 503, "notfound" if gone else "unavailable", error.description)


def _parts(key: str) -> Document:
    cluster, topic, group = key.split("/", 2)
    return {"id": key, "cluster": cluster, "topic": topic, "group": group}
