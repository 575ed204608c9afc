"""HTTP for the clients of scopes, and the subscription managers that it leads to.

Part of the composition root, kept apart from `gateway`. A gateway whose policy has no subscriptions imports none of
what they need.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from gateway.http.listeners import ApiListeners
from gateway.state.subscriptions.store import SubscriptionStore
from gateway.tasks import Supervisor

if TYPE_CHECKING:
    from gateway.amqp.sasl.password_checks import PasswordChecks
    from gateway.amqp.transport.flush_scheduler import FlushScheduler
    from gateway.config.credential_files import CredentialFiles
    from gateway.http.gate import Application
    from gateway.http.listener import ApiListener
    from gateway.nodes.base import GatewayContext
    from gateway.observability.link_events import LinkEvents
    from gateway.observability.readiness import Readiness
    from gateway.state.leases.manager import Leases
    from gateway.state.termini.store import Termini
    from policies.model.scopes.api import ApiSection
    from policies.rules import CompiledPolicy


class SubscriptionParts(NamedTuple):
    """What subscription managers use of the gateway; `context` has its scopes and its Kafka clusters."""

    context: GatewayContext
    leases: Leases
    termini: Termini
    store: SubscriptionStore
    supervisor: Supervisor
    readiness: Readiness
    report: LinkEvents
    hub: FlushScheduler


class SubscriptionService(Protocol):
    """The subscription managers of a gateway (`bridges.cloudevents.service`)."""

    async def install(self, policy: CompiledPolicy) -> None:
        """Run the managers of this policy; those that stay go on."""

    def applications(self) -> Iterable[tuple[str, str, Application]]:
        """Each manager's HTTP binding, with its scope and path."""

    async def close(self) -> None:
        """Deliver no more."""


SubscriptionsMaker = Callable[[SubscriptionParts], SubscriptionService]


class ClientApi:
    """The `api` listeners of a gateway, and what is behind them."""

    def __init__(self, make: SubscriptionsMaker, parts: SubscriptionParts, checks: PasswordChecks) -> None:
        self._make: Final = make
        self._parts: Final = parts
        self._checks: Final = checks
        self._service: SubscriptionService | None = None
        self._listeners: Final = ApiListeners(self._make_listener)

    @property
    def unbound(self) -> list[OSError]:
        """Why ports of the policy are not served."""
        return [*self._listeners.unbound.values()]

    async def install(self, policy: CompiledPolicy, credentials: CredentialFiles) -> None:
        """Serve a policy; a port that cannot be bound is noted in `unbound`."""
        scopes = policy.model.scopes.values()
        if self._service is None and any(scope.subscriptions for scope in scopes):
            self._service = self._make(self._parts)
            self._parts.supervisor.keep(self._parts.store.run, "subscriptions")
        if self._service is not None:
            await self._service.install(policy)
            self._listeners.mount(self._service.applications())
        await self._listeners.install(policy, credentials)
        if any(scope.api for scope in scopes):
            self._parts.readiness.add("api", self._listeners.ready)
        else:
            self._parts.readiness.remove("api")

    async def close(self) -> None:
        """Answer no more requests, and deliver no more."""
        await self._listeners.close()
        if self._service is not None:
            await self._service.close()

    def _make_listener(
        self, scope: str, model: ApiSection, mounted: Callable[[], Mapping[str, Application]]
    ) -> ApiListener:
        from gateway.http.listener import ApiListener as Listener  # with all of HTTP: not before there is one

        parts, loop = self._parts, asyncio.get_running_loop()
        return Listener(scope, model, parts.report, parts.supervisor, self._checks, mounted, loop)
