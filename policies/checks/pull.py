"""Checks of `pull`: that each entry leads somewhere, and not back to where it comes from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from policies.load.findings import Finding
from policies.load.tree import Loc
from policies.model.policy import Policy
from policies.model.scopes.connect import ConnectorSection
from policies.rules import RelayRoute, Route, ScopeRules

_MAX_HOPS: Final = 8  # as many as the resolver follows (gateway/nodes/resolver.py)


def pulls(policy: Policy, scopes: Mapping[str, ScopeRules]) -> Iterator[Finding]:
    """Mistakes in the pulls of every connector, as far as the rules determine where addresses lead."""
    for name, scope in policy.scopes.items():
        for at, connector in enumerate(scope.connect):
            yield from _connector(("scopes", name, "connect", at, "pull"), name, connector, scopes)


def _connector(
    loc: Loc, scope: str, connector: ConnectorSection, scopes: Mapping[str, ScopeRules]
) -> Iterator[Finding]:
    sources = [pull.source for pull in connector.pull]
    for at, pull in enumerate(connector.pull):
        if pull.source in sources[:at]:
            yield Finding((*loc, at, "from"), f"entry {sources.index(pull.source)} already pulls from here")
        route = scopes[scope].route(pull.to)
        if route is None and pull.to != f"$replies.{scope}":
            text = f"no entry of scopes.{scope}.addresses matches this address: nothing could be sent to it"
            yield Finding((*loc, at, "to"), text)
        elif route is not None and _end(route, scope, scopes) == (scope, connector.name, pull.source):
            text = f"leads back to {pull.source} at {connector.name}, its source"
            yield Finding((*loc, at, "to"), text)


def _end(route: Route | None, scope: str, scopes: Mapping[str, ScopeRules]) -> tuple[str, str, str] | None:
    """Scope, connector and address there, where a route leaves this gateway; None: it does not."""
    for _ in range(_MAX_HOPS):
        if not isinstance(route, RelayRoute):
            return None
        if route.scope is None:
            assert route.connector is not None
            return scope, route.connector, route.address
        scope, route = route.scope, scopes[route.scope].route(route.address)
    return None
