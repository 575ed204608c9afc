"""Requests to the admin API of a running gateway; a mistake or refusal ends the command with exit code 1."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote, urlencode

from gateway.admin.queries import MAX_PAGE
from gateway.cli.admin.connection import AdminPlace
from gateway.cli.common import fail

_PREFIX: Final = "/api/v1"
Item = dict[str, Any]


class AdminClient:
    """The admin API at one place."""

    def __init__(self, place: AdminPlace) -> None:
        self.place: Final = place

    def get(self, path: str, query: Mapping[str, str] | None = None) -> Item:
        """The document at a path."""
        return self._answer("GET", path, query)

    def pages(self, path: str, query: Mapping[str, str]) -> Iterator[Item]:
        """All items of a list, page by page."""
        after: dict[str, str] = {}
        while True:
            page = self.get(path, {**query, **after, "limit": str(MAX_PAGE)})
            yield from page["items"]
            if page["next"] is None:
                return
            after = {"after": page["next"]}

    def change(self, method: str, path: str, query: Mapping[str, str] | None = None) -> Item:
        """Change something; the answer says what was done."""
        return self._answer(method, path, query)

    def _answer(self, method: str, path: str, query: Mapping[str, str] | None) -> Item:
        status, found = self.ask(method, path, query)
        if status >= 400:
            fail(str(found.get("message", f"{self.place.text} answers {status}")))
        return found

    def ask(self, method: str, path: str, query: Mapping[str, str] | None = None) -> tuple[int, Item]:
        """The status and the document of an answer."""
        target = _PREFIX + quote(path) + (f"?{urlencode(query)}" if query else "")
        connection = self.place.connection()
        try:
            connection.request(method, target, headers=self.place.headers)
            response = connection.getresponse()
            found = json.loads(response.read())
        except (OSError, http.client.HTTPException, ValueError) as error:
            reason = getattr(error, "verify_message", None) or getattr(error, "strerror", None) or error
            fail(f"no answer from {self.place.text}: {reason} (gateway.admin)")
        finally:
            connection.close()
        return response.status, found if isinstance(found, dict) else {}
