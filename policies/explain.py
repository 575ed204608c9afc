"""Says what the gateway would answer to somebody, and which lines of the policy decide it.

The answer comes from `ScopeRules.decide`, the function attach itself asks, so the two cannot differ.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final

from policies.model_rules import Action
from policies.rules import (
    CompiledPolicy,
    Decision,
    DirectRoute,
    KafkaRoute,
    RelayRoute,
    Route,
    ScopeRules,
)

_MAX_HOPS: Final = 16


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
    lines: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join(self.lines)

    def as_dict(self) -> dict[str, Any]:
        """The same as plain data."""
        return asdict(self)


def explain(policy: CompiledPolicy, scope: str, user: str, address: str, action: Action) -> Explanation:
    """What happens when `user` in `scope` attaches at `address`; KeyError when there is no such scope."""
    rules = policy.scopes[scope]
    decision = rules.decide(user, action, address)
    # An address nobody may attach to still has a rule worth showing: the one that leads nowhere.
    rule = rules.rule(address)
    where = decision.route.where if decision.route else rule.where if rule else None
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
        lines=tuple(_lines(policy, rules, decision, user, address, action)),
    )


def _kind(decision: Decision) -> str:
    if decision.route is None:
        return "none"
    if decision.info:
        return "service"
    kinds = {DirectRoute: "direct", RelayRoute: "relay", KafkaRoute: "kafka"}
    return kinds[type(decision.route)]


def describe(route: Route) -> str:
    """A route in words."""
    if isinstance(route, DirectRoute):
        return f"direct, {route.mode}"
    if isinstance(route, KafkaRoute):
        return f"kafka topic {route.topic} of cluster {route.cluster}, binding {route.binding}"
    far = f"scope {route.scope}" if route.scope is not None else f"connector {route.connector}"
    return f"relay to {far}, address {shown(route.address)}, replies {route.replies}"


def shown(text: str) -> str:
    """Text of a peer, safe for one line of a terminal."""
    short = text if len(text) <= 200 else f"{text[:200]}… ({len(text)} characters)"
    return short if short and short.isprintable() else repr(short)


def _lines(
    policy: CompiledPolicy, rules: ScopeRules, decision: Decision, user: str, address: str, action: Action
) -> Iterator[str]:
    yield f"{shown(user)} asks to {action} at {shown(address)} in scope {rules.name}"
    yield f"  address  {_address(rules, decision, address)}"
    if decision.info:
        yield "           $info: the service that describes the partitions of this node"
    for hop, route, where in _onward(policy, decision.route):
        yield f"           then in scope {hop}: {route}  ({where})"
    if decision.route is not None:
        grant = decision.grant
        granted = (
            f"granted  ({grant.where})"
            if grant.where
            else f"no entry of scopes.{rules.name}.access grants it"
        )
        yield f"  access   {granted}"
    refused = f"{decision.condition}: {decision.reason}"
    yield f"  result   {'allowed' if decision.condition is None else refused}"


def _address(rules: ScopeRules, decision: Decision, address: str) -> str:
    if decision.route is not None:
        return f"{describe(decision.route)}  ({decision.route.where})"
    rule = rules.rule(address)
    if rule is not None:
        return f"matches {rule.match.text}, but there can be no such node  ({rule.where})"
    return f"no entry of scopes.{rules.name}.addresses matches"


def _onward(policy: CompiledPolicy, route: Route | None) -> Iterator[tuple[str, str, str]]:
    """Where a relay to another scope leads there; access was decided at the door."""
    for _ in range(_MAX_HOPS):
        if not isinstance(route, RelayRoute) or route.scope is None:
            return
        scope, rules = route.scope, policy.scopes[route.scope]
        route = rules.route(route.address)
        yield (
            scope,
            describe(route) if route else "no node has this address",
            str(route.where) if route else "-",
        )
