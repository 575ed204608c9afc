"""The compiled policy of a subscription manager: its event streams, sinks and limits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from policies.egress import SinkRule, sink_rule
from policies.internal_topics import sink_topics
from policies.model.filters import Filters
from policies.model.kafka import EMBEDDED
from policies.model.policy import Policy
from policies.model.scopes.scope import ScopeSection
from policies.model.scopes.sinks import OAuthEntry, SinkEntry
from policies.model.scopes.subscriptions import (
    DeliverySection,
    Dialect,
    HandshakeSection,
    ManagerLimits,
    Operation,
    SubscriptionManagerEntry,
)
from policies.rules import CompiledPolicy, KafkaRoute, ScopeRules
from policies.text.diagnostics import PolicyLine
from policies.text.tree import Tree
from policies.values.units import Millis, parse_bind


@dataclass(frozen=True, slots=True)
class ManagerRules:
    """The rules of one subscription manager; equal before and after a reload that changes nothing for it.

    `streams` are its event sources in the order of the file, with their topics. `clusters` has the bootstrap servers of
    all Kafka clusters of the policy; an embedded cluster has none.
    """

    scope: str
    name: str
    path: str
    streams: Mapping[str, KafkaRoute]
    manage: frozenset[str]
    operations: frozenset[Operation]
    upsert: bool
    dialects: frozenset[Dialect]
    wrap: bool
    """Whether records that are not CloudEvents are wrapped in one (`others`)."""
    slices: int
    keep_ended: Millis
    limits: ManagerLimits
    delivery: DeliverySection
    handshake: HandshakeSection | None
    sinks: tuple[SinkRule, ...]
    oauth: tuple[OAuthEntry, ...]
    filters: Filters
    seals: bool
    """Whether the policy has keys, with which secrets of subscriptions are encrypted."""
    clusters: Mapping[str, frozenset[tuple[str, int]]]
    access: ScopeRules = field(compare=False, repr=False)
    """The rules of the scope, which decide who may subscribe to a stream or send to a local sink."""

    @property
    def full_name(self) -> str:
        """Scope and name: the key of the manager's subscriptions in the store."""
        return f"{self.scope}/{self.name}"

    def may_subscribe(self, user: str, address: str) -> bool:
        """Whether the user may subscribe to this stream."""
        return address in self.streams and self.access.access(user, "subscribe", address).allowed

    def subscribable(self, user: str) -> tuple[str, ...]:
        """The streams of this manager to which the user may subscribe, in the order of the file."""
        return tuple(address for address in self.streams if self.may_subscribe(user, address))


def compile_sinks(policy: Policy, tree: Tree) -> dict[tuple[str, str], tuple[SinkRule, ...]]:
    """Compile the sinks of all managers, by scope and name, each with its line in the file."""
    return {
        (name, manager.name): tuple(
            _sink(policy, entry, scope, tree.policy_line(("scopes", name, "subscriptions", at, "sinks", number)))
            for number, entry in enumerate(manager.sinks)
        )
        for name, scope in policy.scopes.items()
        for at, manager in enumerate(scope.subscriptions)
    }


def _sink(policy: Policy, entry: SinkEntry, scope: ScopeSection, where: PolicyLine) -> SinkRule:
    remotes = (remote for connector in scope.connect if connector.name == entry.connector for remote in connector.to)
    endpoints = frozenset(("amqps" if each.tls else "amqp", each.host.lower(), each.port) for each in remotes)
    return sink_rule(entry, endpoints, sink_topics(policy, entry.topics, entry.cluster), where)


def manager_rules(policy: CompiledPolicy) -> tuple[ManagerRules, ...]:
    """Compile the rules of all managers of a policy, in the order of the file."""
    return tuple(
        _manager(policy, name, entry) for name, scope in policy.model.scopes.items() for entry in scope.subscriptions
    )


def _manager(policy: CompiledPolicy, scope: str, entry: SubscriptionManagerEntry) -> ManagerRules:
    rules = policy.scopes[scope]
    routes = ((address, rules.route(address)) for address in entry.events)
    return ManagerRules(
        scope=scope,
        name=entry.name,
        path=entry.path,
        streams={address: route for address, route in routes if isinstance(route, KafkaRoute)},
        manage=frozenset(entry.manage),
        operations=frozenset(entry.operations),
        upsert=entry.upsert,
        dialects=frozenset(entry.dialects),
        wrap=entry.others == "wrap",
        slices=entry.slices,
        keep_ended=entry.keep_ended,
        limits=entry.limits,
        delivery=entry.delivery,
        handshake=entry.handshake,
        sinks=policy.sinks.get((scope, entry.name), ()),
        oauth=entry.oauth,
        filters=policy.model.filters,
        seals=policy.model.keys is not None,
        clusters={name: frozenset(_servers(cluster.bootstrap)) for name, cluster in policy.model.kafka.items()},
        access=rules,
    )


def _servers(bootstrap: str) -> Iterator[tuple[str, int]]:
    if bootstrap != EMBEDDED:
        for server in map(parse_bind, bootstrap.split(",")):
            yield server.host.lower(), server.port
