"""Checks every request before it reaches an application: its origin, its login, and the user's request rate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol
from urllib.parse import unquote

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from gateway.http.failures import TooManyFailures
from gateway.http.login import BasicLogins
from gateway.http.request import ANONYMOUS, ApiRequest, error_response, put
from gateway.response.rate_limit import Buckets

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from policies.model.scopes.api import ApiSection

_WWW: Final = {"www-authenticate": 'Basic realm="scopegate", charset="UTF-8"'}
_SUBJECT: Final = "scopegate.subject"


class Application(Protocol):
    """An application that is mounted at a path of a scope's listeners."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...

    def is_open(self, request: Request) -> bool:
        """Whether this request is allowed without a login."""


class GateReport(Protocol):
    """Receives the failures that an operator should know of."""

    def login_failed(self, address: str) -> None: ...
    def failed(self, error: Exception) -> None: ...


class Gate:
    """The ASGI application of one listener."""

    def __init__(
        self,
        model: ApiSection,
        logins: BasicLogins,
        mounted: Callable[[], Mapping[str, Application]],
        report: GateReport,
        clock: Callable[[], float],
    ) -> None:
        """`mounted` returns the applications of the scope by path; it is called for each request."""
        self._logins: Final = logins
        self._mounted: Final = mounted
        self._report: Final = report
        self._clock: Final = clock
        self.configure(model)

    def configure(self, model: ApiSection) -> None:
        """Apply the limits of a new policy."""
        self._model = model
        rate = model.limits.user_requests
        self._buckets = Buckets(rate.number, rate.per_ms)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        try:
            await self._pass(scope, receive, send)
        except ClientDisconnect:
            return
        except Exception as error:
            self._report.failed(error)
            await error_response(500, "internal", "this request could not be answered")(scope, receive, send)

    async def _pass(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope = _in_origin_form(scope)
        request = Request(scope, receive)
        app = find(self._mounted(), scope.get("raw_path", b"").decode("ascii", "replace"))
        is_open = app is not None and app.is_open(request)
        user = ANONYMOUS if is_open else await self._user(request)
        if isinstance(user, Response):
            await user(scope, receive, send)
            return
        refusal = self._wait(user, _address(request))
        if refusal is not None:
            await refusal(scope, receive, send)
        elif app is None:
            await error_response(404, "notfound", "there is nothing at this path")(scope, receive, send)
        else:
            limits = self._model.limits
            known = ApiRequest(user, limits.body, limits.body_time / 1000)
            await app(put(scope, known), receive, send)

    async def _user(self, request: Request) -> str | Response:
        """The user, or the response that refuses the request."""
        auth, header = self._model.auth, request.headers.get("authorization")
        if not _same_origin(request):
            return error_response(403, "forbidden", "requests of web pages are refused")
        if header is not None and "basic" in auth:
            return await self._basic(request, header)
        if "certificate" in auth and (subject := request.scope.get(_SUBJECT)) is not None:
            return str(subject)
        if "anonymous" in auth and header is None:
            return self._anonymous(request)
        return self._unauthenticated()

    async def _basic(self, request: Request, header: str) -> str | Response:
        address = _address(request)
        if request.url.scheme != "https" and not self._model.allow_basic_without_tls:
            return error_response(401, "unauthenticated", "passwords are accepted over TLS only")
        try:
            user = await self._logins.user(header, address)
        except TooManyFailures:
            text = "too many failed logins from this address"
            return error_response(429, "toomany", text, {"retry-after": "1"})
        if user is None:
            self._report.login_failed(address)
            return self._unauthenticated()
        return user

    def _anonymous(self, request: Request) -> str | Response:
        if "origin" in request.headers:
            return error_response(403, "forbidden", "requests of web pages are refused")
        return ANONYMOUS

    def _unauthenticated(self) -> Response:
        headers = _WWW if "basic" in self._model.auth else {}
        return error_response(401, "unauthenticated", "log in with a user of this scope", headers)

    def _wait(self, user: str, address: str) -> Response | None:
        """The response to a user who exceeds the request rate; None: the request is within the rate."""
        who = f"@{address}" if user == ANONYMOUS else user
        bucket = self._buckets.of(who)
        if bucket.reserve(self._clock(), 0.0) is not None:
            return None
        seconds = bucket.wait(self._clock())
        text = f"more than {self._model.limits.user_requests} requests"
        return error_response(429, "toomany", text, {"retry-after": str(int(seconds) + 1)})


class WithSubject(NamedTuple):
    """An application whose requests carry the user of a verified client certificate."""

    app: ASGIApp
    subject: Callable[[], str | None]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        subject = self.subject()
        await self.app(scope if subject is None else {**scope, _SUBJECT: subject}, receive, send)


def find(mounted: Mapping[str, Application], path: str) -> Application | None:
    """The application with the longest path that is a prefix of `path`, compared by segments."""
    while path:
        if (app := mounted.get(path)) is not None:
            return app
        path = path.rpartition("/")[0]
    return None


def _in_origin_form(scope: Scope) -> Scope:
    """The request with the path of an absolute target (`GET http://host/path`; RFC 9112, 3.2.2) in its place."""
    target: bytes = scope.get("raw_path", b"")
    if not target.lower().startswith((b"http://", b"https://")):
        return scope
    path = b"/" + target.partition(b"://")[2].partition(b"/")[2]
    return {**scope, "raw_path": path, "path": unquote(path.decode("ascii", "replace"))}


def _address(request: Request) -> str:
    return request.client.host if request.client is not None else ""


def _same_origin(request: Request) -> bool:
    """Whether a request is not from a web page of another origin; browsers send headers that show it."""
    origin = request.headers.get("origin")
    if origin is None:
        return request.headers.get("sec-fetch-site", "none") in ("none", "same-origin")
    return origin.partition("://")[2] == request.headers.get("host")
