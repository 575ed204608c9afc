"""Makes the AMQP sink of a subscription: local, over a connector, or over its own connection."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from bridges.cloudevents.delivery.answers import Answer, DeliveryOutcome
from bridges.cloudevents.delivery.sink import SinkListener
from bridges.cloudevents.events.bindings.amqp import amqp_binary, amqp_structured
from bridges.cloudevents.events.event import CloudEvent
from bridges.cloudevents.model.values import AmqpSettings, Json, PlainCredential
from bridges.cloudevents.sinks.amqp.container import ContainerSender, SenderTarget
from bridges.cloudevents.sinks.amqp.deliveries import Deliveries
from bridges.cloudevents.sinks.amqp.local import LocalLink
from bridges.cloudevents.sinks.amqp.sink import AmqpSender, AmqpSink
from bridges.cloudevents.sinks.common.dependencies import SinkDependencies
from bridges.cloudevents.sinks.common.dialer import failure_reason
from bridges.cloudevents.subscription.subscription import Subscription
from gateway.amqp.codec.types import Long, Symbol, Value, ValueMap
from gateway.amqp.message.durable import durable
from gateway.amqp.sasl.client import SaslClient
from gateway.amqp.transport.connection import Connection
from gateway.amqp.transport.handshake import Handshake
from gateway.connectors.connector import Connector
from gateway.errors import DETACH_FORCED, AmqpError
from gateway.nodes.base import Remotes, Resolver
from gateway.routing.event_annotations import PARTITION
from policies.egress import SinkRule
from policies.model.scopes.connect import ConnectorSection
from policies.values.units import Endpoint

_NAME: Final = "subscriptions"
"""The name of sinks' connections in metrics and logs."""
_MECHANISMS: Final = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")
_LOGIN_REFUSED: Final = frozenset(("credentials", "mechanism", "server-proof"))
"""Failures of SASL that concern the login; after others, the server may be none of AMQP's."""
_SYMBOLS: Final = frozenset((PARTITION,))
"""Link properties whose values are symbols."""


def open_amqp(
    dependencies: SinkDependencies, scope: str, subscription: Subscription, rule: SinkRule, listener: SinkListener
) -> AmqpSink:
    """Make the sink; it attaches with the first event."""
    settings, delivery = subscription.settings, subscription.delivery
    assert isinstance(settings, AmqpSettings)
    deliveries = Deliveries(settled=settings.settled)
    sender = _sender(dependencies, dependencies.scope(scope), subscription, settings, rule, deliveries)
    encode: Callable[[CloudEvent], bytes]
    encode = _structured if settings.mode == "structured" else partial(amqp_binary, separator=settings.separator)
    if rule.local is None:
        encode = partial(_durable, encode)
    return AmqpSink(sender, deliveries, encode, delivery.timeout, delivery.window, listener, dependencies.supervisor)


def _structured(event: CloudEvent) -> bytes:
    return amqp_structured(event)


def _durable(encode: Callable[[CloudEvent], bytes], event: CloudEvent) -> bytes:
    """A container that has accepted an event keeps it, as the stream does that it comes from."""
    return durable(encode(event))


def _sender(
    dependencies: SinkDependencies,
    scope: Resolver,
    subscription: Subscription,
    settings: AmqpSettings,
    rule: SinkRule,
    deliveries: Deliveries,
) -> AmqpSender:
    properties = link_properties(settings.link_properties)
    if rule.local is not None:
        return _LocalSender(scope, subscription.owner, settings.address, properties, deliveries)
    target = SenderTarget(settings.address, settings.link_name, properties, settings.settled)
    if rule.connector is not None:
        return _ConnectorSender(scope, rule.connector, target, deliveries)
    return _DirectSender(dependencies, scope, subscription, settings.mechanism, rule, target, deliveries)


def link_properties(named: Mapping[str, Json]) -> ValueMap:
    """Convert JSON to link properties: names become symbols, integers longs, and values of known names symbols."""
    found = ValueMap()
    for name, value in named.items():
        found[Symbol(name)] = Symbol(value) if name in _SYMBOLS and isinstance(value, str) else _value(value)
    return found


def _value(value: Json) -> Value:
    if isinstance(value, int) and not isinstance(value, bool):
        return Long(value)
    return value


class _LocalSender:
    """A link to an address of the scope; replaced after it ended."""

    def __init__(
        self, scope: Resolver, owner: str, address: str, properties: ValueMap, deliveries: Deliveries
    ) -> None:
        self._make: Final = partial(LocalLink, scope, owner, address, properties, deliveries)
        self._link: LocalLink | None = None

    def attach(self) -> None:
        """See `AmqpSender`."""
        if self._link is None or self._link.gone:
            self._link = self._make()
            asyncio.get_running_loop().call_soon(self._link.start)

    def close(self) -> None:
        """See `AmqpSender`."""
        if self._link is not None:
            self._link.end(None)


class _ConnectorSender:
    """A link over a connector; a reload may replace the connector's object."""

    def __init__(self, scope: Resolver, connector: str, target: SenderTarget, deliveries: Deliveries) -> None:
        self._scope: Final = scope
        self._name: Final = connector
        self._target: Final = target
        self._deliveries: Final = deliveries
        self._connector: Remotes | None = None
        self._sender: ContainerSender | None = None

    def attach(self) -> None:
        """See `AmqpSender`."""
        connector = self._scope.connectors.get(self._name)
        if connector is not self._connector:
            self.close()
            self._connector = connector
            self._sender = (
                None if connector is None else ContainerSender(connector, self._target, self._deliveries)
            )
        if self._sender is not None:
            self._sender.attach()
        else:
            error = AmqpError(DETACH_FORCED, "the connector is not in the policy")
            asyncio.get_running_loop().call_soon(self._deliveries.link_lost, error)

    def close(self) -> None:
        """See `AmqpSender`."""
        if self._sender is not None:
            self._sender.close()


class _DirectSender:
    """A link over the subscription's own connection to a checked address."""

    def __init__(
        self,
        dependencies: SinkDependencies,
        scope: Resolver,
        subscription: Subscription,
        mechanism: str | None,
        rule: SinkRule,
        target: SenderTarget,
        deliveries: Deliveries,
    ) -> None:
        ((host, port),) = subscription.sink.hosts
        tls = subscription.sink.scheme == "amqps"
        login = subscription.credential if isinstance(subscription.credential, PlainCredential) else None
        self._connector: Final = _SinkConnector(
            dependencies, scope, Endpoint(tls, host, port), rule, login, mechanism, deliveries
        )
        self._connector.credentials(None, dependencies.certificates.context(rule.tls) if tls else None)
        self._sender: Final = ContainerSender(self._connector, target, deliveries)
        self._run: Final = dependencies.supervisor.keep(self._connector.run, "connector:subscriptions")

    def attach(self) -> None:
        """See `AmqpSender`."""
        self._sender.attach()

    def close(self) -> None:
        """See `AmqpSender`."""
        self._sender.close()
        self._run.cancel()
        self._connector.close()


class _SinkConnector(Connector):
    """A connector that dials only what the sink policy allows, and logs in with a subscription's credential."""

    def __init__(
        self,
        dependencies: SinkDependencies,
        scope: Resolver,
        endpoint: Endpoint,
        rule: SinkRule,
        login: PlainCredential | None,
        mechanism: str | None,
        deliveries: Deliveries,
    ) -> None:
        model = ConnectorSection.model_validate({"name": _NAME, "to": (endpoint,), "annotations": "never"})
        super().__init__(
            scope.name,
            model,
            container_id=f"scopegate-{_NAME}",
            hub=dependencies.hub,
            report=dependencies.report,
            node_scope=lambda: scope,
            routes=False,
        )
        self._dialer: Final = dependencies.dialer(rule)
        self._may_be_plain: Final = not rule.refuses_plain
        self._deliveries: Final = deliveries
        self._login: Final = login
        self._mechanisms: Final = (mechanism,) if mechanism else _MECHANISMS if login is not None else ("ANONYMOUS",)

    async def dial(self, endpoint: Endpoint) -> socket.socket:
        """Connect a socket to a checked address."""
        return await self._dialer.connect(endpoint.host, endpoint.port)

    def secure(self, connection: Connection) -> SaslClient:
        """Log in; PLAIN without TLS only if the policy allows it."""
        login, endpoint = self._login, self.model.to[0]
        return SaslClient(
            self._mechanisms,
            None if login is None else login.identifier,
            None if login is None else login.secret,
            endpoint.host,
            tls=connection.ssl_object is not None,
            allow_plain_without_tls=self._may_be_plain,
        )

    def unreachable(self, error: Exception) -> None:
        """Name the reason, as other sinks do."""
        self._deliveries.unreachable(failure_reason(error))

    def opened(self, connection: Connection) -> None:
        """See `Connector`."""
        self._deliveries.unreachable()
        super().opened(connection)

    def unauthenticated(self, connection: Connection, security: Handshake) -> None:
        """Fail the waiting deliveries at once."""
        super().unauthenticated(connection, security)
        if security.reason in _LOGIN_REFUSED:
            answer = Answer(DeliveryOutcome.CREDENTIAL, "the container does not accept the login")
        else:
            answer = Answer(DeliveryOutcome.SINK_FAILED, "the container did not answer the login", reached=False)
        self._deliveries.fail_queued(answer)
