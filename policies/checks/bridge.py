"""Checks of `bridge`: each entry has a source and a target, and does not lead back to its source."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from policies.checks.destination import AtConnector, destination
from policies.model.policy import Policy
from policies.model.scopes.bridge import BridgeEnd, BridgeEntry
from policies.rules import KafkaRoute, Route, ScopeRules
from policies.text.diagnostics import Diagnostic, Loc, listed

CheckFilter = Callable[[str], str | None]
"""Returns the mistake in a filter, or None."""


def check_bridges(policy: Policy, scopes: Mapping[str, ScopeRules], check: CheckFilter) -> Iterator[Diagnostic]:
    """Mistakes in the bridges of every scope, as far as the rules determine where addresses lead."""
    for name, scope in policy.scopes.items():
        names = [bridge.name for bridge in scope.bridge]
        for at, bridge in enumerate(scope.bridge):
            loc: Loc = ("scopes", name, "bridge", at)
            if bridge.name in names[:at]:
                yield Diagnostic((*loc, "name"), f"entry {names.index(bridge.name)} already has this name")
            connectors = sorted(connector.name for connector in scope.connect)
            yield from _connectors(loc, bridge, connectors)
            yield from _bridge(loc, name, bridge, scopes)
            if bridge.filter is not None and (wrong := check(bridge.filter)) is not None:
                yield Diagnostic((*loc, "filter"), wrong)


def _connectors(loc: Loc, bridge: BridgeEntry, known: list[str]) -> Iterator[Diagnostic]:
    for key, end in (("from", bridge.source), ("to", bridge.to)):
        if end.connector is not None and end.connector not in known:
            text = f"there is no connector {end.connector} in this scope (allowed: {listed(known)})"
            yield Diagnostic((*loc, key, "connector"), text)


def _bridge(loc: Loc, scope: str, bridge: BridgeEntry, scopes: Mapping[str, ScopeRules]) -> Iterator[Diagnostic]:
    source = _end(bridge.source, scope, scopes)
    if bridge.source.connector is None:
        if not isinstance(source, KafkaRoute):
            text = "leads to no Kafka topic; for a container behind a connector write {connector: ..., address: ...}"
            yield Diagnostic((*loc, "from"), text)
        if bridge.group is not None:
            text = "a topic of this gateway is read as a whole by one bridge; groups are for remote event logs"
            yield Diagnostic((*loc, "group"), text)
    target = _end(bridge.to, scope, scopes)
    if target is None and bridge.to.address != f"$replies.{scope}":
        text = f"no entry of scopes.{scope}.addresses matches this address: nothing could be sent to it"
        yield Diagnostic((*loc, "to"), text)
    elif target is not None and _place(target) == _place(source):
        yield Diagnostic((*loc, "to"), f"leads back to its source {bridge.source}")


def _end(end: BridgeEnd, scope: str, scopes: Mapping[str, ScopeRules]) -> Route | AtConnector | None:
    if end.connector is not None:
        return scope, end.connector, end.address
    return destination(scopes[scope].route(end.address), scope, scopes)


def _place(end: Route | AtConnector | None) -> object:
    """A key that is equal for two ends that are the same."""
    return (end.cluster, end.topic) if isinstance(end, KafkaRoute) else end
