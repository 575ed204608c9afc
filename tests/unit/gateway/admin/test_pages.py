"""A page of a long list costs what the page costs."""

from __future__ import annotations

import json

from starlette.requests import Request

from gateway.admin.handlers.lists import page_made


def test_only_the_items_of_a_page_are_made_into_documents() -> None:
    made: list[int] = []

    def document(item: int) -> dict[str, object]:
        made.append(item)
        return {"id": str(item)}

    request = Request({"type": "http", "method": "GET", "path": "/", "query_string": b"limit=2&after=3", "headers": []})
    page = json.loads(bytes(page_made(request, range(5_000), document).body))
    assert page == {"items": [{"id": "3"}, {"id": "4"}], "next": "5", "total": 5_000}
    assert made == [3, 4]
