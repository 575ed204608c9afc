"""Checks every request of the admin API before anything is read: its host, its origin, its caller and their role.

A browser sends the name it was given as the host, and the page's origin: a page of another site that resolves its own
name to this machine (DNS rebinding), or that makes the browser send a request (CSRF), is refused by these.
"""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from gateway.admin.callers import OPERATE, VIEW, AdminCaller
from gateway.http.request import error_response

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

CALLER: Final = "scopegate.caller"
_READS: Final = ("GET", "HEAD", "OPTIONS")
_LOCAL: Final = ("localhost", "scopegate")
"""Names that need no address of this machine in the policy: the second one is what the commands say."""

Identify = Callable[[Request], AdminCaller | None]


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
        refusal, caller = self._authenticate(Request(scope))
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        try:
            await self._app({**scope, CALLER: caller}, receive, send)
        except ClientDisconnect:
            return
        except Exception as error:
            self._failed(error)
            await error_response(500, "internal", "this request could not be answered")(scope, receive, send)

    def _authenticate(self, request: Request) -> tuple[Response | None, AdminCaller | None]:
        if not names_us(request.headers.get("host", ""), self._hosts()):
            text = "the Host of the request is no name of this gateway (gateway.admin.hosts)"
            return error_response(421, "host", text), None
        if not same_origin(request):
            return error_response(403, "origin", "requests of pages of another origin are refused"), None
        caller = self._identify(request)
        if caller is None:
            return _unknown(), None
        role = VIEW if request.method in _READS else OPERATE
        if not caller.may(role):
            return error_response(403, "role", f"{caller.name} has the role {caller.role}; this needs {role}"), None
        return None, caller


def caller_of(request: Request) -> AdminCaller:
    """The caller of a request that the gate has let pass."""
    found = request.scope[CALLER]
    assert isinstance(found, AdminCaller)
    return found


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
    text = "only root and the user of the gateway may use this socket; elsewhere a token or certificate is needed"
    return error_response(401, "unauthenticated", text, {"www-authenticate": "Bearer"})
