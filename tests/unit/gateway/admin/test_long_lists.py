"""Long lists of the admin API are made one at a time, and other answers do not wait for them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

from starlette.requests import Request
from starlette.responses import Response

from gateway.admin.handlers.application import make_admin_app
from gateway.admin.source import AdminSource
from gateway.observability.roster import Roster


class Source:
    """A gateway without connections, which notes when a list of links is made."""

    def __init__(self) -> None:
        self.connections: Roster[object] = Roster()
        self.made: list[str] = []

    def watched(self) -> None:
        self.made.append("links")

    def status(self) -> dict[str, object]:
        self.made.append("status")
        return {}


def endpoint(source: Source) -> Callable[[str], Awaitable[Response]]:
    app = make_admin_app(cast(AdminSource, source))
    found: dict[str, Any] = {route.path: route.endpoint for route in app.routes}  # type: ignore[attr-defined]

    def ask(path: str) -> Awaitable[Response]:
        scope = {"type": "http", "method": "GET", "path": path, "query_string": b"", "headers": []}
        answer: Awaitable[Response] = found[f"/api/v1{path}"](Request(scope))
        return answer

    return ask


async def test_a_turn_of_the_loop_makes_one_long_list() -> None:
    source = Source()
    ask = endpoint(source)
    lists = [asyncio.ensure_future(ask("/links")) for _ in range(5)]
    made = []
    while not all(each.done() for each in lists):
        await asyncio.sleep(0)
        made.append(source.made.count("links"))
    assert [each.result().status_code for each in lists] == [200] * 5
    assert made[-1] == 5
    assert max(after - before for before, after in zip([0, *made], made, strict=False)) == 1


async def test_a_short_answer_waits_for_no_list() -> None:
    source = Source()
    ask = endpoint(source)
    lists = [asyncio.ensure_future(ask("/links")) for _ in range(5)]
    await ask("/status")
    assert source.made[0] == "status"
    await asyncio.gather(*lists)
