"""Starts, reconfigures and stops the subscription managers of a gateway as its policy says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from bridges.cloudevents.delivery.metrics import ManagerMetrics
from bridges.cloudevents.delivery.state import DeliveryState
from bridges.cloudevents.dispatch.dispatcher import SubscriptionDispatcher
from bridges.cloudevents.dispatch.interface import OpenSink
from bridges.cloudevents.dispatch.journal_rows import JournalRows
from bridges.cloudevents.dispatch.observer import DeliveryObserver
from bridges.cloudevents.dispatch.settings import DispatcherServices, DispatcherSettings
from bridges.cloudevents.events.event import CloudEvent, event_of
from bridges.cloudevents.manager.bindings.amqp import ManagerResponder
from bridges.cloudevents.manager.bindings.http import ManagerRoutes
from bridges.cloudevents.manager.codec import SubscriptionCodec
from bridges.cloudevents.manager.dependencies import ManagerDependencies, wall_clock_ms
from bridges.cloudevents.manager.manager import SubscriptionManager
from bridges.cloudevents.model.values import RefreshToken, SinkProtocol
from bridges.cloudevents.reading.start_offsets import StartOffsets, find_start_offsets
from bridges.cloudevents.samples import counters, gauges, histograms, protocols_of
from bridges.cloudevents.sinks.common.certificates import SinkCertificates
from bridges.cloudevents.sinks.common.dependencies import SinkDependencies
from bridges.cloudevents.sinks.factory import SinkFactory
from bridges.cloudevents.sinks.gateway_addresses import gateway_addresses, gateway_hosts
from bridges.cloudevents.subscription.stored_form import SubscriptionKeys
from bridges.cloudevents.subscription.subscription import Subscription
from bridges.kafka.records.record import KafkaRecord
from gateway.config.policy import make_ring
from gateway.errors import INTERNAL_ERROR, AmqpError
from gateway.observability.counters import Sample
from gateway.observability.histogram import HistogramSample
from gateway.tasks import off_loop
from policies.subscriptions import ManagerRules, manager_rules
from policies.values.hosts import IpAddress

if TYPE_CHECKING:
    from bridges.kafka.bridge import ClusterBridge
    from gateway.amqp.transport.flush_scheduler import FlushScheduler
    from gateway.nodes.base import GatewayContext
    from gateway.observability.link_events import LinkEvents
    from gateway.observability.readiness import Readiness
    from gateway.state.leases.manager import Leases
    from gateway.state.subscriptions.store import SubscriptionStore
    from gateway.state.termini.store import Termini
    from gateway.tasks import Supervisor
    from policies.rules import CompiledPolicy


LoginCheck = Callable[[str], Callable[[str], bool]]
"""Makes a function for a scope: whether a name can be a user there."""


class GatewayServices(NamedTuple):
    """The services of the gateway that managers use; see `gateway.server.client_api.SubscriptionParts`."""

    context: GatewayContext
    leases: Leases
    termini: Termini
    store: SubscriptionStore
    supervisor: Supervisor
    readiness: Readiness
    report: LinkEvents
    hub: FlushScheduler
    gateway_addresses: GatewayAddresses

    @property
    def clusters(self) -> Mapping[str, ClusterBridge]:
        """The Kafka clusters by name, whose type `gateway` knows only as a protocol."""
        return cast("Mapping[str, ClusterBridge]", self.context.kafka)


class GatewayAddresses:
    """The gateway's own addresses under the current policy."""

    addresses: frozenset[IpAddress] = frozenset()

    async def resolve(self, policy: CompiledPolicy) -> None:
        """Resolve them in a thread."""
        self.addresses = await off_loop(gateway_addresses, gateway_hosts(policy.model))


class RunningManager:
    """A manager with its delivery and its sinks."""

    def __init__(
        self, rules: ManagerRules, policy: CompiledPolicy, services: GatewayServices, login_check: LoginCheck
    ) -> None:
        self._services: Final = services
        self._rules = rules
        self._inputs = _inputs_of(rules, policy)
        self.metrics: Final = ManagerMetrics()
        self._sinks: Final = SinkFactory(rules, self._sink_dependencies(policy))
        shared = DispatcherServices(
            services.clusters, services.leases, services.termini, services.supervisor, self._caught_up
        )
        open_sink = cast(OpenSink, self._sinks.open)
        settings = dispatcher_settings(rules)
        self._dispatcher: Final = SubscriptionDispatcher(settings, shared, open_sink, self._event_of, self.metrics)
        if services.report.journal is not None:
            self._dispatcher.observer.rows = JournalRows()
        self.manager: Final = SubscriptionManager(rules, self._dependencies(rules, policy, login_check))
        self.routes: Final = ManagerRoutes(self.manager)
        self.responder: Final = ManagerResponder(self.manager, services.supervisor)
        self._dispatcher.start()
        self._task: Final = services.supervisor.keep(self.manager.run, f"subscriptions:{rules.full_name}")

    async def configure(self, rules: ManagerRules, policy: CompiledPolicy, login_check: LoginCheck) -> None:
        """Continue under another policy."""
        inputs = _inputs_of(rules, policy)
        same = inputs == self._inputs
        self._rules, self._inputs = rules, inputs
        if not same:
            self._sinks.reconfigure(rules, self._sink_dependencies(policy))
            self._dispatcher.reconfigure(dispatcher_settings(rules))
        await self.manager.configure(rules, self._dependencies(rules, policy, login_check), same_rules=same)

    async def close(self) -> None:
        """Stop delivery; positions are kept."""
        self._task.cancel()
        await self._dispatcher.close()
        self._sinks.close()

    def ready(self) -> tuple[bool, str]:
        """For `/readyz`: an unreachable sink does not make the gateway unready."""
        states: Counter[DeliveryState] = Counter()
        for (_, state), number in self.observer.states().items():
            states[state] += number
        by_state = [f"{state.value} {states[state]}" for state in DeliveryState if states[state]]
        return True, ", ".join([f"delivering {self.observer.delivering} of {states.total()}", *by_state])

    @property
    def protocols(self) -> list[SinkProtocol]:
        """The protocols that the policy allows."""
        return protocols_of(self._rules)

    @property
    def observer(self) -> DeliveryObserver:
        """For metrics and the journal."""
        return self._dispatcher.observer

    def _sink_dependencies(self, policy: CompiledPolicy) -> SinkDependencies:
        services = self._services
        return SinkDependencies(
            services.supervisor,
            SinkCertificates(policy.path, policy.secret),
            policy.secret,
            lambda: services.gateway_addresses.addresses,
            partial(self._cluster_settings, policy),
            services.context.scopes.__getitem__,
            services.hub,
            services.report,
            self._save,
            wall_clock_ms,
            metrics=self.metrics,
        )

    def _cluster_settings(self, policy: CompiledPolicy, cluster: str) -> dict[str, str]:
        servers = {"bootstrap.servers": self._services.clusters[cluster].bootstrap}
        return {**servers, **policy.client_settings(policy.model.kafka[cluster])}

    async def _caught_up(self) -> bool:
        return await self.manager.registry.caught_up()

    async def _save(self, manager: str, id: str, before: RefreshToken, renewed: RefreshToken) -> None:
        await self.manager.store_renewed_token(id, before, renewed)

    def _dependencies(
        self, rules: ManagerRules, policy: CompiledPolicy, login_check: LoginCheck
    ) -> ManagerDependencies:
        keys = None if policy.signing is None else SubscriptionKeys(make_ring(policy.signing), wall_clock_ms)
        codec = SubscriptionCodec(rules, keys, self._sinks.protocols, login_check(rules.scope))
        urls = (each.public_url for each in policy.model.scopes[rules.scope].api if each.public_url is not None)
        return ManagerDependencies(
            self._services.store,
            self._dispatcher,
            codec,
            self._sinks.check,
            self._find_start_offsets,
            self.metrics,
            next(urls, None),
        )

    def _event_of(self, record: KafkaRecord, address: str) -> CloudEvent | None:
        return event_of(record, address, wrap=self._rules.wrap)

    async def _find_start_offsets(self, subscription: Subscription, known: StartOffsets | None) -> StartOffsets:
        rules = self._rules
        addresses = subscription.config.addresses or rules.subscribable(subscription.owner)
        try:
            routes = {address: rules.streams[address] for address in addresses}
            return await find_start_offsets(routes, subscription.config.start, self._services.clusters, known)
        except KeyError as error:  # a reload removed it
            raise AmqpError(INTERNAL_ERROR, f"{error}: the policy has changed") from None


class SubscriptionManagers:
    """All managers of a gateway."""

    def __init__(self, services: GatewayServices) -> None:
        self._services: Final = services
        self._running: Final[dict[str, RunningManager]] = {}
        self._last_rows: list[tuple[str, dict[str, object]] | None] = []
        """Of managers that the policy no longer has."""
        services.report.metrics.gauge_source(self._gauges)
        services.report.metrics.count_source(self._counts)
        services.report.metrics.histogram_source(self._histograms)
        if services.context.journal is not None:
            services.context.journal.sources.append(self._journal_rows)

    async def install(self, policy: CompiledPolicy, login_check: LoginCheck) -> None:
        """Run the managers of this policy; those that already run continue, and subscriptions keep their positions."""
        await self._services.gateway_addresses.resolve(policy)
        wanted = {rules.full_name: rules for rules in manager_rules(policy)}
        for name in self._running.keys() - wanted.keys():
            self._services.readiness.remove(_readiness_name(name))
            removed = self._running.pop(name)
            self._services.context.responders.pop((removed.manager.rules.scope, removed.manager.rules.name), None)
            await removed.close()
            self._last_rows += _journal_rows(removed)
        for name, rules in wanted.items():
            if (running := self._running.get(name)) is not None:
                await running.configure(rules, policy, login_check)
            else:
                started = self._running[name] = RunningManager(rules, policy, self._services, login_check)
                self._services.readiness.add(_readiness_name(name), started.ready, required=False)
                self._services.context.responders[rules.scope, rules.name] = started.responder

    def applications(self) -> Iterable[tuple[str, str, ManagerRoutes]]:
        """The HTTP applications of the managers, with scope and path."""
        for running in self._running.values():
            rules = running.manager.rules
            yield rules.scope, rules.path, running.routes

    def _gauges(self) -> Iterator[Sample]:
        for name, running in self._running.items():
            keys = running.manager.registry.encryption_keys()
            yield from gauges(name, running.protocols, running.observer, keys, wall_clock_ms())

    def _counts(self) -> Iterator[Sample]:
        for name, running in self._running.items():
            yield from counters(name, running.protocols, running.observer, running.metrics)

    def _histograms(self) -> Iterator[HistogramSample]:
        for name, running in self._running.items():
            yield from histograms(name, running.protocols, running.metrics)

    def _journal_rows(self) -> Iterator[tuple[str, dict[str, object]] | None]:
        """The journal's rows of kind `push` (docs/journal.md)."""
        rows, self._last_rows = self._last_rows, []
        yield from rows
        for running in list(self._running.values()):
            yield from _journal_rows(running)

    async def close(self) -> None:
        """Stop all deliveries."""
        for running in self._running.values():
            await running.close()


def dispatcher_settings(rules: ManagerRules) -> DispatcherSettings:
    """The settings of the policy for delivery; times in seconds."""
    delivery = rules.delivery
    return DispatcherSettings(
        scope=rules.scope,
        manager=rules.name,
        streams=rules.streams,
        slices=rules.slices,
        refusals=delivery.refusals,
        suspend_after=delivery.suspend_after / 1000,
        retry_after=delivery.retry_after / 1000,
        max_buffered_bytes=delivery.hold,
    )


def _inputs_of(rules: ManagerRules, policy: CompiledPolicy) -> tuple[object, ...]:
    """The inputs of a manager whose change requires reconfiguration: rules, keys, certificates, other secrets."""
    certificates = [rule.tls for rule in rules.sinks if rule.tls is not None]
    names = [name for tls in certificates for name in (tls.ca, tls.cert, tls.key) if name is not None]
    clusters = [policy.client_settings(policy.model.kafka[rule.cluster]) for rule in rules.sinks if rule.cluster]
    named = [*(entry.secret for entry in rules.oauth), *(tls.key_password for tls in certificates)]
    secrets = [policy.secret(secret) for secret in named if secret is not None]
    return rules, policy.signing, [policy.files.get(name) for name in names], clusters, secrets


def _journal_rows(running: RunningManager) -> Iterator[tuple[str, dict[str, object]] | None]:
    rules = running.manager.rules
    for fields in running.observer.journal_rows():
        yield None if fields is None else ("push", {"scope": rules.scope, "manager": rules.name, **fields})


def _readiness_name(name: str) -> str:
    """The name of a manager in `/readyz`."""
    return f"subscriptions/{name}"
