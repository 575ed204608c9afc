"""The transactional clients of a cluster, which are the resource of AMQP transactions on its topics (KM-14).

A client is made when all others are in use, up to a limit, and used again by later transactions: first the one that has
been idle for the longest, for Kafka begins no transaction until it has written the markers of the client's last one.
So that there is always one that has rested, another is made beforehand (decision 107). Transactional ids are the same
after a restart, so that the first transactions abort what a killed process has left open. A client that has failed is
replaced at once by one with its id, which ends what that has left open (decision 108).
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import structlog
from confluent_kafka import KafkaException

from bridges.kafka.common import errors
from bridges.kafka.produce.producer import SETTINGS
from bridges.kafka.transactions.branch import KafkaBranch
from bridges.kafka.transactions.client import TransactionalClient
from bridges.kafka.transactions.leftovers import Leftovers, OpenPlaces
from bridges.kafka.transactions.turns import CommitTurns
from gateway.errors import RESOURCE_LIMIT_EXCEEDED, AmqpError
from gateway.instance import instance
from gateway.tasks import DaemonThreads, until

if TYPE_CHECKING:
    from bridges.kafka.clusters.cluster import Cluster
    from bridges.kafka.common.counters import ClusterCounters
    from gateway.amqp.link.transactions import Enlisting

_MARGIN_MS: Final = 15_000
"""How much longer Kafka waits than the gateway: its time runs from the first record, and the gateway must be first."""
_CLOSING: Final = 3.0
"""Seconds that transactions have to end when the cluster is closed."""
_AGAIN: Final = 5.0
"""Seconds until Kafka is asked again whether a client may take the place of a failed one."""
_STEADY: Final = {"metadata.recovery.strategy": "none"}
"""Brokers stay known when all connections are lost: positions are sent to the known coordinator of their group, and
librdkafka waits for one that it has dropped until the call is given up (its issue 5511)."""
log = structlog.get_logger(logger_name="kafka")


class TransactionalClients:
    """The clients of one cluster (`gateway.amqp.link.transactions.Resource`)."""

    def __init__(self, cluster: Cluster, counters: ClusterCounters, most: int) -> None:
        self.cluster: Final = cluster
        self.counters: Final = counters
        self.turns: Final = CommitTurns()
        self._most: Final = most
        self._threads: Final = DaemonThreads(most, f"kafka-transactions-{cluster.name}")
        self._idle: Final[deque[TransactionalClient]] = deque()
        self._used: Final[dict[TransactionalClient, KafkaBranch]] = {}
        self._free: Final[list[int]] = list(range(most - 1, -1, -1))
        self._numbers: Final[dict[TransactionalClient, int]] = {}
        self._renewed: Final[deque[TransactionalClient]] = deque()
        """Those that take the places of failed ones, and are not ready: only a transaction without another gets one."""
        self._left: Final[dict[str, Leftovers]] = {}
        """What failed clients may have left open, by their transactional ids."""
        self._spares = True
        """Whether a client is made before it is needed, when no other is idle."""
        self._prefix, self._timeout_ms = f"scopegate-{instance()}", 60_000 + _MARGIN_MS
        self._looking = False

    def name(self, gateway: str, timeout_ms: int) -> None:
        """The name of the gateway, and the longest time that a transaction may take."""
        self._prefix, self._timeout_ms = f"{gateway}-{socket.gethostname()}", timeout_ms + _MARGIN_MS

    @property
    def title(self) -> str:
        """See `Resource`, as everything below."""
        return "topics of one Kafka cluster"

    def begin(self, transaction: Enlisting) -> KafkaBranch:
        client = self._take()
        branch = self._used[client] = KafkaBranch(self, transaction, client)
        return branch

    def _take(self) -> TransactionalClient:
        if not (self._idle or self._free or self._renewed):
            text = f"{self._most} transactions on event logs are open (transactional_producers); try again later"
            raise AmqpError(RESOURCE_LIMIT_EXCEEDED, text)
        client = self._next()
        if not self._idle and self._free and self._spares:
            self._idle.append(spare := self._make(self._free.pop()))
            self.cluster.supervisor.start(self._prepare(spare), "kafka-transaction-spare")
        return client

    def _next(self) -> TransactionalClient:
        if self._idle:
            return self._idle.popleft()
        return self._make(self._free.pop()) if self._free else self._renewed.popleft()

    async def _prepare(self, spare: TransactionalClient) -> None:
        try:
            await spare.initialise()
        except KafkaException as error:
            log.warning("kafka client for the next transaction failed", reason=errors.cause_of(error).str())
            self._spares = not spare.fatal  # refused: so would another one be
            if spare.fatal and spare in self._idle:
                self._idle.remove(spare)
                self._drop(spare)

    def _make(self, number: int) -> TransactionalClient:
        client = self._client(self._identifier(number))
        self._numbers[client] = number
        return client

    def _client(self, identifier: str) -> TransactionalClient:
        # A client waits for the outcomes before it commits: records that linger make small transactions slow.
        own = {"transactional.id": identifier, "transaction.timeout.ms": self._timeout_ms, "linger.ms": 0}
        settings = {**SETTINGS, **self.cluster.settings(), **own, **_STEADY}
        # librdkafka refuses records that may wait for longer than their transaction.
        settings["message.timeout.ms"] = min(int(settings["message.timeout.ms"]), self._timeout_ms)
        left = self._left.pop(identifier, Leftovers())
        return TransactionalClient(settings, self.cluster.loop, self._threads, OpenPlaces(self.cluster), left)

    async def abort(self, identifier: str) -> None:
        """Abort what a process that is gone has left open; no effect on the transactions of this process."""
        if any(each.identifier == identifier for each in self._all()):
            return
        log.warning("aborting the transaction of another process", cluster=self.cluster.name, client=identifier)
        own = [number for number in self._free if self._identifier(number) == identifier]
        for number in own:  # of a client that was replaced: the next one with this number would be fenced off
            self._free.remove(number)
        client = self._client(identifier)
        try:
            await client.initialise()
        except KafkaException as error:
            log.warning("kafka transaction left to its time-out", reason=errors.cause_of(error).str())
        finally:
            self._close(client)
            self._free.extend(own)

    def _identifier(self, number: int) -> str:
        return f"{self._prefix}-{number}"

    def give_back(self, client: TransactionalClient) -> None:
        """The transaction is over; a client that can do nothing any more is replaced."""
        self._used.pop(client, None)
        if not client.fatal:
            self._idle.append(client)
            return
        log.warning("transactional kafka client replaced", cluster=self.cluster.name, client=client.identifier)
        number = self._numbers[client]
        self._drop(client)
        self.cluster.supervisor.start(self._renew(number), "kafka-transaction-renewal")

    def _drop(self, client: TransactionalClient) -> None:
        self._free.append(self._numbers.pop(client))
        self._close(client)

    def _close(self, client: TransactionalClient) -> None:
        if left := client.left:
            self._left[client.identifier] = left
        client.close()

    async def _renew(self, number: int) -> None:
        """End what the client with this number has left open, as soon as Kafka can; the new client is idle then."""
        pause = 0.0
        while number in self._free and self._identifier(number) in self._left:
            self._free.remove(number)
            self._renewed.append(client := self._make(number))
            await asyncio.sleep(pause)
            try:
                await client.initialise()
            except KafkaException as error:
                if not pause:
                    log.warning("kafka client not replaced yet", reason=errors.cause_of(error).str())
            if client not in self._renewed:  # a transaction has it
                return
            self._renewed.remove(client)
            if client.initialised and client.identifier == self._identifier(number):
                self._idle.append(client)
                return
            self._drop(client)
            pause = _AGAIN

    def fenced(self) -> None:
        """Another process has taken over an identifier, for no position: use some that no other process has."""
        before, self._prefix = self._prefix, f"scopegate-{instance()}"
        if before != self._prefix:
            about = {"cluster": self.cluster.name, "ids": before}
            advice = "if two gateways of a machine have the same gateway.id, give each its own"
            log.warning("transactional.ids used by another process", **about, advice=advice)
            for client in self._idle:
                self._drop(client)
            self._idle.clear()

    def link_ended(self) -> None:
        """A link that has posted has ended: what waits of it stays on the account of its connection."""
        if not self._looking:
            self._looking = True
            self.cluster.loop.call_soon(self._look)  # once for all links that end together

    def _look(self) -> None:
        self._looking = False
        for branch in self._used.values():
            branch.link_ended()

    def _all(self) -> Iterator[TransactionalClient]:
        yield from self._idle
        yield from self._used
        yield from self._renewed

    @property
    def held(self) -> int:
        """Bytes of the records that are not reported yet."""
        return sum(each.size for each in self._all())

    async def close(self) -> None:
        """Stop when the transactions have ended, as their links have; Kafka aborts what is left."""
        await until(lambda: not self._used, _CLOSING)
        for each in self._all():
            each.close()
