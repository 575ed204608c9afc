"""A Kafka cluster of the policy, as the rest of the gateway uses it: makes the nodes on its topics."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import cache
from typing import Final

import structlog

from bridges.kafka.clusters.cluster import Cluster, ClusterConfig
from bridges.kafka.common.counters import ClusterCounters
from bridges.kafka.common.librdkafka import slowness
from bridges.kafka.consume import poll
from bridges.kafka.groups.membership import group_key
from bridges.kafka.info import InfoNode
from bridges.kafka.links.checkpointer import TerminusCheckpointer
from bridges.kafka.node import KafkaNode
from bridges.kafka.produce import client
from bridges.kafka.produce.append import RowProducer
from bridges.kafka.produce.client import WrittenSeconds
from bridges.kafka.produce.dead_letters import DeadLetters
from bridges.kafka.produce.producer import ClusterProducer
from bridges.kafka.route import NodeRoute
from bridges.kafka.tap import TopicLog
from bridges.kafka.transactions.pool import TransactionalClients
from gateway.held.logs import LogShare, TurnBudget
from gateway.state.leases.manager import Leases
from gateway.state.leases.open import open_leases
from gateway.state.termini.store import MemoryTermini, Termini
from gateway.tasks import Supervisor

_FLUSH: Final = 10.0
log = structlog.get_logger(logger_name="kafka")


def client_slowness() -> str | None:
    """Why this process handles Kafka's records one by one, and the remedy; None where it handles many at a time."""
    return slowness(poll.BOUND and client.BOUND)


@cache
def _warn_once() -> None:
    """Log that the client is slow, once per process."""
    if (text := client_slowness()) is not None:
        log.warning("kafka client is slow", reason=text)


class ClusterBridge:
    """One cluster: its nodes, its producer, its counters."""

    def __init__(
        self,
        name: str,
        config: ClusterConfig,
        loop: asyncio.AbstractEventLoop,
        supervisor: Supervisor,
        leases: Leases | None = None,
        termini: Termini | None = None,
    ) -> None:
        """`leases` and `termini`: the state that gateways share; without it, groups and termini are in memory."""
        _warn_once()
        self._leases: Final = leases or open_leases("memory", 0, supervisor)
        self.cluster: Final = Cluster(name, config, loop, supervisor)
        self.counters: Final = ClusterCounters()
        self._producer: Final = ClusterProducer(self.cluster)
        self._checkpointer: Final = TerminusCheckpointer(self.cluster, termini or MemoryTermini())
        self.transactions: Final = TransactionalClients(self.cluster, self.counters, config.transactional_producers)
        self._checkpointer.transactions = self.transactions
        self._charges: Final[dict[Callable[[], int], None]] = {}

    @property
    def bootstrap(self) -> str:
        """The address of the cluster for ordinary Kafka clients, also of an embedded one."""
        return self.cluster.bootstrap

    @property
    def in_flight(self) -> int:
        """Records without a delivery report yet."""
        return len(self._producer)

    def counts(self) -> dict[str, int]:
        """Totals since start by event, for metrics."""
        return {name: getattr(self.counters, name) for name in ClusterCounters.__slots__}

    def states(self) -> dict[str, float]:
        """Gauges, for metrics."""
        slow = float(client_slowness() is not None)
        return {"up": float(self.cluster.up), "client_slow": slow, **self.cluster.reading()}

    @property
    def written(self) -> WrittenSeconds:
        """How long records took to be written: counts by bucket, and the sum of the seconds."""
        return self._producer.written

    @property
    def held(self) -> int:
        """Bytes of cached records, records in the readers' clients, and records on their way to Kafka."""
        return self.cluster.held + self._producer.held + self.transactions.held + sum(read() for read in self._charges)

    def charge(self, read: Callable[[], int]) -> None:
        """Have the bytes that somebody keeps of this cluster's logs on the account of held bytes, too."""
        self._charges[read] = None

    def discharge(self, read: Callable[[], int]) -> None:
        """They are kept no more."""
        self._charges.pop(read, None)

    def limit(self, share: LogShare, turn: TurnBudget) -> None:
        """Set the memory for the readers of each isolation level, and for what links are sent in one turn."""
        self.cluster.limit(share, turn)

    def identify(self, gateway: str, transaction_ms: int) -> None:
        """The name of the gateway at this cluster, and the longest time that a transaction may take."""
        self.transactions.name(gateway, transaction_ms)

    def node(self, route: NodeRoute) -> KafkaNode:
        """The event-stream node of a route."""
        return KafkaNode(
            self.cluster, self._producer, self._checkpointer, self.counters, route, self._leases, self.transactions
        )

    def appender(self, topic: str) -> RowProducer:
        """A producer of rows that the gateway itself writes, such as the journal."""
        return RowProducer(self.cluster, self._producer, topic)

    def log(self, route: NodeRoute) -> TopicLog:
        """The log of a route, for somebody who is no link."""
        return TopicLog(self.cluster, route.topic, route.reading.isolation)

    def dead_letters(self, topic: str, to: str) -> DeadLetters:
        """Copies of a topic's records that somebody who is no link does not want."""
        return DeadLetters(self._producer, self.cluster.loop, self.counters, topic, to)

    def info_node(self, route: NodeRoute) -> InfoNode:
        """The `$info` of a route's node."""
        return InfoNode(self.cluster, route.topic, isolation=route.reading.isolation)

    async def behind(self, topic: str, positions: Mapping[int, int]) -> int:
        """The number of records that the topic has from these positions on; raises AmqpError."""
        bounds = await self.cluster.bounds(topic, tuple(positions))
        return sum(max(0, each.high - max(each.low, positions[partition])) for partition, each in bounds.items())

    async def ends(self, topic: str) -> dict[int, int]:
        """The end offset of each partition of a topic for readers of committed records; raises AmqpError."""
        known = await self.cluster.topic(topic)
        bounds = await self.cluster.bounds(topic, range(known.partitions))
        return {partition: each.high for partition, each in bounds.items()}

    def group_key(self, topic: str, group: str) -> str:
        """The name of a consumer group's record among the leases."""
        return group_key(self.cluster.name, topic, group)

    def topics(self) -> dict[str, int]:
        """The known topics with their numbers of partitions."""
        return self.cluster.known_topics()

    def ready(self) -> tuple[bool, str]:
        """For `/readyz`."""
        return self.cluster.ready()

    async def close(self, limit: float = _FLUSH) -> None:
        """Wait up to `limit` seconds for records in flight, then close the cluster's clients."""
        await self._producer.close(limit)
        await self.transactions.close()
        await self._checkpointer.close()
        await self.cluster.close()
