"""The Kafka clusters of the present policy: a reload creates new ones before it replaces anything, and closes old ones.

Part of the composition root.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from gateway.nodes.base import EventStreams
from gateway.observability.readiness import Readiness
from gateway.server.memory import MemoryReading
from gateway.state.leases.manager import Leases
from gateway.state.termini.store import Termini
from gateway.tasks import Supervisor
from policies.model.kafka import EMBEDDED

if TYPE_CHECKING:
    from gateway.journal.writer import RowAppender
    from policies.model.kafka import KafkaCluster
    from policies.rules import CompiledPolicy


class ManagedCluster(EventStreams, MemoryReading, Protocol):
    """A Kafka cluster, as `bridges.kafka` makes it."""

    @property
    def in_flight(self) -> int: ...
    @property
    def written(self) -> tuple[Sequence[int], float]: ...
    def identify(self, gateway: str, transaction_ms: int) -> None: ...
    def group_key(self, topic: str, group: str) -> str: ...
    def appender(self, topic: str) -> RowAppender: ...
    @property
    def bootstrap(self) -> str: ...
    def topics(self) -> Mapping[str, int]: ...
    def counts(self) -> Mapping[str, int]: ...
    def ready(self) -> tuple[bool, str]: ...
    async def ends(self, topic: str) -> dict[int, int]: ...
    async def close(self, limit: float = 10.0) -> None: ...


ClusterMaker = Callable[[str, "KafkaCluster", Mapping[str, str], Supervisor, Leases, Termini], ManagedCluster]
"""Makes a cluster from its name, its policy, its settings with secrets, a supervisor, and what gateways share."""

Settings = tuple["KafkaCluster", Mapping[str, str], tuple[bytes | None, ...]]
"""A change of these needs a new client: the policy, the settings with secrets, the digests of its files."""


class PreparedClusters(NamedTuple):
    """The clusters of a new policy: the settings of each, and the clusters that had to be created."""

    wanted: Mapping[str, Settings]
    made: Mapping[str, ManagedCluster]
    required: frozenset[str]
    """Clusters without which the gateway is not ready."""


class ClusterTable:
    """Creates clusters, and closes those that the policy no longer has."""

    def __init__(self, make: ClusterMaker, supervisor: Supervisor, readiness: Readiness) -> None:
        self.running: Final[dict[str, ManagedCluster]] = {}
        self._settings: Final[dict[str, Settings]] = {}
        self._make: Final = make
        self._supervisor: Final = supervisor
        self._readiness: Final = readiness

    def prepare(self, policy: CompiledPolicy, leases: Leases, termini: Termini) -> PreparedClusters:
        """Create the clusters that are new or whose settings, secrets or files have changed; nothing uses them yet."""
        models, scopes = policy.model.kafka.items(), policy.model.scopes.values()
        longest = max((each.transaction_timeout for each in scopes), default=0)
        wanted = {
            name: (_bare(each), policy.client_settings(each), policy.cluster_files(each)) for name, each in models
        }
        required = frozenset(name for name, each in models if each.required)
        made: dict[str, ManagedCluster] = {}
        try:
            for name, each in wanted.items():
                if self._settings.get(name) != each:
                    made[name] = self._make(name, each[0], each[1], self._supervisor, leases, termini)
                    made[name].identify(policy.model.gateway.id, longest)
        except BaseException:
            self._close(made)
            raise
        return PreparedClusters(wanted, made, required)

    def install(self, prepared: PreparedClusters) -> set[str]:
        """Use these clusters from now on; returns the names of those that were removed or replaced."""
        gone = {name for name in self.running if prepared.wanted.get(name) != self._settings.get(name)}
        for name in gone:
            self._readiness.remove(f"kafka/{name}")
        self._close({name: self.running.pop(name) for name in gone})
        for name, made in prepared.made.items():
            self.running[name] = made
        for name, each in self.running.items():
            self._readiness.add(f"kafka/{name}", each.ready, required=name in prepared.required)
        self._settings.clear()
        self._settings.update(prepared.wanted)
        return gone

    def _close(self, clusters: Mapping[str, ManagedCluster]) -> None:
        for name, each in clusters.items():
            self._supervisor.start(each.close(), f"kafka-close:{name}")


def _bare(model: KafkaCluster) -> KafkaCluster:
    """The settings that need another cluster when they change."""
    return model.model_copy(update={"required": False})


def emptied_warnings(replaced: Iterable[str], prepared: PreparedClusters) -> list[str]:
    """Warnings about embedded clusters that a reload replaces: their events were only in memory."""
    return [
        f"kafka.{name}: the embedded cluster has changed and begins empty; its events are gone"
        for name in replaced
        if name in prepared.wanted and prepared.wanted[name][0].bootstrap == EMBEDDED
    ]
