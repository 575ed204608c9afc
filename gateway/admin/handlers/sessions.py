"""Sessions of browsers: begin one with a token, show who one is, end it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

from gateway.admin.access.gate import caller_of
from gateway.admin.access.identity import cookie_name
from gateway.admin.access.protocol import peer_of
from gateway.admin.access.sessions import LIFETIME
from gateway.admin.body import small_body
from gateway.admin.queries import BadQuery, check_names
from gateway.http.failures import TooManyFailures
from gateway.http.request import error_response, json_response

if TYPE_CHECKING:
    from gateway.admin.source import AdminSource


async def show_session(source: AdminSource, request: Request) -> Response:
    """`GET /session`: who the caller is, and what they may do."""
    check_names(request.query_params, ())
    caller = caller_of(request)
    return json_response({"name": caller.name, "role": caller.role, "browser": caller.browser})


async def begin_session(source: AdminSource, request: Request) -> Response:
    """`POST /session` with `{"token": …}`: the answer sets a cookie, which stands for the token."""
    check_names(request.query_params, ())
    token = await _token(request)
    address = peer_of(request).address
    try:
        caller = source.identity.of_token(token, address)
    except TooManyFailures:
        return error_response(429, "toomany", "too many wrong tokens from this address", {"retry-after": "1"})
    if caller is None:
        return error_response(401, "unauthenticated", "this token is not known")
    source.audit(caller.name, "log in", peer=address)
    headers = {"set-cookie": _cookie(request, source.identity.begin(token), int(LIFETIME))}
    return json_response({"name": caller.name, "role": caller.role, "browser": True}, 200, headers)


async def end_session(source: AdminSource, request: Request) -> Response:
    """`DELETE /session`."""
    check_names(request.query_params, ())
    if (cookie := request.cookies.get(cookie_name(request))) is not None:
        source.identity.sessions.end(cookie)
    caller = caller_of(request)
    source.audit(caller.name, "log out")
    return json_response({"ended": caller.name}, 200, {"set-cookie": _cookie(request, "", 0)})


def _cookie(request: Request, value: str, seconds: int) -> str:
    secure = "; Secure" if request.url.scheme == "https" else ""
    return f"{cookie_name(request)}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}"


async def _token(request: Request) -> str:
    """The token of the body. A form of a page cannot send JSON; raises BadQuery."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise BadQuery('needs a body of the type application/json: {"token": "…"}')
    body = await small_body(request)
    try:
        token = json.loads(body)["token"]
    except (ValueError, KeyError, TypeError):
        token = None
    if not isinstance(token, str) or not token:
        raise BadQuery('needs a body {"token": "…"}')
    return token
