"""A gateway that serves one policy: its listeners, connectors, clusters and scopes, and their change in a reload.

Part of the composition root: it creates the parts of all packages and connects them.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Iterator, Mapping
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from gateway.amqp.sasl.password_checks import PasswordChecks
from gateway.amqp.transport.connection import Connection
from gateway.config.changes import changed_parts
from gateway.config.credential_files import CheckCluster, CredentialFiles, load_credential_files
from gateway.config.policy import make_filter_rules, offered
from gateway.config.policy_state import PolicyState
from gateway.errors import CONNECTION_FORCED, AmqpError
from gateway.filters.parse.filter_set import prepare
from gateway.forwarding.manager import BridgeManager
from gateway.forwarding.shared import Shared
from gateway.held.alive import ALIVE
from gateway.held.garbage import EndedCollector
from gateway.journal.journaling import Journaling
from gateway.nodes.base import GatewayContext
from gateway.nodes.factories import NODE_FACTORIES
from gateway.nodes.scope import Scope
from gateway.observability.counters import Reading
from gateway.observability.link_events import LinkEvents, kafka_events, kafka_states
from gateway.observability.metrics import Metrics
from gateway.observability.readiness import Readiness
from gateway.routing.response_router import AdmissionContext
from gateway.server.client_api import ClientApi, SubscriptionParts, SubscriptionsMaker
from gateway.server.clusters import ClusterMaker, ClusterTable, PreparedClusters, emptied_warnings
from gateway.server.connectors import ConnectorKey, ConnectorTable
from gateway.server.drain import drain
from gateway.server.group_admin import GroupAdmin, advertised_endpoints, shared_leases
from gateway.server.listener import Listener
from gateway.server.listener_settings import Settings
from gateway.server.listeners import Listeners
from gateway.server.logins import Logins, close_revoked
from gateway.server.memory import Memory
from gateway.server.metrics.gauges import GatewayMetrics
from gateway.server.quota import Quota
from gateway.server.reload import LinkRevalidator, Replaced
from gateway.server.scopes import install_scopes, make_transforms
from gateway.state import open_state
from gateway.tasks import Supervisor, TimeSlice, off_loop, until
from gateway.tracing.tracing import Tracing

if TYPE_CHECKING:
    from gateway.admin.source import Steering
    from gateway.amqp.link.link import Link
    from gateway.connectors.connector import Connector
    from gateway.server.admin.administration import Administration
    from policies.rules import CompiledPolicy

_FIXED: Final = ("http", "admin.listen", "state", "lease", "log", "journal", "tracing", "memory")
"""Keys of `gateway` that a reload does not change."""
_CLOSING: Final = 2.0
"""Seconds that peers have to answer our close at shutdown."""
_NAME_BYTES: Final = 16
_SETTLED: Final = 0.5
"""Seconds after which nobody waits any more for the gateway to start."""


def now_ms() -> int:
    """The wall clock in milliseconds, for cookies."""
    return time.time_ns() // 1_000_000


def _new_name() -> str:
    """A name that nobody can guess."""
    return secrets.token_urlsafe(_NAME_BYTES)


async def _prepare_filters() -> None:
    """Load the languages of filters, in a thread: this takes 0.15 s of the processor that the start itself needs."""
    await asyncio.sleep(_SETTLED)
    await off_loop(prepare)


class PreparedReload(NamedTuple):
    """The connectors and clusters that a new policy needs, created before anything is replaced."""

    connectors: Mapping[ConnectorKey, Connector]
    clusters: PreparedClusters


class Gateway:
    """The running gateway."""

    _administration: Administration | None = None
    steering: Steering | None = None
    """The process, which reloads and drains; None: the gateway runs in another program."""

    def __init__(
        self,
        policy: CompiledPolicy,
        make_cluster: ClusterMaker,
        check_cluster: CheckCluster,
        make_subscriptions: SubscriptionsMaker,
    ) -> None:
        loop = asyncio.get_running_loop()
        self.policy = policy
        self._check_cluster: Final = check_cluster
        self.report: Final = LinkEvents(Metrics())
        self.policy_state: Final = PolicyState(self.report)
        self.readiness: Final = Readiness()
        self.supervisor: Final = Supervisor(*self.report.task_listeners)
        self.leases: Final = shared_leases(policy, self.supervisor, self.readiness)
        self._password_checks: Final = PasswordChecks(loop)
        self._clusters: Final = ClusterTable(make_cluster, self.supervisor, self.readiness)
        self.clusters: Final = self._clusters.running
        self.memory: Final = Memory(policy, self.report, self.clusters)
        self.listening: Final = Listeners(self._make_listener, self.report)
        self.listeners: Final = self.listening.serving
        self._replaced = Replaced(set(), set())
        self._metrics: Final = GatewayMetrics(self, loop)
        self._state = open_state(policy.model.gateway.state, policy.model.gateway.user_termini)
        self._transforms = make_transforms(policy, now_ms, self._state.store, self._metrics.times)
        waits = AdmissionContext(self._state.store, now_ms, loop.time, loop.call_later)
        self.scopes: Final[dict[str, Scope]] = {}
        running = self.report, self.supervisor, self.readiness
        self._connectors: Final = ConnectorTable(self.scopes, self.memory.hub, *running)
        self.context: Final = GatewayContext(
            self.scopes, self.clusters, self._transforms, _new_name, waits, self.memory.hub.soon, NODE_FACTORIES
        )
        self.context.filter_rules = make_filter_rules(policy.model.filters)
        shared = Shared(self.leases, self._state.termini, self.report)
        self.bridges: Final = BridgeManager(self.context, shared, self.supervisor, self.readiness)
        self.client_api: Final = ClientApi(make_subscriptions, self._subscription_parts(), self._password_checks)
        settings = policy.model.gateway
        self._journaling: Final = Journaling(settings.journal, settings.id, self.clusters, self.flush)
        self._tracing: Final = Tracing(settings.tracing, settings.id)
        self._observe(loop)

    def _subscription_parts(self) -> SubscriptionParts:
        shared = self.leases, self._state.termini, self._state.subscriptions
        watched = self.readiness, self.report, self.memory.hub
        return SubscriptionParts(self.context, *shared, self.supervisor, *watched)

    # -- start

    async def start(self) -> None:
        """Serve the policy; raises OSError if a port is in use. Backends may still be unavailable."""
        self.readiness.add("state", self._state.ready)
        self.readiness.add("tasks", self.supervisor.ready)
        self.supervisor.keep(self._state.run, "state")
        self.supervisor.keep(self.leases.run, "leases")
        self.supervisor.keep(self.memory.run, "memory")
        self.supervisor.keep(EndedCollector(lambda: ALIVE.count, self._present).run, "garbage")
        self.supervisor.keep(self._state.store.run, "state-store")
        self._journaling.start(self.report.metrics, self.supervisor)
        self._tracing.start(self.report.metrics, self.supervisor)
        credentials = load_credential_files(self.policy, self._check_cluster)
        await self._install(self.policy, credentials, self._prepare(self.policy))
        self._metrics.policy_in_force(self.policy, self.supervisor)
        for error in (*self.listening.unbound.values(), *self.client_api.unbound):
            raise error
        bind = self.policy.model.gateway.http
        if bind is not None:
            from gateway.observability.http.server import keep_http, make_app

            started = asyncio.Event()
            app = make_app(self.report.metrics, self.readiness, self.groups)
            keep_http(self.supervisor, bind.host, bind.port, app, started, self.report.bad_input)
            await started.wait()
        if self.policy.model.gateway.admin.listen:
            from gateway.server.admin.administration import Administration

            self._administration = Administration(self)
            self._administration.renew(self.policy, credentials)
            await self._administration.start()
        self.supervisor.start(_prepare_filters(), "filter-languages")
        policy = self.policy
        self.policy_state.in_force(policy)
        self._metrics.start(self.supervisor)
        self.report.log.info("serving", gateway=policy.model.gateway.id, policy=str(policy.file), digest=policy.digest)

    async def load(self, policy: CompiledPolicy) -> CredentialFiles:
        """Read the files that a policy names; raises `CredentialFilesError` with every mistake."""
        return await off_loop(load_credential_files, policy, self._check_cluster)

    async def apply(self, policy: CompiledPolicy, credentials: CredentialFiles) -> None:
        """Put a new policy in force: links that it still allows stay, the others are detached with the reason."""
        transforms = make_transforms(policy, now_ms, self._state.store, self._metrics.times)
        filter_rules = make_filter_rules(policy.model.filters)
        prepared = self._prepare(policy)  # whatever can fail is done before anything is replaced
        self.policy_state.parts = changed_parts(self.policy.model, policy.model)
        self.policy_state.replacing()
        self._warn_of_restart(self.policy, policy)
        self.policy, self.context.transforms, self.context.filter_rules = policy, transforms, filter_rules
        await self._install(policy, credentials, prepared)
        self._metrics.policy_in_force(policy, self.supervisor)
        revoked = close_revoked(self.listening)
        closed = await self._revalidate_links()
        self.policy_state.replaced(policy, links_closed=closed, logins_revoked=revoked)

    def _warn_of_restart(self, before: CompiledPolicy, after: CompiledPolicy) -> None:
        """Log the changed keys that are read only at the start of the process."""
        old, new = before.model.gateway, after.model.gateway
        fixed = [key for key in _FIXED if attrgetter(key)(old) != attrgetter(key)(new)]
        if fixed:
            self.report.log.warning("changes that need a restart", keys=[f"gateway.{key}" for key in fixed])

    async def _revalidate_links(self) -> int:
        """Check every link under the new rules; returns how many were detached.

        Each may be compared with every rule: so only as many are checked in a turn of the loop as its time allows.
        """
        revalidator, closed, turn = LinkRevalidator(self.scopes, self._replaced, self.report), 0, TimeSlice()
        for went in revalidator.each([*self.links()], [*self._connectors.links()]):
            closed += went
            await turn.pause()
        self.bridges.policy_changed(revalidator.decided)
        self._replaced = Replaced(set(), set())
        return closed

    def _prepare(self, policy: CompiledPolicy) -> PreparedReload:
        """Create what is new in the policy; nothing uses it yet."""
        made = self._connectors.prepare(policy)
        return PreparedReload(made, self._clusters.prepare(policy, self.leases, self._state.termini))

    async def _install(self, policy: CompiledPolicy, credentials: CredentialFiles, prepared: PreparedReload) -> None:
        """Replace part by part; `_replaced` remembers which, until every link has been checked."""
        self.report.warnings([*map(str, policy.warnings), *credentials.warnings])
        self.leases.session.about = advertised_endpoints(policy)
        replaced = self._clusters.install(prepared.clusters)
        self._replaced.clusters.update(replaced)
        self.report.warnings(emptied_warnings(replaced, prepared.clusters))
        self.memory.divide(policy.model)
        install_scopes(self.scopes, policy, self.context)
        self._connectors.install(policy, credentials, prepared.connectors, self._replaced.connectors)
        wanted = [
            Settings(scope, model, policy.model.gateway.id, offered(policy, scope))
            for scope, each in policy.model.scopes.items()
            for model in each.listen
        ]
        await self.listening.install(wanted, credentials, self.scopes)
        self.bridges.install(policy.model)
        await self.client_api.install(policy, credentials)
        if self._administration is not None:
            self._administration.renew(policy, credentials)

    # -- listeners

    def _make_listener(
        self, settings: Settings, credentials: CredentialFiles, logins: Logins, quota: Quota
    ) -> Listener:
        return Listener(
            settings,
            self.scopes[settings.scope],
            self.memory.hub,
            self.report,
            self.supervisor,
            checks=self._password_checks,
            users=credentials.users_of(settings.model),
            tls=credentials.servers.get(settings.model),
            logins=logins,
            quota=quota,
            keys=credentials.keys_of(settings.model),
        )

    # -- for operators

    @cached_property
    def groups(self) -> GroupAdmin:
        """Answers about consumer groups."""
        return GroupAdmin(self.leases, self.scopes, self.clusters)

    @property
    def connectors(self) -> Mapping[ConnectorKey, Connector]:
        """The connectors of the policy."""
        return self._connectors.running

    # -- connections, links and counts

    def connections(self) -> Iterator[Connection]:
        """Every connection of a listener."""
        yield from self.listening.connections()

    def links(self) -> Iterator[Link]:
        """Every link of the peers."""
        for connection in self.connections():
            if connection.engine is not None:
                yield from connection.engine.links

    def _present(self) -> int:
        return sum(1 + each.engine.table.count for each in self.connections() if each.engine is not None)

    def _observe(self, loop: asyncio.AbstractEventLoop) -> None:
        self.context.journal = self.report.journal = self._journaling.journal
        self.context.tracer = self._tracing.tracer
        loop.set_exception_handler(self._loop_error)
        metrics = self.report.metrics
        self.readiness.add("listeners", self.listening.ready)
        self.readiness.add("policy", self.policy_state.ready)
        metrics.count_source(self._count)
        metrics.gauge_source(lambda: kafka_states(self.clusters))
        metrics.gauge("scopegate_connections", lambda: float(len([*self.connections()])))
        metrics.gauge("scopegate_links", lambda: float(sum(1 for _ in self.links())))
        metrics.gauge("scopegate_unsettled", lambda: float(self.unsettled()))

    def _count(self) -> Iterator[Reading]:
        """Add what open links and connections have counted by themselves, and yield the other counters."""
        self.flush()
        for listener in self.listening:
            listener.count()
        yield from kafka_events(self.clusters)
        for event, count in self._state.store.counts().items():
            yield "state_events", (("event", event),), float(count)

    def flush(self) -> None:
        """Add what open links have counted to the metrics."""
        for link in self.links():
            self.report.flush(link)
        for link in self._connectors.links():
            if link.decision is not None:  # of a pull: there is no local link that counts its messages
                self.report.flush(link)

    def _loop_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        """Report an exception that no task or caller has received."""
        found = context.get("exception")
        error = found if isinstance(found, BaseException) else RuntimeError(context.get("message", "unknown"))
        connection = context.get("connection")
        self.report.task_failed(f"connection:{connection}" if connection else "loop", error)

    def unsettled(self) -> int:
        """The number of deliveries without an outcome yet."""
        waiting = sum(each.engine.unsettled for each in self.connections() if each.engine is not None)
        kafka = sum(bridge.in_flight for bridge in self.clusters.values())
        return waiting + self._connectors.unsettled + self.bridges.held + kafka

    # -- shutdown

    async def announce_stop(self, delay: float) -> None:
        """Answer /readyz with 503 and serve on for `delay` seconds, so that load balancers notice."""
        self.readiness.add("shutdown", lambda: (False, "the gateway is shutting down"))
        if delay > 0:
            self.report.log.info("waiting before the drain", seconds=delay)
            await asyncio.sleep(delay)

    async def stop(self, patience: float) -> None:
        """Drain for up to `patience` seconds, then close everything in order."""
        self.report.log.info("draining", unsettled=self.unsettled(), patience=patience)
        for listener in self.listeners.values():
            listener.stop()
        self.bridges.hold()
        self._connectors.hold()
        await self.client_api.close()
        ends: list[Connection | Connector] = [*self.connections(), *self._connectors.running.values()]
        left = await drain(ends, self.unsettled, self.bridges.close, patience)
        for connection in self.connections():
            connection.close(AmqpError(CONNECTION_FORCED, "the gateway is shutting down; connect again later"))
        self._connectors.close()
        await until(lambda: not any(self.connections()), _CLOSING)
        if self._administration is not None:
            await self._administration.close()
        await self._journaling.close()
        await self._tracing.close()
        for bridge in self.clusters.values():
            await bridge.close(min(patience, 5.0))
        await self.leases.close()
        await self._state.close()
        self._password_checks.close()
        await self.supervisor.close()
        self.report.log.info("stopped", unsettled=left)
