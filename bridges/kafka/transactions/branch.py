"""The part of a Kafka cluster in one AMQP transaction (`gateway.amqp.link.transactions.Branch`; KM-14)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import structlog
from confluent_kafka import KafkaError, KafkaException

from bridges.kafka.common import errors
from bridges.kafka.produce.client import Header
from bridges.kafka.transactions.client import TransactionalClient
from bridges.kafka.transactions.offsets import EventProgress, RetiredEvents, new_group
from gateway.amqp.link.outcomes import Rejected
from gateway.errors import INTERNAL_ERROR, RESOURCE_LIMIT_EXCEEDED, TRANSACTION_ROLLBACK, AmqpError, Fault
from gateway.tasks import until

if TYPE_CHECKING:
    from bridges.kafka.clusters.cluster import Cluster
    from bridges.kafka.common.counters import ClusterCounters
    from gateway.amqp.link.transactions import Answer, Enlisting, PostedMessage, Retirement

_SENT: Final = 5.0
"""Seconds that a rollback waits for reports of records."""
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


class _PostedRecord(NamedTuple):
    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: list[Header] | None
    post: PostedMessage


class KafkaBranch:
    """The records and offsets of one transaction; everything here runs on the loop."""

    def __init__(self, pool: ClientPool, transaction: Enlisting, client: TransactionalClient) -> None:
        self._pool: Final = pool
        self._transaction: Final = transaction
        self._client: Final = client
        self._waiting: list[_PostedRecord] = []
        """Records that came before the client has begun its transaction."""
        self._in_flight = 0
        self._retired: Final[dict[StoredPositions, tuple[str, RetiredEvents]]] = {}
        self._begun = asyncio.Event()
        self._then: Answer | None = None
        """Called after the commit that waits for reports."""
        pool.cluster.supervisor.start(self._begin(), "kafka-transaction")

    async def _begin(self) -> None:
        try:
            await self._client.begin()
        except KafkaException as error:
            self._failed(errors.cause_of(error))
        self._begun.set()
        waiting, self._waiting = self._waiting, []
        for record in waiting:
            self._put(record)
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
        record = _PostedRecord(topic, partition, key, value, headers, post)
        self._in_flight += 1
        if self._begun.is_set():
            self._put(record)
        else:
            self._waiting.append(record)

    def retire(self, terminus: StoredPositions, topic: str, retirement: Retirement) -> None:
        """An event of a terminus gets an outcome: its position is committed with the records."""
        if terminus not in self._retired:
            self._retired[terminus] = topic, RetiredEvents(terminus.progress)
        self._retired[terminus][1].add(retirement)

    def _put(self, record: _PostedRecord) -> None:
        post = record.post
        try:
            self._client.produce(*record[:5], self, post)
        except BufferError:
            self._refuse(post, AmqpError(RESOURCE_LIMIT_EXCEEDED, "Kafka takes messages too slowly; send it again"))
        except KafkaException as error:
            outcome = errors.refused(errors.cause_of(error))
            known = outcome.error if isinstance(outcome, Rejected) else None
            self._refuse(post, known or errors.unreachable())

    def _refuse(self, post: PostedMessage, error: AmqpError) -> None:
        self._in_flight -= 1
        post.refuse(error)
        self._perhaps_commit()

    # -- reports

    def on_written(self, contexts: list[PostedMessage]) -> None:
        """See `ProduceOwner`."""
        self._pool.counters.accepted += len(contexts)
        self._in_flight -= len(contexts)
        for post in contexts:
            post.accept()
        self._perhaps_commit()

    def on_failed(self, contexts: list[PostedMessage], error: KafkaError, *, keyed: bool, batch: int) -> None:
        """See `ProduceOwner`; Kafka commits no transaction that a record is missing from."""
        self._failed(error)
        self._in_flight -= len(contexts)
        for post in contexts:
            post.release()
        self._perhaps_commit()

    def _failed(self, error: KafkaError) -> None:
        outcome = errors.failed(error)
        known = outcome.error if isinstance(outcome, Rejected) else None
        self._transaction.fail(known or errors.unreachable())
        if error.code() in (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED):
            self._pool.fenced()

    # -- the end

    def commit(self, then: Answer) -> None:
        """See `Branch`: commit when Kafka has all records."""
        self._then = then
        self._perhaps_commit()

    def _perhaps_commit(self) -> None:
        if self._then is None or self._in_flight or not self._begun.is_set():
            return
        then, self._then = self._then, None
        self._pool.cluster.supervisor.start(self._commit(then), "kafka-transaction")

    async def _commit(self, then: Answer) -> None:
        error: AmqpError | None = None
        try:
            if (error := await self._send_offsets()) is None:
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

    async def _not_committed(self, error: KafkaError) -> AmqpError:
        """Why the transaction was not committed; or that nobody knows whether it was."""
        log.warning("kafka transaction not committed", cluster=self._pool.cluster.name, reason=error.str())
        if not (error.txn_requires_abort() or error.fatal()):
            self._client.fatal = True
            text = "Kafka did not say in time whether the transaction is committed"
            return AmqpError(INTERNAL_ERROR, text, fault=Fault.BACKEND)
        self._failed(error)
        await self._abort()
        return AmqpError(TRANSACTION_ROLLBACK, "Kafka could not commit the transaction", fault=Fault.BACKEND)

    def roll_back(self, then: Answer) -> None:
        """See `Branch`."""
        self._pool.cluster.supervisor.start(self._roll_back(then), "kafka-transaction")

    async def _roll_back(self, then: Answer) -> None:
        waiting, self._waiting = self._waiting, []
        for record in waiting:
            record.post.release()
        await self._begun.wait()
        await until(lambda: not self._in_flight, _SENT)  # a client that aborts before Kafka knows of records is lost
        await self._abort()
        self._pool.give_back(self._client)
        then(None)

    async def _abort(self) -> None:
        try:
            await self._client.abort()
        except KafkaException as error:
            log.warning("kafka transaction left to its time-out", reason=errors.cause_of(error).str())
            self._client.fatal = True
