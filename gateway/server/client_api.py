"""HTTP for the clients of scopes, and the subscription managers that are reached through it.

Part of the composition root, in a module of its own. A gateway whose policy has no subscriptions does not import the
modules that they need.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from gateway.config.known_users import login_check
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
    """The parts of the gateway that subscription managers use; `context` has the scopes and the Kafka clusters."""

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

    async def install(self, policy: CompiledPolicy, login_check: Callable[[str], Callable[[str], bool]]) -> None:
        """Run the managers of this policy; managers that were there before continue.

        `login_check` makes a function for a scope: whether a name can be a user there.
        """

    def applications(self) -> Iterable[tuple[str, str, Application]]:
        """The HTTP application of each manager, with its scope and path."""

    async def close(self) -> None:
        """Stop delivering events."""


SubscriptionsMaker = Callable[[SubscriptionParts], SubscriptionService]


class ClientApi:
    """The `api` listeners of a gateway, and the subscription managers behind them."""

    def __init__(self, make: SubscriptionsMaker, parts: SubscriptionParts, checks: PasswordChecks) -> None:
        self._make: Final = make
        self._parts: Final = parts
        self._checks: Final = checks
        self._service: SubscriptionService | None = None
        self._listeners: Final = ApiListeners(self._make_listener)

    @property
    def unbound(self) -> list[OSError]:
        """The errors of ports that could not be bound."""
        return [*self._listeners.unbound.values()]

    async def install(self, policy: CompiledPolicy, credentials: CredentialFiles) -> None:
        """Serve a policy; the error of a port that cannot be bound is added to `unbound`."""
        scopes = policy.model.scopes.values()
        if self._service is None and any(scope.subscriptions for scope in scopes):
            self._service = self._make(self._parts)
            self._parts.supervisor.keep(self._parts.store.run, "subscription-store")
        if self._service is not None:
            await self._service.install(policy, partial(login_check, policy.model, credentials))
            self._listeners.mount(self._service.applications())
        await self._listeners.install(policy, credentials)
        if any(scope.api for scope in scopes):
            self._parts.readiness.add("api", self._listeners.ready)
        else:
            self._parts.readiness.remove("api")

    async def close(self) -> None:
        """Stop answering requests, and stop delivering events."""
        await self._listeners.close()
        if self._service is not None:
            await self._service.close()

    def _make_listener(
        self, scope: str, model: ApiSection, mounted: Callable[[], Mapping[str, Application]]
    ) -> ApiListener:
        # Imported here, because it imports the HTTP server, which most gateways do not need.
        from gateway.http.listener import ApiListener as Listener

        parts, loop = self._parts, asyncio.get_running_loop()
        return Listener(scope, model, parts.report, parts.supervisor, self._checks, mounted, loop)
