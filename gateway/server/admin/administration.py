"""The admin API of a running gateway: its socket, and what it reads and changes of the gateway.

Part of the composition root; imported only if the policy has an admin API.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from gateway import __version__
from gateway.admin.callers import AdminCaller, local_caller
from gateway.admin.credit import CreditWaits
from gateway.admin.documents.common import moment
from gateway.admin.gate import AdminGate
from gateway.admin.handlers.application import make_admin_app
from gateway.admin.protocol import admin_protocol, peer_of
from gateway.admin.sockets import bind, own_path
from gateway.admin.walk import links_after
from gateway.http.port import HttpPort
from policies.model.admin import UnixSocket

if TYPE_CHECKING:
    from starlette.requests import Request

    from gateway.admin.documents.backends import ShownCluster
    from gateway.admin.documents.common import Document
    from gateway.admin.source import GroupAnswers, Key, Steering
    from gateway.amqp.link.link import Link
    from gateway.amqp.transport.connection import Connection
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
        self.waits: Final = CreditWaits()
        self._began: Final = time.time()
        self._path: Path | None = None
        gate = AdminGate(make_admin_app(self), self._caller, lambda: (), self._failed)
        kind = admin_protocol(self._dropped, lambda: None)
        self._port: Final = HttpPort(gate, kind, asyncio.get_running_loop())

    async def start(self) -> None:
        """Bind the socket, and look after the credit of links from now on. Raises OSError.

        A default socket that cannot be bound, as on a read-only file system, is only reported.
        """
        place = self._gateway.policy.model.gateway.admin.listen
        if not isinstance(place, UnixSocket):
            return
        try:
            await self._bind(place)
        except OSError as error:
            if place.path is not None:
                raise
            self._report.log.info("no admin socket", error=str(error))
            return
        self._gateway.supervisor.keep(self._look, "admin-credit")

    async def _bind(self, place: UnixSocket) -> None:
        name = self._gateway.policy.model.gateway.id
        path = own_path(name, os.environ, os.geteuid()) if place.path is None else Path(place.path)
        await self._port.start_unix(bind(path))
        self._path = path
        self._report.log.info("listening", bind=f"unix:{path}", protocol="admin")

    async def close(self) -> None:
        """Answer no more requests, and remove the socket."""
        await self._port.close()
        if self._path is not None:
            self._path.unlink(missing_ok=True)

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(_LOOK)
            now = time.time()
            async for key, link in links_after(self.connections, (0, 0)):
                self.waits.look(key, link, now)
            self.waits.finish()

    # -- the gate

    def _caller(self, request: Request) -> AdminCaller | None:
        uid = peer_of(request).uid
        return None if uid is None else local_caller(uid, os.geteuid())

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
