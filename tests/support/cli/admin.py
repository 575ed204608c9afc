"""A gateway with its admin socket, for tests of the admin API and its commands."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from http.client import HTTPConnection
from typing import Any

from tests.support.cli.commands import Result, run
from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateway, Gateways
from tests.support.gateway.process import PATIENCE, socket_folder, wait_until


class Admin:
    """A gateway, its admin socket, and the commands for it."""

    def __init__(
        self, start: Gateways, document: Document, *, env: Mapping[str, str] | None = None, ready: bool = True
    ) -> None:
        """`document`: a policy, which gets the place of the socket."""
        self.socket = socket_folder("admin") / "a.sock"
        self.document = document
        document.data["gateway"].setdefault("admin", {})["listen"] = self.places()
        self.gateway: Gateway = start(document.text, env=env, ready=ready)
        wait_until(self.socket.exists, "the admin socket")

    def places(self) -> list[str]:
        """Where the admin API listens."""
        return [f"unix:{self.socket}"]

    def run(self, *arguments: str) -> Result:
        """Run a command for this gateway."""
        return run(*arguments, "--admin", f"unix:{self.socket}")

    def items(self, *arguments: str) -> list[dict[str, Any]]:
        """What a command lists as JSON."""
        done = self.run(*arguments, "-o", "json")
        assert done.returncode == 0, done.stderr
        found: list[dict[str, Any]] = json.loads(done.stdout)
        return found

    def ask(
        self, method: str, path: str, headers: Mapping[str, str] | None = None, body: str | None = None
    ) -> tuple[int, dict[str, Any]]:
        """Send one request; the socket is not closed by the gateway before the answer."""
        connection = HTTPConnection("localhost", timeout=PATIENCE)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(str(self.socket))
        try:
            connection.request(method, f"/api/v1{path}", body, headers=dict(headers or {}))
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    def listed(self, path: str) -> list[dict[str, Any]]:
        """The items of a list of the API."""
        status, found = self.ask("GET", path)
        assert status == 200, found
        items: list[dict[str, Any]] = found["items"]
        return items
