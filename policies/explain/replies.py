"""Explains how requests and their responses cross a relay (RA 2.1 to 2.5; gateway/routing/transforms.py)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from policies.model.scopes.connect import ConnectorSection
from policies.model.scopes.listen import ListenerSection
from policies.model.scopes.scope import ScopeSection
from policies.rules import CompiledPolicy, KafkaRoute, RelayRoute, Route

_OFFERED: Final = "RESPONSE_ANNOTATIONS_V1_0"
_SUPPORTED: Final = "response-address-supported"
_WORDS: Final = {"trust": "whatever it offers", "never": "never"}
Hops = Sequence[tuple[str, Route | None]]
"""The scopes a relay leads through, and the route in each."""


def replies_lines(
    policy: CompiledPolicy, scope: str, user: str, route: Route | None, hops: Hops
) -> Iterator[str]:
    """Lines about requests that leave `scope` on `route`, and about their responses; none if it is not a relay."""
    if not isinstance(route, RelayRoute):
        return
    if route.scope is None:
        yield f"requests  unchanged: the container behind connector {route.connector} is in this scope itself"
        return
    there, end = hops[-1] if hops else (route.scope, None)
    if end is None:
        return
    if there == scope:
        yield "requests  unchanged: the relay comes back to this scope"
    elif route.replies == "none":
        yield "requests  unchanged (replies: none): reply-to is passed on as it is"
        yield f"responses are not routed back to this scope; a reply-to has to be an address of scope {there}"
    else:
        yield from _crossing(policy, scope, route, there, end)
        yield f"          {_allowed(policy, scope, user)}"


def _allowed(policy: CompiledPolicy, scope: str, user: str) -> str:
    """Where the reply-to may be, as `ScopeRules.may_be_answered_at` decides."""
    patterns = policy.scopes[scope].reply_to_patterns(user)
    right = "where this user may send (or receive, but not at a topic)"
    found = f"at {', '.join(patterns)}, {right}, or " if patterns else ""
    return f"the reply-to has to be {found}a temporary node; else amqp:unauthorized-access"


def _crossing(policy: CompiledPolicy, scope: str, route: RelayRoute, there: str, end: Route) -> Iterator[str]:
    scope_there = policy.model.scopes[there]
    routed = scope_there.response_routing
    connector = _connector(policy, there, end)
    if isinstance(end, KafkaRoute) and (routed or route.replies != "cookie"):
        yield f"requests  {_into_kafka(route.replies, end.topic)}"
    else:
        off = _off(there, scope_there, connector)
        yield f"requests  {_requests(route.replies, off, scope_there, connector)}"
    yield f"          {_keys(policy)}"
    places = _places(route.replies, routed, there, connector)
    yield f"responses come to {places}, are verified, and go to the reply-to in scope {scope}"
    yield from _limits(policy, route, there)


def _limits(policy: CompiledPolicy, route: RelayRoute, there: str) -> Iterator[str]:
    if route.uses is not None:
        state = policy.model.gateway.state
        where = "memory, by this process alone" if state == "memory" else f"{state}, for all gateways that share it"
        yield f"          at most {route.uses} for each request (uses), counted in {where}"
    if (rate := policy.model.scopes[there].response_rate) is not None:
        yield f"          at most {rate} from one user or connector of scope {there} (response_rate); more wait"


def _into_kafka(replies: str, topic: str) -> str:
    if replies == "cookie":
        headers = "amqp.response-…, and response records need amqp.address-cookie"
        return f"annotated (replies: cookie): records of {topic} have the headers {headers}"
    return "rewritten: a topic stores no delivery annotations (replies: cookie puts them into headers of the record)"


def _connector(policy: CompiledPolicy, scope: str, end: Route) -> ConnectorSection | None:
    """The connector through which a route leaves the gateway; None: it does not."""
    if not isinstance(end, RelayRoute):
        return None
    return next(each for each in policy.model.scopes[scope].connect if each.name == end.connector)


def _announces(there: ScopeSection, connector: ConnectorSection | None) -> str:
    if connector is None:
        return f"the receiver's target announces {_SUPPORTED}{''.join(_opens(there.listen))}"
    trusted = connector.annotations == "trust"
    offers = ", whatever that container offers" if trusted else f" and that container offers {_OFFERED}"
    return f"the target at the container behind {connector.name} announces {_SUPPORTED}{offers}"


def _opens(listeners: Sequence[ListenerSection]) -> Iterator[str]:
    """The capability that a client's open has to offer, and the listeners where this differs."""
    modes = {listener.annotations for listener in listeners} or {"offered"}
    if modes == {"trust"}:
        yield ", whatever its open offers"
        return
    yield f" and its open offers {_OFFERED}"
    for listener in listeners:
        if listener.annotations != "offered":
            yield f" (at listener {listener.bind} {_WORDS[listener.annotations]}: annotations: {listener.annotations})"


def _off(there: str, scope: ScopeSection, connector: ConnectorSection | None) -> str | None:
    """The reason why requests are never annotated for receivers in a scope; None if they may be."""
    if not scope.response_routing:
        return f"scope {there} has response_routing: false"
    if connector is not None:
        never = connector.annotations == "never"
        return f"connector {connector.name} has annotations: never" if never else None
    never = bool(scope.listen) and all(listener.annotations == "never" for listener in scope.listen)
    return f"the listeners of scope {there} have annotations: never" if never else None


def _requests(replies: str, off: str | None, there: ScopeSection, connector: ConnectorSection | None) -> str:
    announces = _announces(there, connector)
    if replies == "rewrite":
        return "rewritten (replies: rewrite): reply-to and message-id become the gateway's own, whatever is announced"
    if replies == "cookie":
        other = "otherwise rejected with amqp:not-implemented (replies: cookie)"
        return f"rejected with amqp:not-implemented: {off}" if off else f"annotated where {announces}, {other}"
    return f"rewritten: {off}" if off else f"annotated where {announces}, otherwise rewritten (replies: auto)"


def _keys(policy: CompiledPolicy) -> str:
    keys = policy.model.keys
    if keys is None:
        return "refused with amqp:not-allowed: there are no keys"
    skew = f" and {keys.skew / 1000:g} s to allow for different clocks" if keys.skew else ""
    form = "sealed" if keys.seal else "signed"
    kept = f"; cookies above {keys.max_cookie} bytes are stored in gateway.state" if keys.max_cookie else ""
    return f"{form} with key {keys.active}; a response may take {keys.expiry / 1000:g} s{skew}{kept}"


def _places(replies: str, routed: bool, there: str, connector: ConnectorSection | None) -> str:
    if connector is not None and connector.replies.address != "gateway":
        return _place_there(connector)
    own, rewritten = f"$replies.{there} with their cookie", f"$replies.{there}/<token>"
    if replies == "cookie":
        return own
    return rewritten if replies == "rewrite" or not routed else f"{own}, or to {rewritten} where rewritten"


def _place_there(connector: ConnectorSection) -> str:
    """The gateway's own address at the container (`connect.replies`)."""
    address = connector.replies.address
    found = ""
    if connector.replies.ids == "message-id":
        found = ", where rewritten with the new message-id in correlation-id (ids: message-id)"
    if address == "dynamic":
        return f"a node that the container behind {connector.name} creates per connection (replies: dynamic){found}"
    return f"{address} at the container behind {connector.name}, where they wait for the gateway{found}"
