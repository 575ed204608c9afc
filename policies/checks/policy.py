"""Checks across the parts of a policy: names that must exist, rules that no address reaches, reserved settings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from typing import Final, NamedTuple

from policies.checks.access import check_access
from policies.checks.admin import check_admin
from policies.checks.kafka import check_cluster, check_setting, check_topic
from policies.checks.pipeline import check_pipeline
from policies.checks.relay_ends import check_relay_end
from policies.checks.sasl import check_connector, check_listener
from policies.checks.subscriptions import check_api, check_service, check_subscriptions
from policies.model.kafka import EMBEDDED
from policies.model.scopes.addresses import AnyAddressRule, KafkaRule, RedirectRule, RelayRule, ServiceRule
from policies.model.scopes.api import ApiSection
from policies.model.scopes.listen import ListenerSection
from policies.parts.parts import PolicyPart, PolicyParts, ScopeParts
from policies.schema import nearest
from policies.text.diagnostics import Diagnostic, Loc, listed
from policies.text.tree import dotted
from policies.values.patterns import Pattern, Template
from policies.values.units import Bind

_MEMORY: Final = (
    "only in this process (gateway.state: memory): a restart loses it, and other gateways do not see it; use Redis"
)
_EVERYWHERE: Final = ("0.0.0.0", "::")  # noqa: S104  compared with, never bound


def check_parts(parts: PolicyParts) -> Iterator[Diagnostic]:
    """Every mistake and warning about the valid parts of a file in combination."""
    yield from _keys(parts)
    yield from _binds(parts)
    yield from _journal(parts)
    yield from check_admin(parts.gateway)
    yield from check_pipeline(parts, _no_such)
    for cluster in parts.kafka:
        yield from check_cluster(cluster)
    for setting in parts.settings:
        yield from check_setting(setting)
    for scope in parts.scopes:
        yield from _scope(scope, parts)


def _scope(scope: ScopeParts, parts: PolicyParts) -> Iterator[Diagnostic]:
    for listener in scope.listen:
        yield from check_listener(listener)
    for connector in scope.connect:
        yield from check_connector(connector)
    yield from _connector_names(scope)
    for rule in scope.addresses:
        yield from _rule(rule, scope, parts)
    yield from _shadowed(scope)
    yield from check_access(scope)
    for api in scope.api:
        yield from check_api(api)
    yield from check_subscriptions(scope, parts, _no_such)
    for bridge in scope.bridge:
        if bridge.value.durable and _in_memory(parts):
            yield Diagnostic(bridge.loc, f"its position is stored {_MEMORY}", warning=True)
    if scope.listen and not scope.grants:
        message = "has no access entries: clients may connect, and every link is refused"
        yield Diagnostic(scope.loc, message, at_key=True, warning=True)


def _keys(parts: PolicyParts) -> Iterator[Diagnostic]:
    if parts.active is None:
        return
    active = parts.active.value
    if active not in parts.key_names:
        guess, allowed = _guess(active, parts.key_names), listed(sorted(parts.key_names))
        yield Diagnostic(parts.active.loc, f"no key of the ring has this id{guess} (allowed: {allowed})")
    for entry in parts.ring:
        if entry.loc[-1] == active and entry.value.until is not None:
            message = "the active key must not expire; make another key active before this one expires"
            yield Diagnostic((*entry.loc, "until"), message)
    if parts.max_cookie and _in_memory(parts):
        yield Diagnostic(("keys", "max_cookie"), f"longer cookies are stored {_MEMORY}", warning=True)


def _in_memory(parts: PolicyParts) -> bool:
    return parts.gateway is None or parts.gateway.value.state == "memory"


def _journal(parts: PolicyParts) -> Iterator[Diagnostic]:
    gateway = parts.gateway
    journal = gateway.value.journal if gateway is not None and gateway.ok("journal") else None
    if journal is not None and journal.kafka not in parts.cluster_names:
        yield _no_such(("gateway", "journal", "kafka"), "Kafka cluster", journal.kafka, parts.cluster_names)


class _Place(NamedTuple):
    loc: Loc
    bind: Bind


def _binds(parts: PolicyParts) -> Iterator[Diagnostic]:
    places = [place for scope in parts.scopes for place in (*_listeners(scope.listen), *_listeners(scope.api))]
    gateway = parts.gateway
    if gateway is not None and gateway.value.http is not None and gateway.ok("http"):
        places.insert(0, _Place(("gateway", "http"), gateway.value.http))
    if gateway is not None and gateway.ok("admin"):
        places = [*(_Place(("gateway", "admin", "listen"), bind) for bind in gateway.value.admin.ports), *places]
    for at, later in enumerate(places):
        taken = next((early for early in places[:at] if _overlap(early.bind, later.bind)), None)
        if taken is not None:
            yield Diagnostic(later.loc, f"{later.bind} is already in use by {dotted(taken.loc)}")


def _listeners(listeners: Sequence[PolicyPart[ListenerSection] | PolicyPart[ApiSection]]) -> Iterator[_Place]:
    return (_Place((*part.loc, "bind"), part.value.bind) for part in listeners if part.ok("bind"))


def _overlap(one: Bind, other: Bind) -> bool:
    everywhere = one.host in _EVERYWHERE or other.host in _EVERYWHERE
    return one.port == other.port != 0 and (one.host == other.host or everywhere)


def _connector_names(scope: ScopeParts) -> Iterator[Diagnostic]:
    for earlier, later in combinations(scope.connect, 2):
        if earlier.value.name == later.value.name and earlier.ok("name") and later.ok("name"):
            yield Diagnostic((*later.loc, "name"), "another connector of this scope has this name")


def _rule(rule: PolicyPart[AnyAddressRule], scope: ScopeParts, parts: PolicyParts) -> Iterator[Diagnostic]:
    value = rule.value
    if isinstance(value, RelayRule):
        yield from _relay(PolicyPart(rule.loc, value, rule.broken), scope, parts)
    elif isinstance(value, KafkaRule):
        if rule.ok("topic"):
            yield from check_topic((*rule.loc, "topic"), value.topic)
        if rule.ok("match", "topic"):
            yield from _captures((*rule.loc, "topic"), value.topic, value.match)
        if value.dead_letter is not None and rule.ok("match", "dead_letter"):
            yield from _captures((*rule.loc, "dead_letter"), value.dead_letter, value.match)
            if rule.ok("topic") and value.dead_letter.parts == value.topic.parts:
                text = "this is the topic itself: its receivers would get their rejected events again"
                yield Diagnostic((*rule.loc, "dead_letter"), text)
        if value.kafka not in parts.cluster_names:
            yield _no_such((*rule.loc, "kafka"), "Kafka cluster", value.kafka, parts.cluster_names)
        yield from _partitions(PolicyPart(rule.loc, value, rule.broken), scope, parts)
        if _in_memory(parts) and not _embedded(value.kafka, parts):
            message = f"positions of durable links and consumer groups are stored {_MEMORY}"
            yield Diagnostic(rule.loc, message, warning=True)
        yield from _times(PolicyPart(rule.loc, value, rule.broken), parts)
    elif isinstance(value, ServiceRule):
        yield from check_service(PolicyPart(rule.loc, value, rule.broken), scope, _no_such)
    if isinstance(value, RelayRule | RedirectRule) and value.address is not None and rule.ok("match"):
        yield from _captures((*rule.loc, "address"), value.address, value.match)


def _embedded(cluster: str, parts: PolicyParts) -> bool:
    """Whether a cluster is embedded: its data is lost when the process ends."""
    return any(part.value.bootstrap == EMBEDDED for part in parts.kafka if part.loc[-1] == cluster)


def _times(rule: PolicyPart[KafkaRule], parts: PolicyParts) -> Iterator[Diagnostic]:
    embedded = _embedded(rule.value.kafka, parts)
    if rule.value.strict_timestamps and embedded and rule.ok("strict_timestamps", "kafka"):
        message = "every link would be refused: the topics of an embedded cluster store producers' timestamps"
        yield Diagnostic((*rule.loc, "strict_timestamps"), message)


def _partitions(rule: PolicyPart[KafkaRule], scope: ScopeParts, parts: PolicyParts) -> Iterator[Diagnostic]:
    value = rule.value
    if value.partitions == "none" and value.binding != "agnostic" and rule.ok("partitions", "binding"):
        message = f"binding: {value.binding} needs partitions that links may be bound to"
        yield Diagnostic((*rule.loc, "partitions"), message)
    if value.group_mode == "shared" and rule.ok("group_mode", "ownership", "groups"):
        if value.ownership == "sharded":
            message = "links that share partitions cannot be redirected; leave out ownership: sharded"
            yield Diagnostic((*rule.loc, "group_mode"), message)
        elif value.groups == "none":
            yield Diagnostic((*rule.loc, "group_mode"), "this rule has no groups (groups: none)")
    if value.ownership == "sharded" and rule.ok("ownership"):
        if _in_memory(parts):
            message = f"the owners of partitions are stored {_MEMORY}"
            yield Diagnostic((*rule.loc, "ownership"), message, warning=True)
        elif not any(part.value.advertise for part in scope.listen):
            message = "needs a listener of this scope that other gateways' clients can reach (advertise: host:port)"
            yield Diagnostic((*rule.loc, "ownership"), message)


def _relay(rule: PolicyPart[RelayRule], scope: ScopeParts, parts: PolicyParts) -> Iterator[Diagnostic]:
    name, loc = rule.value.relay, (*rule.loc, "relay")
    others = parts.scope_names - {scope.name}
    if name == scope.name and name not in scope.connector_names:
        yield Diagnostic(loc, "a scope cannot relay to itself")
    elif name in others and name in scope.connector_names:
        yield Diagnostic(loc, "both a scope and a connector of this scope have this name; rename one")
    elif name not in others | scope.connector_names:
        known = others | scope.connector_names
        yield _no_such(loc, "other scope or connector of this scope", name, known, _elsewhere(name, parts))
    elif name in others:
        yield from check_relay_end(rule, parts)
    replies = rule.value.replies
    if replies.mode == "none" and replies.uses is not None:
        yield Diagnostic((*rule.loc, "replies", "uses"), "replies: none routes no responses that could be counted")
    if replies.uses is not None and _in_memory(parts):
        yield Diagnostic((*rule.loc, "replies", "uses"), f"responses are counted {_MEMORY}", warning=True)
    if replies.mode != "none" and rule.ok("replies") and not parts.has_keys:
        message = "routes responses, which needs signing keys: add keys (`scopegate keys new`), or replies: none"
        yield Diagnostic(loc, message)


def _elsewhere(name: str, parts: PolicyParts) -> str:
    """A hint for the name of a connector of another scope."""
    scope = next((each.name for each in parts.scopes if name in each.connector_names), None)
    return "" if scope is None else f"; {name} is a connector of scope {scope}: relay to {scope}, and there to {name}"


def _no_such(loc: Loc, what: str, name: str, known: Iterable[str], hint: str = "") -> Diagnostic:
    names = sorted(known)
    return Diagnostic(loc, f"there is no {what} {name}{hint or _guess(name, names)} (allowed: {listed(names)})")


def _guess(name: str, known: Iterable[str]) -> str:
    near = nearest(name, sorted(known))
    return f"; did you mean {near}?" if near else ""


def _captures(loc: Loc, template: Template, match: Pattern) -> Iterator[Diagnostic]:
    for name in template.names:
        if name not in match.captures:
            allowed = ", ".join(f"{{{capture}}}" for capture in match.captures) or "no captures"
            yield Diagnostic(loc, f"{{{name}}} is not a capture of match (allowed: {allowed})")


def _shadowed(scope: ScopeParts) -> Iterator[Diagnostic]:
    for at, rule in enumerate(scope.addresses):
        cover = scope.rules.covering(rule.value.match) if rule.ok("match") else None
        if cover is not None and cover < at:
            early = scope.addresses[cover]
            text = f"never reached: entry {early.loc[-1]} before it ({early.value.match.text}) matches all of it"
            yield Diagnostic((*rule.loc, "match"), text)
