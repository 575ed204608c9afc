"""Checks that no relay leads back to itself through other scopes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from policies.model.policy import Policy
from policies.model.scopes.addresses import RelayRule
from policies.rules import MAX_HOPS, RelayRoute, ScopeRules
from policies.text.diagnostics import Diagnostic


def check_relay_loops(policy: Policy, scopes: Mapping[str, ScopeRules]) -> Iterator[Diagnostic]:
    """Relay rules whose example address leads back to the relay."""
    for name, scope in policy.scopes.items():
        for at, rule in enumerate(scope.addresses):
            if isinstance(rule, RelayRule) and (hops := _loop(name, rule.match.example(), scopes)):
                text = f"the relays form a loop: {' → '.join(hops)}"
                yield Diagnostic(("scopes", name, "addresses", at, "relay"), text)


def _loop(scope: str, address: str, scopes: Mapping[str, ScopeRules]) -> list[str]:
    """The scopes and addresses that a relay leads through, if they are a loop; else none."""
    seen: list[tuple[str, str]] = []
    while (scope, address) not in seen and len(seen) < MAX_HOPS:
        seen.append((scope, address))
        route = scopes[scope].route(address)
        if not isinstance(route, RelayRoute) or route.scope is None:
            return []
        scope, address = route.scope, route.address
    return [f"{name} {there}" for name, there in (*seen, (scope, address))]
