"""The connectors of the present policy: a reload creates new ones before it replaces anything, and closes old ones.

Part of the composition root.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from gateway.amqp.transport.flush_scheduler import FlushScheduler
from gateway.config.policy import routes_responses
from gateway.errors import CONNECTION_FORCED, AmqpError
from gateway.forwarding.manager import reads_logs
from gateway.nodes.scope import Scope
from gateway.observability.link_events import LinkEvents
from gateway.observability.readiness import Readiness
from gateway.tasks import Supervisor

if TYPE_CHECKING:
    from gateway.amqp.link.link import Link
    from gateway.config.credential_files import CredentialFiles
    from gateway.connectors.connector import Connector
    from policies.model.scopes.connect import ConnectorSection
    from policies.rules import CompiledPolicy

ConnectorKey = tuple[str, str]
"""A connector's scope and name: two scopes may use the same name."""


class ConnectorTable:
    """Creates and runs connectors, and closes those that the policy no longer has."""

    def __init__(
        self,
        scopes: Mapping[str, Scope],
        hub: FlushScheduler,
        report: LinkEvents,
        supervisor: Supervisor,
        readiness: Readiness,
    ) -> None:
        self.running: Final[dict[ConnectorKey, Connector]] = {}
        self._tasks: Final[dict[ConnectorKey, asyncio.Task[None]]] = {}
        self._scopes: Final = scopes
        self._hub: Final = hub
        self._report: Final = report
        self._supervisor: Final = supervisor
        self._readiness: Final = readiness

    def links(self) -> Iterator[Link]:
        """Every link of ours at the containers behind the connectors."""
        for connector in self.running.values():
            if connector.engine is not None:
                yield from connector.engine.links

    @property
    def unsettled(self) -> int:
        """The number of deliveries on these links without an outcome yet."""
        return sum(each.engine.unsettled for each in self.running.values() if each.engine is not None)

    def prepare(self, policy: CompiledPolicy) -> dict[ConnectorKey, Connector]:
        """Create the connectors that are new or whose settings have changed; nothing uses them yet."""
        return {key: self._make(key, model, policy) for key, model in self._changed(policy)}

    def _changed(self, policy: CompiledPolicy) -> Iterator[tuple[ConnectorKey, ConnectorSection]]:
        for key, model in _wanted(policy).items():
            running = self.running.get(key)
            settings = model, routes_responses(policy, key[0]), reads_logs(policy.model, *key)
            if running is None or running.settings != settings:
                yield key, model

    def _make(self, key: ConnectorKey, model: ConnectorSection, policy: CompiledPolicy) -> Connector:
        # Imported here, because only a policy with a connector needs it.
        from gateway.connectors.connector import Connector

        return Connector(
            key[0],
            model,
            container_id=policy.model.gateway.id,
            hub=self._hub,
            report=self._report,
            node_scope=lambda: self._scopes[key[0]],
            routes=routes_responses(policy, key[0]),
            bridged=reads_logs(policy.model, *key),
        )

    def install(
        self,
        policy: CompiledPolicy,
        credentials: CredentialFiles,
        made: Mapping[ConnectorKey, Connector],
        replaced: set[ConnectorKey],
    ) -> None:
        """Use these connectors from now on; `replaced` gets the keys of those that go, before any of them is closed."""
        wanted = _wanted(policy)
        gone = {key for key in self.running if key in made or key not in wanted}
        replaced.update(gone)
        for key in gone:
            self._close(key)
        for key, connector in made.items():
            self._run(key, connector)
        for key, model in wanted.items():
            self._readiness.add(_part(key), self.running[key].ready, required=model.required)
            password = model.sasl.password
            secret = policy.secret(password).decode() if password is not None else None
            self.running[key].credentials(secret, credentials.clients.get(model))
        for name, scope in self._scopes.items():
            scope.connectors = {key[1]: each for key, each in self.running.items() if key[0] == name}

    def hold(self) -> None:
        """Grant the containers no more credit (drain)."""
        for connector in self.running.values():
            connector.hold()

    def close(self) -> None:
        """Close all connections in order, and make no others."""
        for key, connector in self.running.items():
            self._tasks[key].cancel()
            connector.close()

    def _run(self, key: ConnectorKey, connector: Connector) -> None:
        self.running[key] = connector
        self._tasks[key] = self._supervisor.keep(connector.run, f"connector:{key[1]}")

    def _close(self, key: ConnectorKey) -> None:
        self._tasks.pop(key).cancel()
        self._readiness.remove(_part(key))
        self.running.pop(key).close(AmqpError(CONNECTION_FORCED, "the policy has changed"))


def _wanted(policy: CompiledPolicy) -> dict[ConnectorKey, ConnectorSection]:
    """The connectors of a policy."""
    return {(scope, model.name): model for scope, each in policy.model.scopes.items() for model in each.connect}


def _part(key: ConnectorKey) -> str:
    """The name of a connector in `/readyz`: it includes the scope, since two scopes may use the same name."""
    return f"connector/{key[0]}/{key[1]}"
