"""Links: list them by page, show one, close one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from starlette.requests import Request
from starlette.responses import Response

from gateway.admin.access.gate import caller_of
from gateway.admin.documents.links import link_document
from gateway.admin.handlers.connections import reason_of
from gateway.admin.queries import BadQuery, check_names, flag, numbers_of, page_of
from gateway.admin.walk import find_link, links_after
from gateway.errors import DETACH_FORCED, AmqpError
from gateway.http.request import error_response, json_response

if TYPE_CHECKING:
    from gateway.admin.documents.common import Document
    from gateway.admin.live.credit import LinkKey
    from gateway.admin.source import AdminSource
    from gateway.amqp.link.link import Link

_READ: Final[Mapping[str, Callable[[Link], str | None]]] = {
    "scope": lambda link: link.scope,
    "user": lambda link: link.user,
    "address": lambda link: link.address,
    "rule": lambda link: None if link.decision is None else str(link.decision.rule),
    "direction": lambda link: "in" if link.incoming else "out",
}


async def list_links(source: AdminSource, request: Request) -> Response:
    """`GET /links`; `starved=true`: only those that wait for credit; `order=rate`: one page, the busiest first."""
    query = request.query_params
    check_names(query, ("limit", "after", *_READ, "connection", "starved", "order"))
    page, keeps = page_of(query, 2), _keeps(source, query)
    source.watched()
    only = numbers_of(query["connection"], 1)[0] if "connection" in query else None
    after = (page.after[0], page.after[1])
    if only is not None and after < (only, 0):
        after = only, 0
    if query.get("order") == "rate":
        return json_response({"items": _busiest(source, page.limit, only, keeps), "next": None})
    if "order" in query:
        raise BadQuery("order: rate, or none for the order in which they came")
    items: list[Document] = []
    async for key, link in links_after(source.connections, after):
        if only is not None and key[0] != only:
            break
        if keeps(key, link):
            items.append(_document(source, key, link))
            if len(items) == page.limit:
                break
    return json_response({"items": items, "next": items[-1]["id"] if len(items) == page.limit else None})


def _busiest(
    source: AdminSource, limit: int, only: int | None, keeps: Callable[[LinkKey, Link], bool]
) -> list[Document]:
    """The links with the highest rates among those that the list has."""
    items: list[Document] = []
    for key in source.rates.busiest():
        link = find_link(source.connections, key) if only is None or only == key[0] else None
        if link is not None and keeps(key, link):
            items.append(_document(source, key, link))
            if len(items) == limit:
                break
    return items


def _keeps(source: AdminSource, query: Mapping[str, str]) -> Callable[[LinkKey, Link], bool]:
    """Whether a link belongs to the list."""
    wanted = [(read, query[name]) for name, read in _READ.items() if name in query]
    starved = flag(query, "starved")
    if query.get("direction", "in") not in ("in", "out"):
        raise BadQuery("direction: in (the client sends) or out (the client receives)")

    def keeps(key: LinkKey, link: Link) -> bool:
        if not all(read(link) == value for read, value in wanted):
            return False
        return not starved or source.waits.since(key, link) is not None

    return keeps


async def show_link(source: AdminSource, request: Request) -> Response:
    """`GET /links/{id}`."""
    check_names(request.query_params, ())
    key, link = _found(source, request)
    source.watched()
    return _unknown() if link is None else json_response(_document(source, key, link))


async def close_link(source: AdminSource, request: Request) -> Response:
    """`DELETE /links/{id}`: the peer gets `amqp:link:detach-forced`, unsettled messages an outcome before it."""
    reason = reason_of(request)
    key, link = _found(source, request)
    if link is None:
        return _unknown()
    about = link_document(key[0], link, None, None)
    link.withdraw(AmqpError(DETACH_FORCED, reason, scope=link.scope))
    shown = {name: about[name] for name in ("address", "user")}
    source.audit(caller_of(request).name, "close link", id=about["id"], why=reason, **shown)
    return json_response({"closed": about["id"]})


def _document(source: AdminSource, key: LinkKey, link: Link) -> Document:
    return link_document(key[0], link, source.waits.since(key, link), source.rates.of(key))


def _found(source: AdminSource, request: Request) -> tuple[LinkKey, Link | None]:
    connection, serial = numbers_of(request.path_params["id"], 2)
    return (connection, serial), find_link(source.connections, (connection, serial))


def _unknown() -> Response:
    return error_response(404, "notfound", "no link has this id; it may have ended")
