"""Consumer groups: those with links of this process, the owners of partitions of any, and rebalancing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from starlette.requests import Request
from starlette.responses import Response

from gateway.admin.access.gate import caller_of
from gateway.admin.positions import GroupReader, group_readers
from gateway.admin.queries import BadQuery, check_names, page_of
from gateway.errors import INTERNAL_ERROR, AmqpError
from gateway.http.request import error_response, json_response

if TYPE_CHECKING:
    from gateway.admin.documents.common import Document
    from gateway.admin.source import AdminSource

_NAMES = ("scope", "address", "group")
_ANSWER: Final = 5.0
"""Seconds that Kafka has to say the ends of topics."""
Ends = Mapping[tuple[str, ...], Mapping[int, int]]
Ask = Callable[[str, str, str], Awaitable[Mapping[str, object]]]


async def list_groups(source: AdminSource, request: Request) -> Response:
    """`GET /groups`: with scope, address and group, that one of all gateways; else those with links here."""
    query = request.query_params
    check_names(query, ("limit", "after", *_NAMES))
    if any(name in query for name in _NAMES):
        return await _answer(source.groups.show, request)
    page, keys = page_of(query, 1), source.groups.keys()
    end = page.after[0] + page.limit
    shown, readers = keys[page.after[0] : end], await group_readers(source.connections)
    ends = await _ends(source, {(*key.split("/", 2)[:2],) for key in shown if key in readers})
    try:
        items = [_document(key, await source.groups.show_key(key), readers.get(key, {}), ends) for key in shown]
    except AmqpError as error:
        return error_response(503, "unavailable", error.description)
    following = str(end) if end < len(keys) else None
    return json_response({"items": items, "next": following, "total": len(keys)})


async def _ends(source: AdminSource, topics: Iterable[tuple[str, ...]]) -> Ends:
    """The ends of topics, as far as Kafka answers within `_ANSWER` seconds."""
    found: dict[tuple[str, ...], Mapping[int, int]] = {}
    with suppress(AmqpError, TimeoutError):
        async with asyncio.timeout(_ANSWER):
            for cluster, topic in topics:
                if cluster in source.clusters:
                    found[cluster, topic] = await source.clusters[cluster].ends(topic)
    return found


def _document(key: str, group: Mapping[str, object], readers: Mapping[int, GroupReader], ends: Ends) -> Document:
    """A group; of partitions that links of this process own, with the position and how far it is behind."""
    cluster, topic, name = key.split("/", 2)
    known = ends.get((cluster, topic), {})
    owners: list[Document] = []
    for owner in group["owners"]:  # type: ignore[attr-defined]
        reader, end = readers.get(owner["partition"]), known.get(owner["partition"])
        lag = None if reader is None or end is None else max(0, end - reader.position)
        about = {"link": None, "user": None, "position": None} if reader is None else reader._asdict()
        owners.append({**owner, **about, "end": end, "lag": lag})
    return {"id": key, "cluster": cluster, "topic": topic, "group": name, **group, "owners": owners}


async def rebalance_group(source: AdminSource, request: Request) -> Response:
    """`POST /groups/rebalance` with scope, address and group, or the id of the list.

    Links that were assigned a partition end in order.
    """
    query = request.query_params
    check_names(query, ("id", *_NAMES))
    answer = await (_answer(source.groups.rebalance, request) if "id" not in query else _rebalance_id(source, query))
    if answer.status_code == 200:
        source.audit(caller_of(request).name, "rebalance group", **dict(request.query_params))
    return answer


async def _rebalance_id(source: AdminSource, query: Mapping[str, str]) -> Response:
    known = source.groups.keys()
    if query["id"] not in known:
        return error_response(404, "notfound", "no group with links here has this id")
    try:
        return json_response(await source.groups.rebalance_key(query["id"]))
    except AmqpError as error:
        return error_response(503, "unavailable", error.description)


async def _answer(ask: Ask, request: Request) -> Response:
    scope, address, group = (request.query_params.get(name, "") for name in _NAMES)
    if not (scope and address and group):
        raise BadQuery("scope, address and group are needed together")
    try:
        return json_response(await ask(scope, address, group))
    except AmqpError as error:
        gone = error.condition != INTERNAL_ERROR
        return error_response(404 if gone else 503, "notfound" if gone else "unavailable", error.description)

