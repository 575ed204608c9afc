"""Requests to the admin API of a running gateway; a mistake or refusal ends the command with exit code 1."""

from __future__ import annotations

import http.client
import json
import os
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

from gateway.admin.queries import MAX_PAGE
from gateway.admin.sockets import live_sockets
from gateway.cli.common import fail

_SECONDS: Final = 130
"""Time limit for an answer: a reload may take two minutes."""
_PREFIX: Final = "/api/v1"
Item = dict[str, Any]


class _UnixConnection(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("scopegate", timeout=_SECONDS)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class AdminClient:
    """The admin API at one place: `unix:/path`."""

    def __init__(self, place: str | None) -> None:
        """None: the only gateway of this machine whose socket is found."""
        self.place: Final = place if place is not None else _only_place()
        if not self.place.startswith("unix:/"):
            fail(f"{self.place}: not a place of an admin API, which is unix:/path")

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
            fail(str(found.get("message", f"{self.place} answers {status}")))
        return found

    def ask(self, method: str, path: str, query: Mapping[str, str] | None = None) -> tuple[int, Item]:
        """The status and the document of an answer."""
        target = _PREFIX + quote(path) + (f"?{urlencode(query)}" if query else "")
        connection = _UnixConnection(self.place.removeprefix("unix:"))
        try:
            connection.request(method, target)
            response = connection.getresponse()
            found = json.loads(response.read())
        except (OSError, http.client.HTTPException, ValueError) as error:
            fail(f"no answer from {self.place}: {getattr(error, 'strerror', None) or error} (gateway.admin)")
        finally:
            connection.close()
        return response.status, found if isinstance(found, dict) else {}


def _only_place() -> str:
    found = live_sockets(os.environ, os.geteuid())
    if not found:
        text = "no gateway of this user answers on this machine: is it running? If its gateway.admin.listen names a "
        fail(f"{text}place, say it with --admin unix:/path")
    if len(found) > 1:
        places = ", ".join(f"unix:{each}" for each in map(Path, found))
        fail(f"{len(found)} gateways answer on this machine; choose one with --admin: {places}")
    return f"unix:{found[0]}"
