"""A port of the loopback interface that passes the requests of one browser on to the admin API of a gateway.

Everybody on this machine can connect to it, so it wants a cookie, which the browser gets for a token that works once.
Host and Origin are checked as the gateway does it: pages of other sites, and names that lead here, are refused.
"""

from __future__ import annotations

import hmac
import http.client
import json
import secrets
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, ClassVar, Final

if TYPE_CHECKING:
    from gateway.cli.admin.connection import AdminPlace

_SESSION: Final = "/api/v1/session"
_BODY: Final = 4096
_PART: Final = 65_536
_PASSED_ON: Final = ("Host", "Origin", "Sec-Fetch-Site", "Content-Type", "If-None-Match", "Accept")
_LEFT_OUT: Final = frozenset(("connection", "transfer-encoding", "date", "server", "set-cookie", "keep-alive"))
_READS: Final = ("GET", "HEAD")


class ConsoleProxy:
    """The port; `url` is what a person opens."""

    def __init__(self, place: AdminPlace, port: int) -> None:
        """Raises OSError if the port is taken."""

        class Handler(_ConsoleRequest):
            """The requests of this port."""

            proxy = self

        self.place: Final = place
        self.once = secrets.token_urlsafe(24)
        self.cookie = ""
        self._server: Final = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self.port: Final = self._server.server_address[1]
        self.name: Final = f"scopegate-console-{self.port}"

    @property
    def url(self) -> str:
        """The address with the token, which browsers do not send: the page reads it."""
        return f"http://127.0.0.1:{self.port}/#token={self.once}"

    @property
    def hosts(self) -> tuple[str, ...]:
        """What a browser may call this port."""
        return f"127.0.0.1:{self.port}", f"localhost:{self.port}"

    def begin(self, token: str) -> bool:
        """Begin the session if this is the token, for the first time."""
        if not self.once or not hmac.compare_digest(token.encode(), self.once.encode()):
            return False
        self.once, self.cookie = "", secrets.token_urlsafe(32)
        return True

    def serve(self) -> None:
        """Pass requests on until the process ends."""
        with self._server:
            self._server.serve_forever()


class _ConsoleRequest(BaseHTTPRequestHandler):
    """One request of a browser."""

    proxy: ClassVar[ConsoleProxy]
    timeout = 60

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing of requests."""

    def do_GET(self) -> None:
        """Any method: check the request, and pass it on."""
        proxy, path = self.proxy, self.path.partition("?")[0]
        if self.headers.get("Host") not in proxy.hosts:
            self._answer(421, {"error": "host", "message": "this port is for a browser on this machine"})
        elif self.command in _READS and not path.startswith("/api/"):
            self._pass_on(b"")
        elif self.headers.get("Origin", f"http://{self.headers['Host']}") != f"http://{self.headers['Host']}":
            self._answer(403, {"error": "origin", "message": "requests of pages of another origin are refused"})
        elif path == _SESSION and self.command == "POST":
            self._log_in()
        elif not self._known():
            text = "open the address that scopegate console has printed; its token works once"
            self._answer(401, {"error": "unauthenticated", "message": text})
        elif self.command not in _READS and "Origin" not in self.headers:
            self._answer(403, {"error": "origin", "message": "a change needs an Origin"})
        else:
            self._pass_on(self._body())

    do_HEAD = do_POST = do_DELETE = do_GET

    def _known(self) -> bool:
        try:
            found = SimpleCookie(self.headers.get("Cookie", "")).get(self.proxy.name)
        except CookieError:
            return False
        return bool(found and self.proxy.cookie and hmac.compare_digest(found.value, self.proxy.cookie))

    def _log_in(self) -> None:
        try:
            token = json.loads(self._body())["token"]
        except (ValueError, KeyError, TypeError):
            token = ""
        json_type = self.headers.get("Content-Type", "").startswith("application/json")
        if not json_type or not isinstance(token, str) or not self.proxy.begin(token):
            text = "this token is not known, or was used before: start scopegate console again"
            self._answer(401, {"error": "unauthenticated", "message": text})
            return
        cookie = f"{self.proxy.name}={self.proxy.cookie}; Path=/; HttpOnly; SameSite=Strict"
        self._answer(200, {"name": "console", "role": "view", "browser": True}, cookie)

    def _body(self) -> bytes:
        length = self.headers.get("Content-Length", "0")
        return self.rfile.read(min(int(length), _BODY)) if length.isdigit() else b""

    def _answer(self, status: int, document: object, cookie: str | None = None) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        if cookie is not None:
            self.send_header("Set-Cookie", cookie)
        self.end_headers()
        self.wfile.write(body)

    def _pass_on(self, body: bytes) -> None:
        place = self.proxy.place
        headers = {name: self.headers[name] for name in _PASSED_ON if name in self.headers} | place.headers
        connection = place.connection()
        try:
            connection.request(self.command, self.path, body=body or None, headers=headers)
            self._copy(connection.getresponse())
        except (BrokenPipeError, ConnectionResetError, TimeoutError):
            return
        except (OSError, http.client.HTTPException):
            self._answer(502, {"error": "unavailable", "message": "the gateway does not answer"})
        finally:
            connection.close()

    def _copy(self, answer: http.client.HTTPResponse) -> None:
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in _LEFT_OUT:
                self.send_header(name, value)
        self.end_headers()
        while part := answer.read1(_PART):
            self.wfile.write(part)
            self.wfile.flush()
