"""Checks of `bridge`: that each entry has a log to read and somewhere to bring it, and makes no circle."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from policies.load.findings import Finding
from policies.load.tree import Loc
from policies.model.policy import Policy
from policies.model.scopes.bridge import BridgeEnd, BridgeEntry
from policies.rules import KafkaRoute, RelayRoute, Route, ScopeRules

_MAX_HOPS: Final = 8  # as many as the resolver follows (gateway/nodes/resolver.py)


CheckFilter = Callable[[str], str | None]
"""The mistake in a filter; None: it has none."""


def bridges(policy: Policy, scopes: Mapping[str, ScopeRules], check: CheckFilter) -> Iterator[Finding]:
    """Mistakes in the bridges of every scope, as far as the rules determine where addresses lead."""
    for name, scope in policy.scopes.items():
        names = [bridge.name for bridge in scope.bridge]
        for at, bridge in enumerate(scope.bridge):
            loc: Loc = ("scopes", name, "bridge", at)
            if bridge.name in names[:at]:
                yield Finding((*loc, "name"), f"entry {names.index(bridge.name)} already has this name")
            connectors = sorted(connector.name for connector in scope.connect)
            yield from _connectors(loc, bridge, connectors)
            yield from _bridge(loc, name, bridge, scopes)
            if bridge.filter is not None and (wrong := check(bridge.filter)) is not None:
                yield Finding((*loc, "filter"), wrong)


def _connectors(loc: Loc, bridge: BridgeEntry, known: list[str]) -> Iterator[Finding]:
    for key, end in (("from", bridge.source), ("to", bridge.to)):
        if end.connector is not None and end.connector not in known:
            text = f"there is no connector {end.connector} in this scope (allowed: {', '.join(known) or 'none yet'})"
            yield Finding((*loc, key, "connector"), text)


def _bridge(loc: Loc, scope: str, bridge: BridgeEntry, scopes: Mapping[str, ScopeRules]) -> Iterator[Finding]:
    source = _end(bridge.source, scope, scopes)
    if bridge.source.connector is None:
        if not isinstance(source, KafkaRoute):
            text = "leads to no Kafka topic; for a container behind a connector write {connector: ..., address: ...}"
            yield Finding((*loc, "from"), text)
        if bridge.group is not None:
            text = "a topic of this gateway is read as a whole by one bridge; groups are for remote event logs"
            yield Finding((*loc, "group"), text)
    target = _end(bridge.to, scope, scopes)
    if target is None and bridge.to.address != f"$replies.{scope}":
        text = f"no entry of scopes.{scope}.addresses matches this address: nothing could be sent to it"
        yield Finding((*loc, "to"), text)
    elif target is not None and _place(target) == _place(source):
        yield Finding((*loc, "to"), f"leads back to its source {bridge.source}")


def _end(end: BridgeEnd, scope: str, scopes: Mapping[str, ScopeRules]) -> Route | tuple[str, str, str] | None:
    """The last route of an address; where it leaves this gateway: scope, connector and address there."""
    if end.connector is not None:
        return scope, end.connector, end.address
    route = scopes[scope].route(end.address)
    for _ in range(_MAX_HOPS):
        if not isinstance(route, RelayRoute):
            return route
        if route.scope is None:
            assert route.connector is not None
            return scope, route.connector, route.address
        scope, route = route.scope, scopes[route.scope].route(route.address)
    return None


def _place(end: Route | tuple[str, str, str] | None) -> object:
    """A key that is equal for two ends that are the same."""
    return (end.cluster, end.topic) if isinstance(end, KafkaRoute) else end
