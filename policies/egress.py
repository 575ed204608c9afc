"""Egress rules: whether the policy allows a sink and an IP address for events (docs/subscriptions.md). Pure.

A sink is checked twice: its URI when the subscription is created, by `allows`, and its IP address before each
connection, by `address_allowed`. What no rule allows is denied.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from policies.internal_topics import TopicPatterns
from policies.model.scopes.sinks import SinkEntry, SinkKind, SinkTls, UrlPattern
from policies.text.diagnostics import PolicyLine
from policies.values.hosts import IpAddress
from policies.values.networks import IpNetwork, is_public, unmapped
from policies.values.patterns import Pattern, routable


class EgressDenial(StrEnum):
    """Why the gateway did not connect to a sink."""

    RULE = "rule"
    """No entry of `sinks` allows it."""
    NAME = "name"
    """Its name does not resolve."""
    ADDRESS = "address"
    """Its name resolves to no address that the entry allows."""
    SECRET = "secret"  # noqa: S105  a reason
    """A secret would be sent without TLS."""


class SinkDestination(NamedTuple):
    """The parts of a sink that the rules compare.

    `hosts`: normalized by `policies.values.hosts.parse_host`, with ports; empty for a sink in this scope (amqp) or in
    the cluster of the rule (kafka). `path`: the validated path of the URI. `address`: the AMQP address or the Kafka
    topic.
    """

    protocol: SinkKind
    scheme: str
    hosts: tuple[tuple[str, int], ...]
    path: str
    address: str


@dataclass(frozen=True, slots=True)
class SinkRule:
    """One entry of `sinks`; exactly one of `to`, `local`, `connector` and `cluster` is set."""

    protocols: frozenset[SinkKind]
    to: UrlPattern | None
    local: Pattern | None
    connector: str | None
    endpoints: frozenset[tuple[str, str, int]]
    """Scheme, host and port of each container of the connector."""
    address: Pattern | None
    cluster: str | None
    topics: TopicPatterns
    public: bool
    networks: tuple[IpNetwork, ...]
    tls: SinkTls | None
    handshake: bool
    refuses_plain: bool
    """Whether connections have no TLS, and the entry allows no secrets in clear text."""
    where: PolicyLine = field(compare=False)

    def allows(self, destination: SinkDestination) -> bool:
        """Whether this entry allows the sink."""
        if destination.protocol not in self.protocols:
            return False
        if self.local is not None:
            return (
                not destination.hosts
                and routable(destination.address)
                and self.local.match(destination.address) is not None
            )
        if self.cluster is not None:
            return not destination.hosts and self.topics.matches(destination.address)
        return bool(destination.hosts) and self._matches_host(destination) and self._accepts_address(destination)

    def _matches_host(self, destination: SinkDestination) -> bool:
        if self.to is not None:
            return self.to.matches(
                destination.scheme, destination.hosts, destination.path if destination.protocol == "http" else ""
            )
        return len(destination.hosts) == 1 and (destination.scheme, *destination.hosts[0]) in self.endpoints

    def _accepts_address(self, destination: SinkDestination) -> bool:
        if destination.protocol == "kafka":
            return self.topics.matches(destination.address)
        if self.address is None or destination.protocol != "amqp":
            return True
        return routable(destination.address) and self.address.match(destination.address) is not None


def sink_rule(
    entry: SinkEntry, endpoints: frozenset[tuple[str, str, int]], topics: TopicPatterns, where: PolicyLine
) -> SinkRule:
    """Compile an entry; `endpoints` are those of its connector, if it names one, and `topics` those it allows."""
    return SinkRule(
        protocols=frozenset(entry.protocol),
        to=entry.to,
        local=entry.local,
        connector=entry.connector,
        endpoints=endpoints,
        address=entry.address,
        cluster=entry.cluster,
        topics=topics,
        public="public" in entry.networks,
        networks=tuple(network for network in entry.networks if not isinstance(network, str)),
        tls=entry.tls,
        handshake=entry.handshake,
        refuses_plain=entry.to is not None and not entry.encrypted and not entry.allow_plain_without_tls,
        where=where,
    )


def allows(rules: Sequence[SinkRule], destination: SinkDestination) -> SinkRule | None:
    """The first rule that allows the sink; None: the sink is denied."""
    return next((rule for rule in rules if rule.allows(destination)), None)


def address_allowed(rule: SinkRule, address: IpAddress, own: Collection[IpAddress] = ()) -> bool:
    """Whether the gateway may connect to this address for a sink that `rule` allows.

    `own` are the addresses of the gateway itself, of Kafka and of Redis, with IPv4-mapped ones as IPv4: they never
    count as public, so the rule has to name their network.
    """
    return network_allowed(rule.public, rule.networks, address, own)


def network_allowed(
    public: bool, networks: Sequence[IpNetwork], address: IpAddress, own: Collection[IpAddress] = ()
) -> bool:
    """The same for networks of other policy sections (`oauth`)."""
    for each in (address, unmapped(address)):
        if any(each.version == network.version and each in network for network in networks):
            return True
    return public and unmapped(address) not in own and is_public(address)
