"""The policy in force: its text against the one before, its keys and certificates, and what it would answer."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, get_args

from starlette.requests import Request
from starlette.responses import Response

from gateway.admin.documents import policy as policies
from gateway.admin.documents.policy_diff import diff_document
from gateway.admin.handlers.lists import named_page, page_made
from gateway.admin.queries import BadQuery, check_names
from gateway.config.certificates import certificate_files, read_times
from gateway.http.request import json_response
from gateway.tasks import off_loop
from policies.explain.explanation import explain
from policies.model.scopes.access import Action

if TYPE_CHECKING:
    from gateway.admin.source import AdminSource
    from policies.rules import CompiledPolicy

_PARAMETERS: Final = ("scope", "user", "address", "action")
_ACTIONS: Final = ("send", "receive", "info")
_MAX_TEXT: Final = 1024


async def show_policy(source: AdminSource, request: Request) -> Response:
    """`GET /policy`."""
    check_names(request.query_params, ())
    state = source.policy_state
    return json_response(policies.policy_document(source.policy, state.since, state.outcome))


async def show_diff(source: AdminSource, request: Request) -> Response:
    """`GET /policy/diff`: compared in another thread, as it may take a while."""
    check_names(request.query_params, ())
    return json_response(await off_loop(diff_document, source.policy_state.before, source.policy))


async def explain_access(source: AdminSource, request: Request) -> Response:
    """`GET /explain`: what the policy in force answers to a user at an address, as `scopegate explain` says it."""
    query = request.query_params
    check_names(query, _PARAMETERS)
    scope, user, address, action = (query.get(name, "") for name in _PARAMETERS)
    if action not in _ACTIONS or action not in get_args(Action):
        raise BadQuery(f"action: {', '.join(_ACTIONS)}")
    if scope not in source.policy.scopes:
        raise BadQuery(f"scope: one of {', '.join(source.policy.scopes)}")
    for name, value in (("user", user), ("address", address)):
        if not 0 < len(value) <= _MAX_TEXT:
            raise BadQuery(f"{name}: 1 to {_MAX_TEXT} characters")
    return json_response(explain(source.policy, scope, user, address, action).as_dict())  # type: ignore[arg-type]


async def list_keys(source: AdminSource, request: Request) -> Response:
    """`GET /keys`: with the age of those in files, which is looked up in another thread."""
    times = await off_loop(_key_times, source.policy)
    return named_page(request, policies.keys_documents(source.policy, times, datetime.now(UTC)))


def _key_times(policy: CompiledPolicy) -> Mapping[str, datetime]:
    """When the files of signing keys were written."""
    found: dict[str, datetime] = {}
    for name, entry in policy.model.keys.ring.items() if policy.model.keys is not None else ():
        try:
            if entry.file is not None:
                found[name] = datetime.fromtimestamp(policy.path(entry.file).stat().st_mtime, UTC)
        except OSError:
            continue  # its key is in force all the same
    return found


async def list_addresses(source: AdminSource, request: Request) -> Response:
    """`GET /addresses`."""
    policy = source.policy
    return page_made(request, policies.address_rules(policy), lambda at: policies.address_document(policy, *at))


async def list_certificates(source: AdminSource, request: Request) -> Response:
    """`GET /certificates`: the files are read now, in another thread."""
    files = certificate_files(source.policy)
    found = await off_loop(lambda: [(file, read_times(file.path)) for file in files])
    return named_page(request, policies.certificate_documents(found, datetime.now(UTC)))


async def list_refusals(source: AdminSource, request: Request) -> Response:
    """`GET /refusals`: the newest first."""
    newest = source.refusals.newest()
    return named_page(request, (policies.refusal_document(*each, source.policy) for each in newest))
