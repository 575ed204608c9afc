"""Explains the gateway's answer to a user at an address, with the lines of the policy that decide it.

The answer comes from `ScopeRules.decide`, the function that an attach calls, so the two cannot differ; at addresses
that the gateway resolves before it asks the rules, from `reserved_address`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Final

from policies.explain.assignment import assignment_lines
from policies.explain.replies import replies_lines
from policies.explain.reserved import ReservedAddress, reserved_address
from policies.model.scopes.access import Action
from policies.reserved import response_suffix
from policies.rules import (
    MAX_HOPS,
    NOT_FOUND,
    VERBS,
    CompiledAddress,
    CompiledPolicy,
    Decision,
    DirectRoute,
    KafkaRoute,
    RedirectRoute,
    RelayRoute,
    Route,
    ScopeRules,
    ServiceRoute,
)
from policies.spans import HopKind, explain_spans, hop_kind
from policies.values.units import Bind

REDIRECT_BEHIND_RELAY: Final = "a relay follows no redirect of the other scope; relay to a connector there"


@dataclass(frozen=True, slots=True)
class Explanation:
    """One decision, for people (`str()`) and for programs (`as_dict()`)."""

    scope: str
    user: str
    address: str
    action: Action
    allowed: bool
    condition: str | None
    kind: str
    route: str | None
    route_where: str | None
    access_where: str | None
    traced: str | None
    """Which spans its messages have; None: they are not traced, or the policy has no `gateway.tracing`."""
    replies: tuple[str, ...]
    lines: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join(self.lines)

    def as_dict(self) -> dict[str, object]:
        """The same as plain data."""
        return asdict(self)


def explain(policy: CompiledPolicy, scope: str, user: str, address: str, action: Action) -> Explanation:
    """What happens when `user` in `scope` attaches at `address`; KeyError when there is no such scope."""
    reserved = reserved_address(policy.scopes[scope], action, address)
    by = _explain_rules if reserved is None else partial(_explain_reserved, reserved)
    return by(policy, scope, user, address, action)


def _explain_reserved(
    reserved: ReservedAddress, policy: CompiledPolicy, scope: str, user: str, address: str, action: Action
) -> Explanation:
    return Explanation(
        scope=scope,
        user=user,
        address=address,
        action=action,
        allowed=reserved.condition is None,
        condition=reserved.condition,
        kind=reserved.kind,
        route=reserved.what,
        route_where=None,
        access_where=None,
        traced=None,
        replies=(),
        lines=(
            f"{_question(user, address, action)} in scope {scope}",
            *reserved.lines(),
            *_moved_by_gateway(policy, scope, address, action),
        ),
    )


def _question(user: str, address: str, action: Action) -> str:
    return f"{printable(user)} wants to {VERBS[action]} {printable(address)}"


def _moved_by_gateway(policy: CompiledPolicy, scope: str, address: str, action: Action) -> Iterator[str]:
    """What pulls and bridges of the gateway itself have to do with the address."""
    if action == "send":
        yield from (f"  pulled   {line}" for line in _pulled(policy, scope, address))
    yield from (f"  bridge   {line}" for line in _bridged(policy, scope, address, action))


def _explain_rules(policy: CompiledPolicy, scope: str, user: str, address: str, action: Action) -> Explanation:
    rules = policy.scopes[scope]
    hops = follow_relays(policy, rules.decide(user, action, address).route)
    decision = decide_behind_relays(rules.decide(user, action, address), hops)
    # An address without a node may still match a rule, which is shown.
    rule = rules.rule(address)
    where = decision.route.where if decision.route else rule.where if rule else None
    allowed = action == "send" and decision.condition is None
    replies = tuple(replies_lines(policy, scope, user, decision.route, hops)) if allowed else ()
    routes = [route for route in (decision.route, *(route for _, route in hops)) if route is not None]
    traced = _traced(policy, decision, hop_kind(scope, action, routes), rule)
    return Explanation(
        scope=scope,
        user=user,
        address=address,
        action=action,
        allowed=decision.condition is None,
        condition=decision.condition,
        kind=_kind(decision),
        route=describe(decision.route) if decision.route else None,
        route_where=str(where) if where else None,
        access_where=str(decision.grant.where) if decision.grant.where else None,
        traced=traced,
        replies=replies,
        lines=(
            *_lines(rules, decision, hops, _question(user, address, action), address),
            *(f"  links    {line}" for line in _links(decision, hops, action)),
            *([f"  traced   {traced}"] if traced else []),
            *(f"  {line}" for line in replies),
            *_moved_by_gateway(policy, scope, address, action),
            *(f"  answers  {line}" for line in _answers(scope, address, action)),
        ),
    )


def _traced(
    policy: CompiledPolicy, decision: Decision, kind: HopKind | None, rule: CompiledAddress | None
) -> str | None:
    """Which spans the messages of the link have."""
    if decision.condition is not None or rule is None or decision.info:
        return None
    answered = isinstance(decision.route, RelayRoute) and decision.route.replies != "none"
    return explain_spans(policy.model.gateway.tracing, kind, rule.match.text, answered=answered)


def _links(decision: Decision, hops: list[tuple[str, Route | None]], action: Action) -> Iterator[str]:
    """How partitions are assigned to the link, if it leads to a Kafka topic."""
    last = hops[-1][1] if hops else decision.route
    if decision.condition is None and isinstance(last, KafkaRoute) and action != "info" and not decision.info:
        yield from assignment_lines(last.assignment, action)


def _answers(scope: str, address: str, action: Action) -> Iterator[str]:
    """How responses to this address are routed: all gateways with a scope of this name have the same addresses."""
    if action == "send" and response_suffix(scope, address) is not None:
        yield "this gateway accepts responses with its own tokens here, regardless of the lines above;"
        yield "responses with tokens of another gateway, for a scope of this name, take the route above"


def _pulled(policy: CompiledPolicy, scope: str, address: str) -> Iterator[str]:
    """The queues from which the gateway itself pulls messages to here; they need no access entry."""
    for connector in policy.model.scopes[scope].connect:
        for pull in connector.pull:
            if pull.to == address:
                yield f"the gateway itself fetches messages from {printable(pull.source)} at connector {connector.name}"


def _bridged(policy: CompiledPolicy, scope: str, address: str, action: Action) -> Iterator[str]:
    """The bridges from here or to here; they need no access entry."""
    for bridge in policy.model.scopes[scope].bridge:
        if action == "send" and bridge.to.connector is None and bridge.to.address == address:
            yield f"{bridge.name} forwards events from {bridge.source} to this address"
        if action == "receive" and bridge.source.connector is None and bridge.source.address == address:
            position = "continues at its stored position" if bridge.durable else "stores no position"
            yield f"{bridge.name} forwards events from this address to {bridge.to}; {position}"


def follow_relays(policy: CompiledPolicy, route: Route | None) -> list[tuple[str, Route | None]]:
    """The scopes a relay leads through and the route in each; access is decided only in the first scope."""
    hops: list[tuple[str, Route | None]] = []
    while isinstance(route, RelayRoute) and route.scope is not None and len(hops) < MAX_HOPS:
        scope = route.scope
        route = policy.scopes[scope].route(route.address)
        hops.append((scope, route))
    return hops


def decide_behind_relays(decision: Decision, hops: list[tuple[str, Route | None]]) -> Decision:
    """The decision, as the node at the end of the relays changes it."""
    if decision.condition is None and hops and (hops[-1][1] is None or len(hops) == MAX_HOPS):
        return replace(decision, condition=NOT_FOUND, reason="the node behind this address does not exist")
    if decision.condition is None and hops and isinstance(hops[-1][1], RedirectRoute):
        return replace(decision, condition=NOT_FOUND, reason=REDIRECT_BEHIND_RELAY)
    return decision


def _kind(decision: Decision) -> str:
    if decision.route is None:
        return "none"
    if decision.info:
        return "service"
    kinds = {
        DirectRoute: "direct",
        RelayRoute: "relay",
        KafkaRoute: "kafka",
        ServiceRoute: "service",
        RedirectRoute: "redirect",
    }
    return kinds[type(decision.route)]


def describe(route: Route) -> str:
    """A route in words."""
    if isinstance(route, DirectRoute):
        return f"direct, {route.mode}"
    if isinstance(route, KafkaRoute):
        return f"kafka topic {route.topic} of cluster {route.cluster}, binding {route.assignment.binding}"
    if isinstance(route, ServiceRoute):
        return f"service {route.service} of the gateway"
    if isinstance(route, RedirectRoute):
        return f"redirect to {Bind(route.host, route.port)} ({route.hostname}), address {printable(route.address)}"
    target = f"scope {route.scope}" if route.scope is not None else f"connector {route.connector}"
    return f"relay to {target}, address {printable(route.address)}, replies {route.replies}{_uses(route)}"


def _uses(route: RelayRoute) -> str:
    return "" if route.uses is None else f", uses {route.uses}"


def printable(text: str) -> str:
    """Text of a peer, safe for one line of a terminal."""
    short = text if len(text) <= 200 else f"{text[:200]}… ({len(text)} characters)"
    return short if short and short.isprintable() else repr(short)


def _lines(
    rules: ScopeRules, decision: Decision, hops: list[tuple[str, Route | None]], question: str, address: str
) -> Iterator[str]:
    yield f"{question} in scope {rules.name}"
    yield f"  address  {_address(rules, decision, address)}"
    if decision.info:
        yield "           $info: the service that describes the partitions of this node"
    for scope, route in hops:
        there = f"{describe(route)}  ({route.where})" if route else "no node has this address"
        yield f"           then in scope {scope}: {there}"
    if decision.route is not None:
        where = decision.grant.where
        denied = f"no entry of scopes.{rules.name}.access grants it"
        yield f"  access   {f'granted  ({where})' if where else denied}"
    refused = f"{decision.condition}: {decision.reason}"
    yield f"  result   {'allowed' if decision.condition is None else refused}"


def _address(rules: ScopeRules, decision: Decision, address: str) -> str:
    if decision.route is not None:
        return f"{describe(decision.route)}  ({decision.route.where})"
    rule = rules.rule(address)
    if rule is not None:
        why = rule.refusal(rule.match.match(address) or {}) or "such a node cannot exist"
        return f"matches {rule.match.text}, but {why}  ({rule.where})"
    return f"no entry of scopes.{rules.name}.addresses matches"
