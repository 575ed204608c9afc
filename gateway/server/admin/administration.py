"""The admin API of a running gateway: its socket, and what it reads and changes of the gateway.

Part of the composition root; imported only if the policy has an admin API.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, Protocol

from gateway import __version__
from gateway.admin.access.callers import callers_of
from gateway.admin.access.gate import AdminGate
from gateway.admin.access.identity import Identity
from gateway.admin.documents.common import moment
from gateway.admin.live.credit import CreditWaits
from gateway.admin.live.rates import Rates
from gateway.admin.live.streams import ChangeStreams
from gateway.admin.walk import links_after
from gateway.server.admin.ports import AdminPorts
from gateway.tasks import off_loop

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from gateway.admin.documents.backends import ShownCluster
    from gateway.admin.documents.common import Document
    from gateway.admin.handlers.changes import Changes
    from gateway.admin.source import GroupAnswers, Key, Steering
    from gateway.amqp.link.link import Link
    from gateway.amqp.transport.connection import Connection
    from gateway.config.credential_files import CredentialFiles
    from gateway.config.policy_state import PolicyState
    from gateway.connectors.connector import Connector
    from gateway.forwarding.manager import BridgeManager
    from gateway.forwarding.worker import BridgeWorker
    from gateway.held.account import Budget
    from gateway.observability.link_events import LinkEvents
    from gateway.observability.readiness import Readiness
    from gateway.observability.refusals import RecentRefusals
    from gateway.observability.roster import Roster
    from gateway.tasks import Supervisor
    from policies.rules import CompiledPolicy

_LOOK: Final = 1.0
"""Seconds between two looks at the credit of all links."""
_STEP: Final = 50
"""Links that are looked at in one turn of the loop: in less than 0.1 ms, by which a message may be late."""
_SPREAD: Final = 0.5
"""Seconds over which the steps of a look are spread."""
_LONGEST: Final = 0.005
"""Seconds between two steps at most."""


class _HeldMemory(Protocol):
    @property
    def budget(self) -> Budget: ...


class AdministeredGateway(Protocol):
    """What the admin API uses of the gateway."""

    @property
    def policy(self) -> CompiledPolicy: ...
    @property
    def report(self) -> LinkEvents: ...
    @property
    def readiness(self) -> Readiness: ...
    @property
    def supervisor(self) -> Supervisor: ...
    @property
    def memory(self) -> _HeldMemory: ...
    @property
    def policy_state(self) -> PolicyState: ...
    @property
    def clusters(self) -> Mapping[str, ShownCluster]: ...
    @property
    def bridges(self) -> BridgeManager: ...
    @property
    def groups(self) -> GroupAnswers: ...
    @property
    def connectors(self) -> Mapping[Key, Connector]: ...
    @property
    def steering(self) -> Steering | None: ...
    def links(self) -> Iterator[Link]: ...
    def unsettled(self) -> int: ...


class Administration:
    """The admin API of one gateway; the source of its documents."""

    def __init__(self, gateway: AdministeredGateway) -> None:
        self._gateway: Final = gateway
        self._report: Final = gateway.report
        self._clock: Final = asyncio.get_running_loop().time
        self.waits: Final = CreditWaits()
        self.rates: Final = Rates()
        self.streams: Final = ChangeStreams(self._dropped)
        self.identity: Final = Identity(self._clock, self._login_failed)
        self._began: Final = time.time()
        self._app: ASGIApp | None = None
        gate = AdminGate(self._answer, self.identity.caller, self._hosts, self._failed)
        self._ports: Final = AdminPorts(gate, gateway.report, gateway.supervisor)

    def renew(self, policy: CompiledPolicy, credentials: CredentialFiles) -> None:
        """Apply the tokens and certificates of a policy."""
        self.identity.renew(callers_of(policy))
        self._ports.renew(credentials.admin)

    async def start(self) -> None:
        """Bind the sockets and ports, and look after the credit of links from now on. Raises OSError."""
        model = self._gateway.policy.model.gateway
        await self._ports.start(model.id, model.admin)
        self._gateway.supervisor.keep(self._look, "admin-credit")

    async def close(self) -> None:
        """Answer no more requests."""
        self.streams.close()
        await self._ports.close()

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request by the application, which is made for the first one: importing it takes 5 ms of a start."""
        if self._app is None:
            made = await off_loop(self._make_app)
            self._app = self._app or made  # another request may have come meanwhile: there is one turn for all
        await self._app(scope, receive, send)

    def _make_app(self) -> ASGIApp:
        from gateway.admin.handlers.application import make_admin_app

        return make_admin_app(self)

    async def _look(self) -> None:
        changes: Changes | None = None
        looked, took = 0, 0.0
        while True:
            await asyncio.sleep(max(0.0, _LOOK - took))
            if self.streams:
                self.watched()
            began = self._clock()
            looked = await self._round(min(_LONGEST, _SPREAD * _STEP / max(1, looked + len(self.connections))))
            took = self._clock() - began
            if not self.streams:
                changes = None
            elif changes is None:  # the first stream begins with the status, and with what changes from now on
                from gateway.admin.handlers.changes import Changes

                changes = Changes(self)
                self.streams.publish([("status", self.status())])
            else:
                self.streams.publish(changes.round())

    async def _round(self, pause: float) -> int:
        """Look at all links once, with pauses of so many seconds; returns their number."""
        rated, now, looked = self.rates.wanted(self._clock()), time.time(), 0
        async for key, link in links_after(self.connections, (0, 0), step=_STEP, pause=pause):
            looked += 1
            self.waits.look(key, link, now)
            if rated:
                self.rates.look(key, link)
        self.waits.finish()
        if rated:
            events = {(name, event): n for name, each in self.clusters.items() for event, n in each.counts().items()}
            self.rates.finish(self._clock(), events)
        return looked

    def watched(self) -> None:
        """Somebody wants rates of messages."""
        self.rates.watch(self._clock())

    # -- the gate

    def _hosts(self) -> tuple[str, ...]:
        admin = self.policy.model.gateway.admin
        return (*admin.hosts, *(each.host.lower() for each in admin.ports))

    def _login_failed(self, address: str) -> None:
        self._report.increment("sasl_failures", "admin-token")
        self._report.log.warning("authentication failed", reason="admin-token", peer=address)

    def _dropped(self, reason: str) -> None:
        self._report.bad_input(reason, bind="admin")

    def _failed(self, error: Exception) -> None:
        self._report.task_failed("admin", error)

    # -- the source of the handlers

    @property
    def connections(self) -> Roster[Connection]:
        """The open connections."""
        return self._report.connections

    @property
    def refusals(self) -> RecentRefusals:
        """The last refusals."""
        return self._report.refusals

    @property
    def policy(self) -> CompiledPolicy:
        """The policy in force."""
        return self._gateway.policy

    @property
    def policy_state(self) -> PolicyState:
        """The last reload."""
        return self._gateway.policy_state

    @property
    def clusters(self) -> Mapping[str, ShownCluster]:
        """The Kafka clusters by name."""
        return self._gateway.clusters

    @property
    def groups(self) -> GroupAnswers:
        """The consumer groups."""
        return self._gateway.groups

    @property
    def steering(self) -> Steering | None:
        """The process."""
        return self._gateway.steering

    def bridges(self) -> Iterable[tuple[Key, BridgeWorker]]:
        """The bridges by scope and name."""
        return self._gateway.bridges.running()

    def connectors(self) -> Iterable[tuple[Key, Connector]]:
        """The connectors by scope and name."""
        return [*self._gateway.connectors.items()]

    def unsettled(self) -> int:
        """Deliveries without an outcome yet."""
        return self._gateway.unsettled()

    def audit(self, who: str, action: str, **about: object) -> None:
        """Log a change and who made it."""
        self._report.log.info("admin action", who=who, action=action, **about)

    def status(self) -> Document:
        """What the gateway is, and whether its parts are ready."""
        gateway, policy = self._gateway, self._gateway.policy
        ready, report = gateway.readiness.report()
        return {
            "gateway": policy.model.gateway.id,
            "version": __version__,
            "pid": os.getpid(),
            "since": moment(self._began),
            "uptime_seconds": round(time.time() - self._began, 3),
            "ready": ready,
            "parts": report["parts"],
            "policy": {"file": str(policy.file), "digest": policy.digest},
            "connections": len(self.connections),
            "links": sum(1 for _ in gateway.links()),
            "unsettled": gateway.unsettled(),
            "held_bytes": gateway.memory.budget.pool.total,
            "held_limit_bytes": gateway.memory.budget.pool.limit,
        }
