"""The dependencies of sinks: services of the gateway, and the rules of their manager."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import TYPE_CHECKING

from bridges.cloudevents.delivery.metrics import ManagerMetrics
from bridges.cloudevents.model.values import RefreshToken
from bridges.cloudevents.sinks.common.certificates import SinkCertificates
from bridges.cloudevents.sinks.common.dialer import Dialer, Resolve, system_resolve
from policies.egress import SinkRule, address_allowed, network_allowed
from policies.model.scopes.sinks import OAuthEntry
from policies.values.hosts import IpAddress

if TYPE_CHECKING:
    from gateway.amqp.transport.flush_scheduler import FlushScheduler
    from gateway.nodes.base import Resolver
    from gateway.observability.link_events import LinkEvents
    from gateway.tasks import Supervisor
    from policies.values.base import Secret


@dataclass(frozen=True, slots=True)
class SinkDependencies:
    """Shared by all managers of a gateway, and replaced by a reload.

    `gateway_addresses` are those of the gateway and of the services that it uses. `cluster_settings` are the settings
    of a Kafka client for a cluster of the policy. `save` stores a renewed credential of a subscription (manager, id);
    raises OSError.
    """

    supervisor: Supervisor
    certificates: SinkCertificates
    secret: Callable[[Secret], bytes]
    gateway_addresses: Callable[[], Collection[IpAddress]]
    cluster_settings: Callable[[str], Mapping[str, str]]
    scope: Callable[[str], Resolver]
    hub: FlushScheduler
    report: LinkEvents
    save: Callable[[str, str, RefreshToken, RefreshToken], Awaitable[None]]
    now_ms: Callable[[], int]
    resolve: Resolve = system_resolve
    metrics: ManagerMetrics = field(default_factory=ManagerMetrics)

    def dialer(self, rule: SinkRule) -> Dialer:
        """A dialer for the places that a rule allows."""
        return Dialer(
            lambda address: address_allowed(rule, ip_address(address), self.gateway_addresses()),
            self.resolve,
            self.metrics.egress_denied,
        )

    def login_dialer(self, entry: OAuthEntry) -> Dialer:
        """A dialer for token endpoints."""
        public = "public" in entry.networks
        networks = tuple(network for network in entry.networks if not isinstance(network, str))
        return Dialer(
            lambda address: network_allowed(public, networks, ip_address(address), self.gateway_addresses()),
            self.resolve,
            self.metrics.egress_denied,
        )
