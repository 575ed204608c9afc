"""Checks of `pull`: each entry leads to some address, and not back to its source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from policies.checks.destination import destination
from policies.model.policy import Policy
from policies.model.scopes.connect import ConnectorSection
from policies.rules import ScopeRules
from policies.text.diagnostics import Diagnostic, Loc


def check_pulls(policy: Policy, scopes: Mapping[str, ScopeRules]) -> Iterator[Diagnostic]:
    """Mistakes in the pulls of every connector, as far as the rules determine where addresses lead."""
    for name, scope in policy.scopes.items():
        for at, connector in enumerate(scope.connect):
            yield from _connector(("scopes", name, "connect", at, "pull"), name, connector, scopes)


def _connector(
    loc: Loc, scope: str, connector: ConnectorSection, scopes: Mapping[str, ScopeRules]
) -> Iterator[Diagnostic]:
    sources = [pull.source for pull in connector.pull]
    for at, pull in enumerate(connector.pull):
        if pull.source in sources[:at]:
            yield Diagnostic((*loc, at, "from"), f"entry {sources.index(pull.source)} already pulls from here")
        route = scopes[scope].route(pull.to)
        if route is None and pull.to != f"$replies.{scope}":
            text = f"no entry of scopes.{scope}.addresses matches this address: nothing could be sent to it"
            yield Diagnostic((*loc, at, "to"), text)
        elif route is not None and destination(route, scope, scopes) == (scope, connector.name, pull.source):
            text = f"leads back to {pull.source} at {connector.name}, its source"
            yield Diagnostic((*loc, at, "to"), text)
