"""Where the admin API of a gateway is, and how the commands connect and log in there."""

from __future__ import annotations

import http.client
import os
import socket
import ssl
from functools import cached_property
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from gateway.admin.sockets import answers, live_sockets
from gateway.cli.common import fail

SECONDS: Final = 130
"""Time limit for an answer: a reload may take two minutes."""
_PORTS: Final = {"http": 80, "https": 443}


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path: str, seconds: float | None = SECONDS) -> None:
        super().__init__("scopegate", timeout=seconds)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class AdminLogin(NamedTuple):
    """How a command logs in at a port; not needed at a unix socket."""

    token_file: Path | None = None
    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None

    @property
    def headers(self) -> dict[str, str]:
        """The headers with the token of the file, or of `$SCOPEGATE_ADMIN_TOKEN`."""
        try:
            token = os.environ.get("SCOPEGATE_ADMIN_TOKEN") if self.token_file is None else self.token_file.read_text()
        except OSError as error:
            fail(f"{self.token_file}: {error.strerror}")
        return {"Authorization": f"Bearer {token.strip()}"} if token else {}

    def context(self) -> ssl.SSLContext:
        """TLS with the authority and the certificate."""
        try:
            context = ssl.create_default_context(cafile=self.ca)
            if self.cert is not None:
                context.load_cert_chain(self.cert, self.key)
        except OSError as error:
            fail(f"cannot use {', '.join(str(each) for each in (self.ca, self.cert, self.key) if each)}: {error}")
        return context


class AdminPlace:
    """The admin API at `unix:/path`, `https://host:port` or `http://host:port`."""

    def __init__(self, place: str | None, login: AdminLogin) -> None:
        """None: the only gateway of this machine whose socket is found, looked for when it is needed."""
        self._place: Final = place
        self.login: Final = login

    @cached_property
    def text(self) -> str:
        """The place; ends the command if it is none, or if there is not exactly one to choose."""
        found = self._place if self._place is not None else _only_place()
        url = urlsplit(found)
        is_url = url.scheme in _PORTS and url.hostname and url.path in ("", "/")
        if not is_url and not found.startswith("unix:/"):
            fail(f"{found}: not a place of an admin API, which is unix:/path, https://host:port or http://host:port")
        return found

    @property
    def path(self) -> str | None:
        """The path of the unix socket, if it is one."""
        return self.text.removeprefix("unix:") if self.text.startswith("unix:") else None

    @property
    def headers(self) -> dict[str, str]:
        """The headers of every request."""
        return {} if self.path is not None else self.login.headers

    def connection(self, seconds: float | None = SECONDS) -> http.client.HTTPConnection:
        """A connection that is made with the first request; `seconds` is its time limit."""
        if self.path is not None:
            return UnixConnection(self.path, seconds)
        url = urlsplit(self.text)
        host, port = str(url.hostname), url.port or _PORTS[url.scheme]
        if url.scheme == "http":
            return http.client.HTTPConnection(host, port, timeout=seconds)
        return http.client.HTTPSConnection(host, port, timeout=seconds, context=self.login.context())

    def answers(self) -> bool:
        """Whether somebody accepts connections there."""
        if self.path is not None:
            return answers(Path(self.path))
        url = urlsplit(self.text)
        try:
            socket.create_connection((url.hostname, url.port or _PORTS[url.scheme]), 5).close()
        except ConnectionRefusedError:
            return False
        except OSError:
            return True
        return True


def _only_place() -> str:
    found = live_sockets(os.environ, os.geteuid())
    if not found:
        text = "no gateway of this user answers on this machine: is it running? If its gateway.admin.listen names a "
        fail(f"{text}place, say it with --admin unix:/path or https://host:port")
    if len(found) > 1:
        places = ", ".join(f"unix:{each}" for each in map(Path, found))
        fail(f"{len(found)} gateways answer on this machine; choose one with --admin: {places}")
    return f"unix:{found[0]}"
