"""Finds the last destination of an address: follows the relays of this gateway as the resolver does."""

from __future__ import annotations

from collections.abc import Mapping

from policies.rules import MAX_HOPS, RelayRoute, Route, ScopeRules

AtConnector = tuple[str, str, str]
"""A scope, a connector of it, and an address at the connector's container."""


def destination(route: Route | None, scope: str, scopes: Mapping[str, ScopeRules]) -> Route | AtConnector | None:
    """The last route behind `route` of `scope`; `AtConnector` if it leaves this gateway; None if it leads nowhere."""
    for _ in range(MAX_HOPS):
        if not isinstance(route, RelayRoute):
            return route
        if route.scope is None:
            assert route.connector is not None
            return scope, route.connector, route.address
        scope, route = route.scope, scopes[route.scope].route(route.address)
    return None
