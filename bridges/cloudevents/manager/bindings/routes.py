"""Parses the path, the query and the preconditions of a request (docs/subscriptions.md)."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence
from typing import Final
from urllib.parse import unquote_to_bytes

from bridges.cloudevents.delivery.state import DeliveryState
from bridges.cloudevents.manager.access import AllBut
from bridges.cloudevents.manager.dependencies import QueryFilter
from bridges.cloudevents.manager.errors import invalid
from bridges.cloudevents.model.values import Mistake, SinkProtocol
from policies.model.scopes.subscriptions import Operation

COLLECTION: Final = "collection"
SUBSCRIPTION: Final = "subscription"
CONFIRM: Final = "confirm"
"""The route at which a sink consents; the only one without authentication."""
OPERATIONS: Final[Mapping[tuple[str, str], Operation]] = {
    (COLLECTION, "GET"): "query",
    (COLLECTION, "POST"): "create",
    (SUBSCRIPTION, "GET"): "retrieve",
    (SUBSCRIPTION, "PUT"): "update",
    (SUBSCRIPTION, "DELETE"): "delete",
}
"""What a method does at a route, where the policy may switch it off."""
_TAG: Final = re.compile(r'(?:W/)?"([0-9]{1,18})"')
_ANY: Final = range(2**63)
_FLAGS: Final = {"1": True, "true": True, "0": False, "false": False}


def route_of(raw_path: bytes, base: str) -> tuple[str, str] | None:
    """The route and the id of an undecoded path (an encoded slash is no separator); None if there is no such route."""
    path = raw_path.partition(b"?")[0].removeprefix(base.encode())
    if path in (b"", b"/"):
        return COLLECTION, ""
    id, _, rest = path.removeprefix(b"/").partition(b"/")
    try:
        decoded = unquote_to_bytes(id).decode()
    except UnicodeDecodeError:
        return None
    return (rest.decode("ascii", "replace") if rest else SUBSCRIPTION), decoded


def implemented_by(method: str) -> str:
    """The method whose handler answers `method`; the server leaves the content out for HEAD (RFC 9110, 9.3.2)."""
    return "GET" if method == "HEAD" else method


def with_head(methods: Sequence[str]) -> list[str]:
    """`methods` with HEAD after GET, for `Allow`; not for the consent of a sink, which mail scanners must not give."""
    return [each for method in methods for each in (("GET", "HEAD") if method == "GET" else (method,))]


def query_of(given: Mapping[str, str]) -> tuple[QueryFilter, bool]:
    """The filter of a list, and whether an empty list is an ordinary result; raises ApiError with every mistake."""
    mistakes = _unknown(given, {"protocol", "state", "limit", "after", "empty"})
    limit, protocol, state = given.get("limit"), given.get("protocol"), given.get("state")
    if limit is not None and not (limit.isascii() and limit.isdigit() and 0 < int(limit[:10]) <= 1_000_000):
        mistakes.append(Mistake("?limit", "a whole number from 1 to 1000000"))
    if protocol is not None and protocol not in {each.value for each in SinkProtocol}:
        mistakes.append(Mistake("?protocol", "one of " + ", ".join(SinkProtocol)))
    if state is not None and state not in {each.value for each in DeliveryState}:
        mistakes.append(Mistake("?state", "one of " + ", ".join(DeliveryState)))
    if (empty := _FLAGS.get(given.get("empty", "0"))) is None:
        # The later drafts of the API know no 204.
        mistakes.append(Mistake("?empty", "1: an empty list is answered as such"))
    if mistakes:
        raise invalid(mistakes)
    wanted = QueryFilter(protocol, state, None if limit is None else int(limit), given.get("after", ""))
    return wanted, bool(empty)


def once(given: Sequence[tuple[str, str]]) -> Mapping[str, str]:
    """The parameters of a query by name; raises ApiError if one comes twice."""
    found: dict[str, str] = {}
    for name, value in given:
        if name in found:
            raise invalid([Mistake(f"?{name}", "given twice")])
        found[name] = value
    return found


def flags_of(given: Sequence[tuple[str, str]], **known: str) -> dict[str, bool]:
    """The flags of a request (`?dry=1`) from the pairs of its query; `known` says what each means; raises ApiError.

    A name that is unknown or comes twice is a mistake: a check must not turn into a change.
    """
    mistakes = _unknown(dict(given), set(known))
    found = {name: _FLAGS.get(dict(given).get(name, "0")) for name in known}
    twice = len(given) > len(dict(given))
    wrong = (name for name, flag in found.items() if flag is None or twice)
    mistakes += [Mistake(f"?{name}", f"once; 1: {known[name]}") for name in wrong]
    if mistakes:
        raise invalid(mistakes)
    return {name: bool(flag) for name, flag in found.items()}


def _unknown(given: Mapping[str, str], known: set[str]) -> list[Mistake]:
    text = "unknown; known are " + ", ".join(sorted(known)) if known else "unknown; this request has no parameters"
    return [Mistake(f"?{name}", text) for name in given if name not in known]


def etag(revision: int) -> str:
    """The entity tag of a revision (RFC 9110, 8.8.3)."""
    return f'"{revision}"'


def expected_revisions(if_match: str | None, if_none_match: str | None = None) -> Container[int] | None:
    """The revisions that may be changed; None if both headers are missing: any may (RFC 9110, 13.1)."""
    among = None if if_match is None else _listed(if_match, weak=False)
    return among if if_none_match is None else AllBut(_listed(if_none_match, weak=True), among)


def is_known(if_none_match: str | None, revision: int) -> bool:
    """Whether the caller has this revision already, as `If-None-Match` says (RFC 9110, 13.1.2)."""
    return if_none_match is not None and revision in _listed(if_none_match, weak=True)


def _listed(tags: str, *, weak: bool) -> Container[int]:
    """The revisions of a list of tags, or all for `*`; a weak tag (`W/"17"`) counts only if `weak`."""
    if tags.strip() == "*":
        return _ANY
    found = (_TAG.fullmatch(each.strip()) for each in tags.split(","))
    return frozenset(int(tag[1]) for tag in found if tag is not None and (weak or not tag[0].startswith("W/")))
