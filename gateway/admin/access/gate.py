"""Checks every request of the admin API before anything is read: its host, its origin, its caller and their role.

A browser sends the name it was given as the host, and the page's origin: a page of another site that resolves its own
name to this machine (DNS rebinding), or that makes the browser send a request (CSRF), is refused by these. Only the
page of the console, which says nothing of the gateway, and the login are there for everybody.
"""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from gateway.admin.access.callers import OPERATE, VIEW, AdminCaller
from gateway.http.failures import TooManyFailures
from gateway.http.request import error_response

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

PREFIX: Final = "/api/v1"
SESSION: Final = f"{PREFIX}/session"
_CALLER: Final = "scopegate.caller"
_STILL: Final = "scopegate.still"
READS: Final = ("GET", "HEAD", "OPTIONS")
_LOCAL: Final = ("localhost", "scopegate")
"""Names that need no address of this machine in the policy: the second one is what the commands say."""

Identify = Callable[[Request], AdminCaller | None]
"""Who sends a request; may raise TooManyFailures."""


class AdminGate:
    """The ASGI application of an admin port."""

    def __init__(
        self,
        app: ASGIApp,
        identify: Identify,
        hosts: Callable[[], tuple[str, ...]],
        failed: Callable[[Exception], None],
    ) -> None:
        """`hosts` returns further names of the gateway; `failed` gets unexpected errors."""
        self._app: Final = app
        self._identify: Final = identify
        self._hosts: Final = hosts
        self._failed: Final = failed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope)
        try:
            passed = self._authenticate(request)
        except TooManyFailures:
            passed = error_response(429, "toomany", "too many wrong tokens from this address", {"retry-after": "1"})
        if isinstance(passed, Response):
            await passed(scope, receive, send)
            return
        try:
            await self._app({**scope, _CALLER: passed, _STILL: self._still(request, passed)}, receive, send)
        except ClientDisconnect:
            return
        except Exception as error:
            self._failed(error)
            await error_response(500, "internal", "this request could not be answered")(scope, receive, send)

    def _authenticate(self, request: Request) -> Response | AdminCaller | None:
        """The refusal, the caller, or None: there is none, and none is needed."""
        if not names_us(request.headers.get("host", ""), self._hosts()):
            text = "the Host of the request is no name of this gateway (gateway.admin.hosts)"
            return error_response(421, "host", text)
        path, reads = request.scope["path"], request.method in READS
        if reads and not path.startswith("/api/"):
            return None
        if not same_origin(request):
            return error_response(403, "origin", "requests of pages of another origin are refused")
        if path == SESSION and request.method == "POST":
            return None
        return self._known(request, reads)

    def _known(self, request: Request, reads: bool) -> Response | AdminCaller:
        caller = self._identify(request)
        if caller is None:
            return _unknown()
        role = VIEW if reads or request.scope["path"] == SESSION else OPERATE
        if not caller.may(role):
            return error_response(403, "role", f"{caller.name} has the role {caller.role}; this needs {role}")
        if caller.browser and not reads and "origin" not in request.headers:
            return error_response(403, "origin", "a change with the cookie of a browser needs an Origin")
        return caller

    def _still(self, request: Request, caller: AdminCaller | None) -> Callable[[], bool]:
        def still() -> bool:
            try:
                return self._identify(request) == caller
            except TooManyFailures:
                return False

        return still


def caller_of(request: Request) -> AdminCaller:
    """The caller of a request that the gate has let pass."""
    found = request.scope[_CALLER]
    assert isinstance(found, AdminCaller)
    return found


def still_allowed(request: Request) -> bool:
    """Whether the caller of a long answer is still who they were: a reload may have removed their token."""
    still: Callable[[], bool] = request.scope[_STILL]
    return still()


def names_us(host: str, names: tuple[str, ...]) -> bool:
    """Whether a Host header is an IP address, which no DNS answer can name, or one of our names."""
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    name = name.removeprefix("[").removesuffix("]").lower()
    if name in _LOCAL or name in names:
        return True
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def same_origin(request: Request) -> bool:
    """Whether a request is from no web page, or from one of this port."""
    origin = request.headers.get("origin")
    if origin is not None:
        return origin.partition("://")[2] == request.headers.get("host")
    return request.headers.get("sec-fetch-site", "none") in ("none", "same-origin")


def _unknown() -> Response:
    text = "needs a token or a client certificate; at the unix socket, root or the user of the gateway"
    return error_response(401, "unauthenticated", text, {"www-authenticate": "Bearer"})
