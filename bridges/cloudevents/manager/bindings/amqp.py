"""The AMQP binding of a manager: requests with a subject, answered to their reply-to (CE 3.4)."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from bridges.cloudevents.manager.bindings.routes import query_of
from bridges.cloudevents.manager.documents import SubscriptionView
from bridges.cloudevents.manager.errors import ApiError, ErrorCode, invalid, not_found
from bridges.cloudevents.manager.interfaces import Caller
from bridges.cloudevents.manager.manager import IMPORT_FACTOR, SubscriptionManager
from bridges.cloudevents.model.values import Json, Mistake
from gateway.nodes.service_calls import ServiceAnswer, ServiceRequest
from gateway.observability.logs import get_logger
from gateway.tasks import Supervisor

LOG: Final = get_logger(__name__)
OK: Final = "ok"
_NO_CONTENT: Final = "nocontent"
_DRY: Final = "dry"
_CHANGES: Final = ("Create", "Update", "Import")
_QUERY: Final = frozenset(("protocol", "state", "limit", "after", "empty"))


class ManagerResponder:
    """Answers requests to the addresses of this manager's service."""

    def __init__(self, manager: SubscriptionManager, supervisor: Supervisor) -> None:
        self._manager: Final = manager
        self._supervisor: Final = supervisor
        self._operations: Final[Mapping[str, Callable[[Caller, ServiceRequest], Awaitable[ServiceAnswer]]]] = {
            "Create": self._create,
            "Retrieve": self._retrieve,
            "Query": self._query,
            "Update": self._update,
            "Delete": self._delete,
            "Discover": self._discover,
            "Status": self._status,
            "Resume": self._resume,
            "Test": self._test,
            "Export": self._export,
            "Import": self._import,
        }

    def __call__(self, request: ServiceRequest, answered: Callable[[ServiceAnswer], None]) -> None:
        self._supervisor.start(self._answer(request, answered), "subscriptions-answer")

    async def _answer(self, request: ServiceRequest, answered: Callable[[ServiceAnswer], None]) -> None:
        try:
            answer = await self._done(request)
        except ApiError as error:
            answer = _answer(error.code, error.document())
        except Exception as error:  # a bug: only this request fails
            LOG.error("request failed", manager=self._manager.rules.full_name, exc_info=error)
            answer = _answer("internal", {"error": "internal", "message": "this request could not be answered"})
        answered(answer)

    async def _done(self, request: ServiceRequest) -> ServiceAnswer:
        operation = self._operations.get(request.subject or "")
        if operation is None:
            known = ", ".join(self._operations)
            raise ApiError(ErrorCode.UNSUPPORTED, f"the subject has to be an operation: {known}")
        if _DRY in request.properties and request.subject not in _CHANGES:
            raise invalid([Mistake(_DRY, f"only for {', '.join(_CHANGES)}")])
        return await operation(Caller(request.user), request)

    async def _create(self, caller: Caller, request: ServiceRequest) -> ServiceAnswer:
        return _view_answer(await self._manager.create(caller, self._body(request), dry_run=_is_dry(request)))

    async def _retrieve(self, caller: Caller, request: ServiceRequest) -> ServiceAnswer:
        return _view_answer(await self._manager.retrieve(caller, _id(request)))

    async def _query(self, caller: Caller, request: ServiceRequest) -> ServiceAnswer:
        given = {name: str(value) for name, value in request.properties.items() if name in _QUERY}
        wanted, empty = query_of(given)
        page = await self._manager.query(caller, wanted)
        if not page.items and not empty:
            return ServiceAnswer({"status": _NO_CONTENT})
        more = {} if page.next is None else {"next": page.next}
        document: Json = [dict(each) for each in page.items]
        return ServiceAnswer({"status": OK, **more}, _encoded(document))

    async def _update(self, caller: Caller, request: ServiceRequest) -> ServiceAnswer:
        body, expected, dry_run = self._body(request), _expected(request), _is_dry(request)
        return _view_answer(
            await self._manager.update(caller, _id(request), body, expected=expected, dry_run=dry_run)
        )

    async def _delete(self, caller: Caller, request: ServiceRequest) -> ServiceAnswer:
        return _view_answer(await self._manager.delete(caller, _id(request), expected=_expected(request)))

    async def _discover(self, caller: Caller, request: ServiceRequest) -> ServiceAnswer:
        return _answer(OK, self._manager.discover())

    async def _status(self, caller: Caller, request: ServiceRequest) -> ServiceAnswer:
        return _answer(OK, await self._manager.status(caller, _id(request)))

    async def _resume(self, caller: Caller, request: ServiceRequest) -> ServiceAnswer:
        return _answer(OK, await self._manager.resume(caller, _id(request)))

    async def _test(self, caller: Caller, request: ServiceRequest) -> ServiceAnswer:
        return _answer(OK, (await self._manager.test(caller, _id(request))).document())

    async def _export(self, caller: Caller, request: ServiceRequest) -> ServiceAnswer:
        secrets = request.properties.get("secrets") is True
        return _answer(OK, await self._manager.export(caller, _id(request), secrets=secrets))

    async def _import(self, caller: Caller, request: ServiceRequest) -> ServiceAnswer:
        body, dry_run = self._body(request, IMPORT_FACTOR), _is_dry(request)
        return _view_answer(await self._manager.restore(caller, body, dry_run=dry_run))

    def _body(self, request: ServiceRequest, factor: int = 1) -> bytes:
        if request.body is None:
            raise invalid([Mistake("", "the body has to be data: the object as JSON")])
        most = factor * self._manager.rules.limits.object
        if len(request.body) > most:
            raise invalid([Mistake("", f"the object may have {most} bytes")])
        return request.body


def _id(request: ServiceRequest) -> str:
    id: object = request.properties.get("id")
    if not isinstance(id, str):
        raise not_found()
    return id


def _expected(request: ServiceRequest) -> frozenset[int] | None:
    """The application property `revision`; what is no number is no revision."""
    revision: object = request.properties.get("revision")
    if revision is None:
        return None
    if isinstance(revision, bool) or not isinstance(revision, int):
        return frozenset()
    return frozenset((int(revision),))


def _is_dry(request: ServiceRequest) -> bool:
    """The application property `dry`: whether nothing is to be stored; raises ApiError."""
    dry: object = request.properties.get(_DRY, False)
    if not isinstance(dry, bool):
        raise invalid([Mistake(_DRY, "true or false")])
    return dry


def _view_answer(shown: SubscriptionView) -> ServiceAnswer:
    properties = {"status": OK, "id": shown.id, "revision": shown.revision, "applied": shown.applied}
    return ServiceAnswer(properties, _encoded(dict(shown.document)))


def _answer(status: str, document: dict[str, Json]) -> ServiceAnswer:
    return ServiceAnswer({"status": str(status)}, _encoded(document))


def _encoded(document: Json) -> bytes:
    return json.dumps(document, ensure_ascii=False).encode()
