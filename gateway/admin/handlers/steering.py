"""What changes the whole gateway: reload, check before it, and drain."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

from gateway.admin.access.gate import caller_of
from gateway.admin.documents.policy import outcome_document
from gateway.admin.queries import check_names
from gateway.http.request import error_response, json_response

if TYPE_CHECKING:
    from gateway.admin.source import AdminSource, Steering

_REFUSED = 409
"""The status if the policy file has mistakes."""


async def reload(source: AdminSource, request: Request) -> Response:
    """`POST /reload`: answers when the policy is in force, or with every mistake; then the old one stays."""
    steering = _steering(source, request)
    if isinstance(steering, Response):
        return steering
    outcome = await steering.reload()
    source.audit(caller_of(request).name, "reload", result=outcome.result, digest=source.policy.digest)
    found = {**outcome_document(outcome), "digest": source.policy.digest}
    return json_response(found, 200 if outcome.result == "ok" else _REFUSED)


async def check(source: AdminSource, request: Request) -> Response:
    """`POST /check`: the mistakes and warnings that a reload would find; nothing is changed."""
    steering = _steering(source, request)
    if isinstance(steering, Response):
        return steering
    problems, warnings = await steering.check()
    source.audit(caller_of(request).name, "check", mistakes=len(problems))
    return json_response({"problems": problems, "warnings": warnings}, _REFUSED if problems else 200)


async def drain(source: AdminSource, request: Request) -> Response:
    """`POST /drain`: the gateway ends as with SIGTERM; the answer comes before."""
    steering = _steering(source, request)
    if isinstance(steering, Response):
        return steering
    source.audit(caller_of(request).name, "drain", unsettled=source.unsettled())
    steering.drain()
    return json_response({"draining": True, "unsettled": source.unsettled()}, 202)


def _steering(source: AdminSource, request: Request) -> Steering | Response:
    check_names(request.query_params, ())
    if source.steering is None:
        return error_response(503, "unavailable", "this gateway has no process of its own to steer")
    return source.steering
