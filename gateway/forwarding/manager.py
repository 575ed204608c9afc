"""The bridges of the present policy: starts and stops them, checks them after a reload, reports them (KM-24)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from gateway.observability.counters import Reading
from gateway.observability.readiness import Readiness
from gateway.tasks import Supervisor

if TYPE_CHECKING:
    from gateway.forwarding.shared import Shared
    from gateway.forwarding.worker import BridgeWorker
    from gateway.links.link import PolicyVerdict
    from gateway.nodes.base import GatewayContext
    from policies.model.policy import Policy
    from policies.model.scopes.bridge import BridgeEntry as Model

_END: Final = 2.0
"""Seconds that the last positions have to be written at shutdown."""


def reads_logs(policy: Policy, scope: str, connector: str) -> bool:
    """Whether a bridge reads events from the container behind this connector."""
    model = policy.scopes.get(scope)
    return model is not None and any(bridge.source.connector == connector for bridge in model.bridge)


class BridgeManager:
    """Runs one task for each bridge; names are those of the policy, unique in their scope."""

    def __init__(self, context: GatewayContext, shared: Shared, supervisor: Supervisor, readiness: Readiness) -> None:
        self._context: Final = context
        self._shared: Final = shared
        self._supervisor: Final = supervisor
        self._readiness: Final = readiness
        self._running: Final[dict[tuple[str, str], BridgeWorker]] = {}
        self._tasks: Final[set[asyncio.Task[None]]] = set()
        shared.report.metrics.count_source(self._count)

    def install(self, policy: Policy) -> None:
        """Start and stop bridges as the policy says; a bridge whose entry has changed is restarted."""
        wanted = {(scope, model.name): model for scope, each in policy.scopes.items() for model in each.bridge}
        for key, bridge in list(self._running.items()):
            if wanted.get(key) != bridge.model:
                self._remove(key)
        for key, model in wanted.items():
            if key not in self._running:
                self._add(key, self._make(key, model))

    def _make(self, key: tuple[str, str], model: Model) -> BridgeWorker:
        from gateway.forwarding.worker import BridgeWorker  # imported only by a gateway with bridges

        return BridgeWorker(key, model, self._context, self._shared)

    def _add(self, key: tuple[str, str], bridge: BridgeWorker) -> None:
        self._running[key] = bridge
        self._readiness.add(_part(key), bridge.ready, required=False)
        for name, read in _gauges(bridge).items():
            self._shared.report.metrics.gauge(name, read, _labels(key))
        task = self._supervisor.keep(bridge.run, f"bridge:{key[1]}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _remove(self, key: tuple[str, str]) -> None:
        bridge = self._running.pop(key)
        self._readiness.remove(_part(key))
        for name in _gauges(bridge):
            self._shared.report.metrics.forget(name, _labels(key))
        bridge.stop()

    def running(self) -> list[tuple[tuple[str, str], BridgeWorker]]:
        """The bridges by scope and name."""
        return [*self._running.items()]

    @property
    def held(self) -> int:
        """Unfinished events of all bridges."""
        return sum(bridge.held for bridge in self._running.values())

    def policy_changed(self, verdict: PolicyVerdict) -> None:
        """After a reload: check the links of every bridge."""
        for bridge in list(self._running.values()):
            bridge.policy_changed(verdict)

    def hold(self) -> None:
        """Request no more events (drain)."""
        for bridge in self._running.values():
            bridge.hold()

    async def close(self) -> None:
        """End all bridges; unfinished events come again, here or at another gateway."""
        for bridge in self._running.values():
            bridge.stop()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_END)

    def _count(self) -> Iterator[Reading]:
        for key, bridge in self._running.items():
            for event, count in bridge.counts.by_event():
                yield "bridge_events", (*_labels(key), ("event", event)), float(count)


def _part(key: tuple[str, str]) -> str:
    """The name of a bridge in `/readyz`."""
    return f"bridge/{key[0]}/{key[1]}"


def _labels(key: tuple[str, str]) -> tuple[tuple[str, str], ...]:
    return ("scope", key[0]), ("bridge", key[1])


def _gauges(bridge: BridgeWorker) -> dict[str, Callable[[], float]]:
    return {
        "scopegate_bridge_up": lambda: float(bridge.up),
        "scopegate_bridge_held": lambda: float(bridge.held),
        "scopegate_bridge_delay_seconds": lambda: bridge.delay,
        "scopegate_bridge_lag": lambda: float("nan") if bridge.lag is None else float(bridge.lag),
    }
