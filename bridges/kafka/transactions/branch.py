"""The part of a Kafka cluster in one AMQP transaction (`gateway.amqp.link.transactions.Branch`; KM-14)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, Final, Protocol

import structlog
from confluent_kafka import KafkaError, KafkaException

from bridges.kafka.common import errors
from bridges.kafka.produce.client import Header
from bridges.kafka.transactions.client import TransactionalClient
from bridges.kafka.transactions.offsets import EventProgress, RetiredEvents, new_group
from bridges.kafka.transactions.records import PostedRecord, TransactionRecords
from gateway.amqp.link.outcomes import Rejected
from gateway.errors import INTERNAL_ERROR, TRANSACTION_ROLLBACK, AmqpError, Fault
from gateway.tasks import until

if TYPE_CHECKING:
    from bridges.kafka.clusters.cluster import Cluster
    from bridges.kafka.common.counters import ClusterCounters
    from gateway.amqp.link.transactions import (
        Answer,
        Enlisting,
        PostedMessage,
        PostedMessages,
        Retirement,
    )

_FENCED: Final = (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED)
_SENT: Final = 5.0
"""Seconds that a rollback waits for reports of records."""
_TWIN: Final = "another process uses the same transactional.id, so Kafka has aborted the transaction: repeat it"
log = structlog.get_logger(logger_name="kafka")


class TerminusPart(Protocol):
    """What a branch uses of a record of positions (`bridges.kafka.links.checkpointer.TerminusLease`)."""

    transaction_group: str
    transaction_writer: str
    positions: Callable[[], Mapping[int, int]]

    @property
    def request(self) -> PositionRequest: ...
    async def holds(self) -> bool: ...


class PositionRequest(Protocol):
    """What a branch uses of `TerminusRequest`."""

    @property
    def group(self) -> str: ...


class StoredPositions(Hashable, Protocol):
    """What a branch uses of a terminus (`bridges.kafka.links.checkpointer.DurableTerminus`)."""

    @property
    def parts(self) -> Iterable[TerminusPart]: ...
    @property
    def progress(self) -> EventProgress: ...
    def part_of(self, partition: int) -> TerminusPart | None:
        """The record of a partition; None: the link has the partition no more."""


class ClientPool(Protocol):
    """What a branch uses of the clients of its cluster (`pool.TransactionalClients`)."""

    @property
    def cluster(self) -> Cluster: ...
    @property
    def counters(self) -> ClusterCounters: ...
    def give_back(self, client: TransactionalClient) -> None:
        """The transaction is over."""

    def fenced(self) -> None:
        """Another process uses the same identifiers."""


class KafkaBranch:
    """The records and offsets of one transaction; everything here runs on the loop."""

    def __init__(self, pool: ClientPool, transaction: Enlisting, client: TransactionalClient) -> None:
        self._pool: Final = pool
        self._transaction: Final = transaction
        self._client: Final = client
        self._records: Final = TransactionRecords(client, pool.cluster.loop, self._refuse)
        self._failure = self._missing = self._fenced = False
        """Whether a record was not written; whether a message was refused when its commit was already under way;
        whether another process uses the client's transactional.id."""
        self._retired: Final[dict[StoredPositions, tuple[str, RetiredEvents]]] = {}
        self._begun = asyncio.Event()
        self._then: Answer | None = None
        """Called after the commit that waits for reports."""
        pool.cluster.supervisor.start(self._begin(), "kafka-transaction")

    async def _begin(self) -> None:
        try:
            await self._client.begin(self)
        except KafkaException as error:
            self._failed(errors.cause_of(error))
        self._begun.set()
        self._records.begin()
        self._perhaps_commit()

    def produce(
        self,
        topic: str,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        headers: list[Header] | None,
        post: PostedMessage,
    ) -> None:
        """Write a record; the post is accepted when Kafka has it."""
        self._records.add(PostedRecord(topic, partition, key, value, headers, post))

    def produce_messages(self, topic: str, partition: int, posts: PostedMessages, at: int, rules: int) -> int:
        """Write messages from `at` on while C makes their records; returns the next one."""
        return self._records.add_messages(topic, partition, posts, at, rules)

    def retire(self, terminus: StoredPositions, topic: str, retirement: Retirement) -> None:
        """An event of a terminus gets an outcome: its position is committed with the records."""
        if terminus not in self._retired:
            self._retired[terminus] = topic, RetiredEvents(terminus)
        self._retired[terminus][1].add(retirement)

    def _refuse(self, post: PostedMessage, error: AmqpError) -> None:
        """librdkafka does not take a message; if that has waited, a commit that came meanwhile must not succeed."""
        self._missing = self._missing or self._then is not None
        post.refuse(error)

    # -- reports

    def on_reports(self, count: int, code: int) -> None:
        """See `ReportsListener`; Kafka commits no transaction that a record is missing from."""
        if code:
            self._failure = True
            self._failed(KafkaError(code))
        else:
            self._pool.counters.accepted += count
        self._records.answer(count, written=not self._failure)
        self._perhaps_commit()

    def _failed(self, error: KafkaError) -> None:
        self._look_for_fence(error)
        outcome = errors.failed(error)
        known = outcome.error if isinstance(outcome, Rejected) else None
        self._transaction.fail(known or self._twin or errors.unreachable())

    def _look_for_fence(self, error: KafkaError) -> None:
        if error.code() in _FENCED:
            self._fenced = True
            self._pool.fenced()

    @property
    def _twin(self) -> AmqpError | None:
        """The reason of a rollback that Kafka has not even been asked for."""
        return AmqpError(TRANSACTION_ROLLBACK, _TWIN, fault=Fault.BACKEND) if self._fenced else None

    # -- the end

    def commit(self, then: Answer) -> None:
        """See `Branch`: commit when Kafka has all records."""
        self._then = then
        self._perhaps_commit()

    def _perhaps_commit(self) -> None:
        if self._then is None or not self._records.settled:
            return
        then, self._then = self._then, None
        self._pool.cluster.supervisor.start(self._commit(then), "kafka-transaction")

    async def _commit(self, then: Answer) -> None:
        try:
            error = await self._rolled_back() if self._missing else await self._send_offsets()
        except KafkaException as raised:
            error = await self._not_ready(errors.cause_of(raised))
        if error is None:
            try:
                await self._client.commit()
            except KafkaException as raised:
                error = await self._not_committed(errors.cause_of(raised))
        self._pool.give_back(self._client)
        then(error)

    async def _send_offsets(self) -> AmqpError | None:
        """Send the positions of the termini, unless one of them has another link now; returns why not."""
        parts: list[TerminusPart] = []
        for terminus, (topic, retired) in self._retired.items():
            if not retired.open:
                return await self._displaced()
            positions = retired.positions()
            for part in terminus.parts:
                if at := {each: positions[each] for each in part.positions() if each in positions}:
                    if not await self._named(part):
                        return await self._displaced()
                    await self._client.send_offsets(part.transaction_group, topic, at)
                    parts.append(part)
        held = all([await each.holds() for each in parts])
        return None if held else await self._displaced()

    async def _named(self, part: TerminusPart) -> bool:
        """Let the record name the client, so that others can abort its transaction; whether this link still has it."""
        if part.transaction_writer == self._client.identifier:
            return True
        part.transaction_group = part.transaction_group or new_group(part.request.group)
        part.transaction_writer = self._client.identifier
        return await part.holds()

    async def _displaced(self) -> AmqpError:
        await self._abort()
        text = "a link of the transaction has ended, or another one has taken over its position"
        return AmqpError(TRANSACTION_ROLLBACK, text)

    async def _rolled_back(self) -> AmqpError:
        await self._abort()
        return AmqpError(TRANSACTION_ROLLBACK, "Kafka takes messages too slowly", fault=Fault.BACKEND)

    async def _not_ready(self, error: KafkaError) -> AmqpError:
        """Kafka has not taken the positions, so nothing is committed."""
        return await self._undone(error, "Kafka did not take the positions of the transaction")

    async def _not_committed(self, error: KafkaError) -> AmqpError:
        """Why the transaction was not committed; or that nobody knows whether it was."""
        if error.txn_requires_abort() or error.fatal():
            return await self._undone(error, "Kafka could not commit the transaction")
        log.warning("kafka transaction perhaps not committed", cluster=self._pool.cluster.name, reason=error.str())
        self._client.fatal = True
        text = "Kafka did not say in time whether the transaction is committed"
        return AmqpError(INTERNAL_ERROR, text, fault=Fault.BACKEND)

    async def _undone(self, error: KafkaError, text: str) -> AmqpError:
        log.warning("kafka transaction not committed", cluster=self._pool.cluster.name, reason=error.str())
        self._failed(error)
        await self._abort()
        return self._twin or AmqpError(TRANSACTION_ROLLBACK, text, fault=Fault.BACKEND)

    def roll_back(self, then: Answer) -> None:
        """See `Branch`."""
        self._pool.cluster.supervisor.start(self._roll_back(then), "kafka-transaction")

    async def _roll_back(self, then: Answer) -> None:
        self._records.release_waiting()
        await self._begun.wait()
        # A client that aborts before Kafka knows of records is lost.
        await until(lambda: not self._records.in_flight, _SENT)
        await self._abort()
        self._pool.give_back(self._client)
        then(self._twin)

    async def _abort(self) -> None:
        try:
            await self._client.abort()
        except KafkaException as error:
            cause = errors.cause_of(error)
            log.warning("kafka transaction left to its time-out", reason=cause.str())
            self._client.fatal = True
            self._look_for_fence(cause)  # reports of records do not say so
