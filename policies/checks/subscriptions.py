"""Checks of `api` and `subscriptions`: logins that are safe, sources that are topics, sinks that exist."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import combinations
from typing import Final

from policies.checks.certificates import check_own_certificate
from policies.model.kafka import EMBEDDED
from policies.model.policy import Policy
from policies.model.scopes.addresses import KafkaRule, ServiceRule
from policies.model.scopes.api import ApiSection
from policies.model.scopes.sinks import SinkEntry
from policies.model.scopes.subscriptions import SubscriptionManagerEntry
from policies.parts.parts import PolicyPart, PolicyParts, ScopeParts
from policies.rules import KafkaRoute, ScopeRules
from policies.text.diagnostics import Diagnostic, Loc

Manager = PolicyPart[SubscriptionManagerEntry]
NoSuch = Callable[[Loc, str, str, Iterable[str]], Diagnostic]
"""Makes the error for an unknown name from its place, its kind, the name itself and the known names."""
_UNIQUE: Final = ("name", "path")


def check_api(part: PolicyPart[ApiSection]) -> Iterator[Diagnostic]:
    """Mistakes between the keys of one `api` listener."""
    api, loc = part.value, part.loc
    if "basic" in api.auth and part.ok("auth", "users", "tls", "allow_basic_without_tls"):
        if api.users is None:
            yield Diagnostic((*loc, "auth"), "basic needs users: the file of users and their passwords")
        if api.tls is None and not api.allow_basic_without_tls:
            yield Diagnostic((*loc, "auth"), "basic needs tls, or allow_basic_without_tls: true")
    if "basic" not in api.auth and api.users is not None and part.ok("auth"):
        yield Diagnostic((*loc, "users"), "only auth: basic uses passwords", at_key=True, warning=True)
    has_ca = api.tls is not None and api.tls.client_ca is not None
    if "certificate" in api.auth and not has_ca and part.ok("auth", "tls"):
        yield Diagnostic((*loc, "auth"), "certificate needs tls with client_ca, the trusted certificate authorities")
    if api.tls is not None and api.tls.require_client_cert and not has_ca and part.ok("tls"):
        yield Diagnostic((*loc, "tls", "require_client_cert"), "needs client_ca, the trusted certificate authorities")


def check_subscriptions(scope: ScopeParts, parts: PolicyParts, no_such: NoSuch) -> Iterator[Diagnostic]:
    """Mistakes and warnings between the managers of a scope and the rest of the file."""
    for earlier, later in combinations(scope.subscriptions, 2):
        for key in _UNIQUE:
            if getattr(earlier.value, key) == getattr(later.value, key) and earlier.ok(key) and later.ok(key):
                yield Diagnostic((*later.loc, key), f"another manager of this scope has this {key}")
    for manager in scope.subscriptions:
        yield from _manager(manager, parts)
        yield from _sinks(manager, scope, parts, no_such)
        yield from _reachable(manager, scope)
        if manager.ok("events"):
            yield from _rules_of_events(manager, scope)


def _manager(part: Manager, parts: PolicyParts) -> Iterator[Diagnostic]:
    manager, loc = part.value, part.loc
    if "retrieve" not in manager.operations and part.ok("operations"):
        yield Diagnostic((*loc, "operations"), "retrieve has to be among them (CloudEvents Subscriptions 3.2.4)")
    if "basic" not in manager.dialects and part.ok("dialects"):
        yield Diagnostic((*loc, "dialects"), "basic has to be among them (CloudEvents Subscriptions 3.2.3)")
    if manager.oauth and not parts.has_keys:
        yield Diagnostic((*loc, "oauth"), "tokens are stored encrypted, which needs keys (`scopegate keys new`)")
    seen: list[str] = []
    for at, entry in enumerate(manager.oauth):
        if entry.tls is not None:
            yield from check_own_certificate(entry.tls, (*loc, "oauth", at, "tls"))
        if entry.endpoint in seen:
            yield Diagnostic((*loc, "oauth", at, "endpoint"), f"entry {seen.index(entry.endpoint)} already has this")
        seen.append(entry.endpoint)
    if _in_memory(parts) and not all(cluster.value.bootstrap == EMBEDDED for cluster in parts.kafka):
        text = "subscriptions and their positions last only as long as this process (gateway.state: memory); use Redis"
        yield Diagnostic(loc, text, warning=True)
    if not manager.sinks and part.ok("sinks"):
        yield Diagnostic(loc, "has no sinks: every subscription is refused", warning=True)


def _in_memory(parts: PolicyParts) -> bool:
    return parts.gateway is None or (parts.gateway.ok("state") and parts.gateway.value.state == "memory")


def _sinks(part: Manager, scope: ScopeParts, parts: PolicyParts, no_such: NoSuch) -> Iterator[Diagnostic]:
    if not part.ok("sinks"):
        return
    for at, sink in enumerate(part.value.sinks):
        loc: Loc = (*part.loc, "sinks", at)
        if sink.connector is not None and sink.connector not in scope.connector_names:
            yield no_such((*loc, "connector"), "connector of this scope", sink.connector, scope.connector_names)
        if sink.cluster is not None and sink.cluster not in parts.cluster_names:
            yield no_such((*loc, "cluster"), "Kafka cluster", sink.cluster, parts.cluster_names)
        if sink.tls is not None:
            yield from check_own_certificate(sink.tls, (*loc, "tls"))
        if "http" in sink.protocol:
            yield from _http_sink(part, sink, loc)


def _http_sink(part: Manager, sink: SinkEntry, loc: Loc) -> Iterator[Diagnostic]:
    if sink.handshake and part.value.handshake is None and part.ok("handshake"):
        yield Diagnostic(loc, "needs handshake: {origin: …} at the manager, to ask for consent; or handshake: off here")
    if sink.to is not None and sink.to.scheme == "http" and "public" in sink.networks:
        text = "events and logins go through public networks without TLS; use https, or name its networks"
        yield Diagnostic((*loc, "to"), text, warning=True)


def _reachable(part: Manager, scope: ScopeParts) -> Iterator[Diagnostic]:
    """Warnings if no client can reach the manager, or nobody may subscribe."""
    rules = (rule.value for rule in scope.addresses)
    served = any(isinstance(rule, ServiceRule) and rule.manager == part.value.name for rule in rules)
    if not scope.api and not served and part.ok("name"):
        text = "no api of this scope and no address with service: subscriptions offers its operations"
        yield Diagnostic(part.loc, text, warning=True)
    if not any("subscribe" in entry.value.may for entry in scope.access) and not scope.broken_access:
        yield Diagnostic(part.loc, "no access entry grants subscribe: nobody may subscribe", warning=True)


def _rules_of_events(part: Manager, scope: ScopeParts) -> Iterator[Diagnostic]:
    if not all(rule.ok("match") for rule in scope.addresses):
        return
    for at, address in enumerate(part.value.events):
        rule = next((rule.value for rule in scope.addresses if rule.value.match.match(address) is not None), None)
        if not isinstance(rule, KafkaRule):
            continue
        if rule.dead_letter is None:
            text = "its rule has no dead_letter: what a sink refuses is only counted and logged"
            yield Diagnostic((*part.loc, "events", at), text, warning=True)
        if rule.mode in ("amqp", "data"):
            text = f"its rule has mode: {rule.mode}: CloudEvents that are sent to it are stored without attributes"
            yield Diagnostic((*part.loc, "events", at), f"{text}, and are no events here", warning=True)


def check_service(rule: PolicyPart[ServiceRule], scope: ScopeParts, no_such: NoSuch) -> Iterator[Diagnostic]:
    """Mistakes in the `manager` key of a service's address."""
    value = rule.value
    if value.service != "subscriptions":
        if value.manager is not None:
            yield Diagnostic((*rule.loc, "manager"), f"service: {value.service} takes no manager", at_key=True)
    elif value.manager is None and rule.ok("manager"):
        yield Diagnostic(rule.loc, "service: subscriptions needs manager: the name of an entry of subscriptions")
    elif value.manager is not None and value.manager not in scope.manager_names:
        yield no_such((*rule.loc, "manager"), "subscription manager of this scope", value.manager, scope.manager_names)


def check_managers(policy: Policy, scopes: Mapping[str, ScopeRules]) -> Iterator[Diagnostic]:
    """Sources that are not Kafka topics of their scope."""
    for name, scope in policy.scopes.items():
        for at, manager in enumerate(scope.subscriptions):
            loc: Loc = ("scopes", name, "subscriptions", at, "events")
            for number, address in enumerate(manager.events):
                if address in manager.events[:number]:
                    yield Diagnostic((*loc, number), "named twice")
                elif not isinstance(scopes[name].route(address), KafkaRoute):
                    text = "leads to no Kafka topic; forward its messages to one by a bridge or pull"
                    yield Diagnostic((*loc, number), text)
