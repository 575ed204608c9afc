"""Short lists, which are made whole and cut to a page: what is known of the policy's backends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from gateway.admin.documents import backends
from gateway.admin.queries import check_names, page_of
from gateway.errors import AmqpError
from gateway.http.request import error_response, json_response

if TYPE_CHECKING:
    from gateway.admin.documents.common import Document
    from gateway.admin.source import AdminSource

T = TypeVar("T")
_ANSWER: Final = 10.0
"""Seconds that Kafka has to answer."""


def named_page(request: Request, items: Iterable[Document]) -> Response:
    """A page of items by their position: `after` is that of the last item of the page before."""
    return page_made(request, [*items], lambda item: item)


def page_made(request: Request, items: Sequence[T], document: Callable[[T], Document]) -> Response:
    """The same of items that are many: those of the page are made into documents, and no others."""
    check_names(request.query_params, ("limit", "after"))
    page = page_of(request.query_params, 1)
    end = page.after[0] + page.limit
    following = str(end) if end < len(items) else None
    found = [document(item) for item in items[page.after[0] : end]]
    return json_response({"items": found, "next": following, "total": len(items)})


async def list_clusters(source: AdminSource, request: Request) -> Response:
    """`GET /clusters`."""
    return named_page(request, (backends.cluster_document(*each) for each in source.clusters.items()))


async def list_topics(source: AdminSource, request: Request) -> Response:
    """`GET /topics`."""
    return named_page(request, backends.topic_documents(source.clusters))


async def show_topic(source: AdminSource, request: Request) -> Response:
    """`GET /topics/{cluster}/{topic}`: with the end of each partition, which Kafka is asked for."""
    check_names(request.query_params, ())
    name, topic = request.path_params["cluster"], request.path_params["topic"]
    cluster = source.clusters.get(name)
    if cluster is None or topic not in cluster.topics():
        return error_response(404, "notfound", "no topic of this name is in use here")
    try:
        async with asyncio.timeout(_ANSWER):
            ends = await cluster.ends(topic)
    except (AmqpError, TimeoutError) as error:
        return error_response(503, "unavailable", f"Kafka has no answer: {error}")
    partitions = [{"partition": number, "end": end} for number, end in sorted(ends.items())]
    return json_response({"id": f"{name}/{topic}", "cluster": name, "topic": topic, "partitions": partitions})


async def list_bridges(source: AdminSource, request: Request) -> Response:
    """`GET /bridges`."""
    return named_page(request, (backends.bridge_document(*key, each) for key, each in source.bridges()))


async def list_connectors(source: AdminSource, request: Request) -> Response:
    """`GET /connectors`."""
    return named_page(request, (backends.connector_document(*key, each) for key, each in source.connectors()))
