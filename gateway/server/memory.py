"""The memory of the process: its budget, the accounts, and returning free memory to the system (`gateway.held`)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final, Protocol

from gateway.amqp.transport.flush_scheduler import FlushedConnection, FlushScheduler
from gateway.held.account import Budget
from gateway.held.allocator import Trimmer
from gateway.held.container import budget
from gateway.held.logs import LogDemand, LogShare, TurnBudget, shares
from gateway.routing.requester_limits import DETACHED
from gateway.tasks import off_loop
from policies.model.scopes.addresses import KafkaRule

if TYPE_CHECKING:
    from gateway.observability.counters import Labels
    from gateway.observability.link_events import LinkEvents
    from policies.model.policy import Policy
    from policies.rules import CompiledPolicy

_LOOK: Final = 1.0
_PATIENCE: Final = 3
"""Checks, a second apart, that find too much before a connection is ended."""
_TRIMS: Final = 5
"""Checks between two trims of the heap."""
_TIDY: Final = 60
"""Checks after which the heap is trimmed if much of it is free."""


_KINDS: Final = (
    *(
        ("held_bytes", kind)
        for kind in ("received", "unfinished", "unsettled", "events", "output", "kept", "retained", "connections")
    ),
    ("held_deliveries", "received"),
    ("held_deliveries", "unsettled"),
)
"""What connections hold, by metric and kind; shown at 0 if there are none."""


class MemoryReading(Protocol):
    """What the memory budget uses of a Kafka cluster."""

    @property
    def held(self) -> int: ...
    def states(self) -> Mapping[str, float]: ...
    def limit(self, share: LogShare, turn: TurnBudget) -> None: ...


class Memory:
    """The memory budget of the process; connections charge their accounts through `hub`."""

    def __init__(self, policy: CompiledPolicy, report: LinkEvents, clusters: Mapping[str, MemoryReading]) -> None:
        self._report: Final = report
        self.budget: Final = Budget(budget(policy.model.gateway.memory))
        self.hub: Final = FlushScheduler(asyncio.get_running_loop(), self.budget, self._slowed)
        self._turn: Final = TurnBudget(self.budget.pool, self.hub.loop, self._charge)
        self._trimmer: Final = Trimmer()
        self._clusters: Final = clusters
        self._over = self._trims = 0
        report.metrics.gauge_source(self.samples)

    def divide(self, policy: Policy) -> None:
        """Set the share of each cluster of a policy."""
        for name, share in shares(self.budget.pool.limit, _demands(policy)).items():
            self._clusters[name].limit(share, self._turn)

    def _slowed(self, connection: FlushedConnection, how: str) -> None:
        self._report.increment("held_back", how)
        if (account := connection.account) is not None and account.times():
            held, ids = account.held._asdict(), {"connection": connection.name, "user": connection.peer.user}
            self._report.log.warning("memory limit exceeded", how=how, **ids, **held)

    async def run(self) -> None:
        """Check once a second, until cancelled."""
        while True:
            await asyncio.sleep(_LOOK)
            held = self._look()
            self._trims -= 1
            if self._trims <= 0 and self._trimmer.wants(held):
                self._trims = _TRIMS
                await off_loop(self._trimmer.trim)
            elif self._trims <= -_TIDY:
                self._trims = 0
                await off_loop(self._trimmer.tidy)

    def _look(self) -> int:
        self._charge_logs()
        self.budget.charge_detached(DETACHED.held)
        pool = self.budget.pool
        self._over = self._over + 1 if pool.total > pool.limit else 0
        if self._over > _PATIENCE:
            for account in self.budget.heaviest():
                account.end()
            self._over = 0
        return pool.total

    def _charge(self) -> None:
        self.hub.flush()  # sent bytes are charged to connections when they are written
        self._charge_logs()

    def _charge_logs(self) -> None:
        self.budget.charge_logs(sum(each.held for each in self._clusters.values()))

    def samples(self) -> Iterator[tuple[str, Labels, float]]:
        """The gauges, for metrics."""
        sums: dict[tuple[str, str], int] = dict.fromkeys(_KINDS, 0)
        for account in self.budget.accounts:
            held = account.held
            for name, kind, value in (
                ("held_bytes", "received", held.received),
                ("held_bytes", "unfinished", held.unfinished),
                ("held_bytes", "unsettled", held.unsettled),
                ("held_bytes", "events", held.events),
                ("held_bytes", "output", held.output),
                ("held_bytes", "kept", held.kept),
                ("held_bytes", "retained", account.retained),
                ("held_bytes", "connections", account.fixed),
                ("held_deliveries", "received", held.received_deliveries),
                ("held_deliveries", "unsettled", held.unsettled_deliveries),
            ):
                sums[name, kind] = sums.get((name, kind), 0) + value
        for (name, kind), value in sums.items():
            yield name, (("kind", kind),), float(value)
        yield "held_bytes", (("kind", "logs"),), float(self.budget.logs)
        yield "held_bytes", (("kind", "detached"),), float(self.budget.detached)
        yield "held_limit_bytes", (), float(self.budget.pool.limit)


def _demands(policy: Policy) -> dict[str, LogDemand]:
    rules = [rule for scope in policy.scopes.values() for rule in scope.addresses if isinstance(rule, KafkaRule)]
    both = {rule.kafka for rule in rules if rule.isolation == "read_uncommitted"}
    return {name: LogDemand(each.cache, each.readers, 1 + (name in both)) for name, each in policy.kafka.items()}
