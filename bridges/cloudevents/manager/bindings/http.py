"""The HTTP binding of a manager: translates requests to operations (CE 3.3)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Container, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from bridges.cloudevents.manager.bindings.routes import (
    COLLECTION,
    CONFIRM,
    OPERATIONS,
    SUBSCRIPTION,
    etag,
    expected_revisions,
    flags_of,
    implemented_by,
    is_known,
    once,
    query_of,
    route_of,
    with_head,
)
from bridges.cloudevents.manager.dependencies import QueryFilter
from bridges.cloudevents.manager.documents import SubscriptionPage, SubscriptionView
from bridges.cloudevents.manager.errors import ApiError, ErrorCode, invalid
from bridges.cloudevents.manager.interfaces import Caller
from bridges.cloudevents.manager.manager import IMPORT_FACTOR, SubscriptionManager
from bridges.cloudevents.model.values import Mistake
from bridges.cloudevents.sinks.http.consent import granted_rate, is_rate
from gateway.http.request import BodyRefused, error_response, json_response, of_request, read_body

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

STATUS: Final[Mapping[ErrorCode, int]] = {
    ErrorCode.INVALID: 400,
    ErrorCode.FORBIDDEN: 403,
    ErrorCode.NOT_FOUND: 404,
    ErrorCode.UNSUPPORTED: 405,
    ErrorCode.CONFLICT: 409,
    ErrorCode.CHANGED: 412,
    ErrorCode.TOO_MANY: 429,
    ErrorCode.UNAVAILABLE: 503,
}
_OBJECTS_PER_TURN: Final = 200
"""Number of objects of a list that are encoded before other work of the event loop."""
_JSON: Final = "application/json"
_DRY: Final = "check the object, and store nothing"


class _Call(NamedTuple):
    """A routed request; `id` is empty for the collection."""

    request: Request
    caller: Caller
    id: str

    @property
    def dry_run(self) -> bool:
        """Whether nothing is to be stored; raises ApiError."""
        return self.flags(dry=_DRY)["dry"]

    @property
    def expected(self) -> Container[int] | None:
        """The revisions that the preconditions of the request allow."""
        return expected_revisions(self.tags("if-match"), self.tags("if-none-match"))

    def tags(self, header: str) -> str | None:
        """The entity tags of a header, which may come several times (RFC 9110, 5.3)."""
        found = self.request.headers.getlist(header)
        return ",".join(found) if found else None

    def flags(self, **known: str) -> dict[str, bool]:
        """The flags of the query; raises ApiError."""
        return flags_of(self.request.query_params.multi_items(), **known)


class ManagerRoutes:
    """The ASGI application of one manager, mounted at its path."""

    def __init__(self, manager: SubscriptionManager) -> None:
        self._manager: Final = manager
        self._methods: Final[Mapping[str, Mapping[str, Callable[[_Call], Awaitable[Response]]]]] = {
            COLLECTION: {"GET": self._query, "POST": self._create, "OPTIONS": self._discover},
            SUBSCRIPTION: {
                "GET": self._retrieve,
                "PUT": self._update,
                "DELETE": self._delete,
                "OPTIONS": self._discover,
            },
            "status": {"GET": self._status},
            "resume": {"POST": self._resume},
            "test": {"POST": self._test},
            "export": {"GET": self._export},
            CONFIRM: {"GET": self._confirm, "POST": self._confirm},
        }

    def is_open(self, request: Request) -> bool:
        """Whether this request needs no authentication."""
        found = route_of(request.scope["raw_path"], self._manager.rules.path)
        return found is not None and found[0] == CONFIRM

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = await self._answer(Request(scope, receive))
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        found = route_of(request.scope["raw_path"], self._manager.rules.path)
        methods = self._methods.get(found[0]) if found is not None else None
        if found is None or methods is None:
            return error_response(404, ErrorCode.NOT_FOUND, "there is nothing at this path")
        allowed = self._allowed(found[0], methods)
        handler = methods.get(implemented_by(request.method))
        if handler is None or request.method not in allowed:
            text = f"{request.method} is not offered here"
            return error_response(405, ErrorCode.UNSUPPORTED, text, {"allow": ", ".join(allowed)})
        try:
            call = _Call(request, Caller(of_request(request).user), found[1])
            return await handler(call)
        except BodyRefused as error:
            return error_response(error.status, error.code, error.text, error.headers)
        except ApiError as error:
            headers = {} if error.retry_after is None else {"retry-after": str(error.retry_after)}
            return json_response(error.document(), STATUS[error.code], headers)

    def _allowed(self, route: str, methods: Mapping[str, object]) -> list[str]:
        """The methods that the policy offers here, as the text of `Allow`."""
        offered = self._manager.rules.operations
        off = {method for (at, method), name in OPERATIONS.items() if at == route and name not in offered}
        found = [method for method in methods if method not in off]
        return with_head(found) if route != CONFIRM else found

    # -- operations

    async def _create(self, call: _Call) -> Response:
        flags = call.flags(**{"dry": _DRY, "import": "create what an export has, at its positions"})
        restores, dry_run = flags["import"], flags["dry"]
        body = await self._body(call.request, IMPORT_FACTOR if restores else 1)
        create = self._manager.restore if restores else self._manager.create
        return self._response(await create(call.caller, body, dry_run=dry_run), dry_run=dry_run)

    async def _retrieve(self, call: _Call) -> Response:
        shown = await self._manager.retrieve(call.caller, call.id)
        if is_known(call.tags("if-none-match"), shown.revision):
            return Response(status_code=304, headers={"etag": etag(shown.revision)})
        return self._response(shown)

    async def _update(self, call: _Call) -> Response:
        expected = call.expected
        body = await self._body(call.request)
        dry_run = call.dry_run
        shown = await self._manager.update(call.caller, call.id, body, expected=expected, dry_run=dry_run)
        return self._response(shown, dry_run=dry_run)

    async def _delete(self, call: _Call) -> Response:
        call.flags()
        shown = await self._manager.delete(call.caller, call.id, expected=call.expected)
        return json_response(dict(shown.document), 200 if shown.applied else 202)

    async def _query(self, call: _Call) -> Response:
        wanted, empty = query_of(once(call.request.query_params.multi_items()))
        page = await self._manager.query(call.caller, wanted)
        if not page.items and not empty:
            return Response(status_code=204)
        headers = {"cache-control": "no-store"}
        if page.next is not None:
            headers["link"] = f'<{self._next(wanted, page.next)}>; rel="next"'
        return StreamingResponse(_encoded(page), 200, headers, _JSON)

    async def _discover(self, call: _Call) -> Response:
        route = SUBSCRIPTION if call.id else COLLECTION
        allowed = self._allowed(route, self._methods[route])
        return json_response(self._manager.discover(), headers={"allow": ", ".join(allowed)})

    async def _status(self, call: _Call) -> Response:
        return json_response(await self._manager.status(call.caller, call.id))

    async def _export(self, call: _Call) -> Response:
        secrets = call.flags(secrets="with encrypted secrets")["secrets"]
        return json_response(await self._manager.export(call.caller, call.id, secrets=secrets))

    async def _resume(self, call: _Call) -> Response:
        call.flags()
        return json_response(await self._manager.resume(call.caller, call.id))

    async def _test(self, call: _Call) -> Response:
        call.flags()
        return json_response((await self._manager.test(call.caller, call.id)).document())

    async def _confirm(self, call: _Call) -> Response:
        """Consent of a sink: its key authenticates it, and `WebHook-Allowed-Rate` may limit deliveries."""
        handshake = self._manager.rules.handshake
        requested = None if handshake is None else handshake.rate.number * 60_000 // handshake.rate.per_ms
        allowed = call.request.headers.get("webhook-allowed-rate", "")
        if allowed.strip() and not is_rate(allowed):
            raise invalid([Mistake("WebHook-Allowed-Rate", "a whole number of deliveries per minute, or *")])
        rate = granted_rate(allowed, requested)
        await self._manager.confirm(call.id, call.request.query_params.get("key", ""), rate)
        return Response(status_code=204)

    # -- dependencies

    async def _body(self, request: Request, factor: int = 1) -> bytes:
        media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if media != _JSON:
            raise BodyRefused(415, ErrorCode.UNSUPPORTED, f"the body has to be {_JSON}")
        if request.headers.get("content-encoding", "identity").strip().lower() != "identity":
            raise BodyRefused(415, ErrorCode.UNSUPPORTED, "the body has to come without Content-Encoding")
        return await read_body(request, factor * self._manager.rules.limits.object)

    def _response(self, shown: SubscriptionView, *, dry_run: bool = False) -> Response:
        if dry_run:
            return json_response(dict(shown.document))
        headers = {"etag": etag(shown.revision)}
        if shown.created:
            headers["location"] = f"{self._manager.rules.path}/{quote(shown.id, safe='')}"
        incomplete = shown.consent_pending or not shown.applied
        status = 202 if incomplete else 201 if shown.created else 200
        return json_response(dict(shown.document), status, headers)

    def _next(self, wanted: QueryFilter, after: str) -> str:
        kept = {"protocol": wanted.protocol, "state": wanted.state, "limit": wanted.limit, "after": after}
        return f"{self._manager.rules.path}?" + urlencode({key: each for key, each in kept.items() if each is not None})


async def _encoded(page: SubscriptionPage) -> AsyncIterator[bytes]:
    """Encode a list in slices, so that other requests and deliveries go on in between."""
    for first in range(0, max(len(page.items), 1), _OBJECTS_PER_TURN):
        part = ",".join(json.dumps(each, ensure_ascii=False) for each in page.items[first : first + _OBJECTS_PER_TURN])
        begin, end = "," if first else "[", "]" if first + _OBJECTS_PER_TURN >= len(page.items) else ""
        yield (begin + part + end).encode()
