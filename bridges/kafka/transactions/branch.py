"""The part of a Kafka cluster in one AMQP transaction (`gateway.amqp.link.transactions.Branch`; KM-14)."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Hashable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final, Protocol

import structlog
from confluent_kafka import KafkaError, KafkaException

from bridges.kafka.common import errors
from bridges.kafka.produce.client import Header
from bridges.kafka.transactions.client import TransactionalClient
from bridges.kafka.transactions.positions import StoredPositions, TransactionPositions
from bridges.kafka.transactions.records import PostedRecord, TransactionRecords
from bridges.kafka.transactions.turns import CommitTurns
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
_TURN: Final = 30.0
"""Seconds that a commit waits for earlier ones of its links, as for anything that can still be undone."""
_PROMPT: Final = 5.0
"""Seconds within which a commit that Kafka refuses for good was sent once."""
_TWIN: Final = (
    "another process has taken over the transactional.id of the transaction, so Kafka has aborted it: repeat it"
)
_TAKEN: Final = "another link has taken over a position of the transaction, for which Kafka has aborted it: repeat it"
log = structlog.get_logger(logger_name="kafka")


class ClientPool(Protocol):
    """What a branch uses of the clients of its cluster (`pool.TransactionalClients`)."""

    @property
    def cluster(self) -> Cluster: ...
    @property
    def counters(self) -> ClusterCounters: ...
    @property
    def turns(self) -> CommitTurns: ...
    def give_back(self, client: TransactionalClient) -> None:
        """The transaction is over."""

    def fenced(self) -> None:
        """Another process uses the same identifiers, and is not known to have taken over a position."""


class KafkaBranch:
    """The records and offsets of one transaction; everything here runs on the loop."""

    def __init__(self, pool: ClientPool, transaction: Enlisting, client: TransactionalClient) -> None:
        self._pool: Final = pool
        self._transaction: Final = transaction
        self._client: Final = client
        self._records: Final = TransactionRecords(client, pool.cluster.loop, self._refuse)
        self._unbegun = self._failure = self._missing = self._fenced = False
        """Whether Kafka has not begun the transaction; whether a record was not written; whether a message was refused
        when its commit was already under way; whether another process has taken over the client's transactional.id."""
        self._positions: Final = TransactionPositions(client)
        self._begun = asyncio.Event()
        self._then: Answer | None = None
        """Called after the commit that waits for reports."""
        if not (client.initialised and self._begins()):
            pool.cluster.supervisor.start(self._begin(), "kafka-transaction")

    def _begins(self) -> bool:
        """Begin at once: the first records are on their way while later messages of the same read are looked at."""
        try:
            self._client.begin(self)
        except KafkaException:
            return False  # it fails again, when the transaction knows of this branch
        self._begun.set()
        self._records.begin()
        return True

    async def _begin(self) -> None:
        try:
            await self._client.initialise()
            self._client.begin(self)
        except KafkaException as error:
            self._unbegun = True
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
        self._positions.add(terminus, topic, retirement)

    def _refuse(self, post: PostedMessage, error: AmqpError) -> None:
        """librdkafka does not take a message; if that has waited, a commit that came meanwhile must not succeed."""
        self._missing = self._missing or self._then is not None
        post.refuse(error)

    def link_ended(self) -> None:
        """The link of some messages has ended, which may wait here."""
        self._records.keep()

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
        links = self._positions.links
        async with AsyncExitStack() as turn:
            if links and not await self._has_turn(turn, links):
                error: AmqpError | None = await self._rolled_back("Kafka does not answer an earlier commit of a link")
            else:
                error = await self._committed()
            self._pool.give_back(self._client)
            then(error)
            await self._outcomes_given()  # the next commit for one of these links must know which events are done

    async def _outcomes_given(self) -> None:
        given = asyncio.Event()
        self._transaction.when_done(given.set)
        await given.wait()

    async def _has_turn(self, turn: AsyncExitStack, links: Collection[Hashable]) -> bool:
        try:
            async with asyncio.timeout(_TURN):
                await turn.enter_async_context(self._pool.turns.turn(links))
        except TimeoutError:
            return False
        return True

    async def _committed(self) -> AmqpError | None:
        """Commit; returns why that was not possible."""
        if self._unbegun:  # its discharge came before that was known
            unbegun = await self._rolled_back("Kafka did not begin the transaction")
            return self._twin or unbegun
        try:
            missing = "Kafka takes messages too slowly"
            error = await self._rolled_back(missing) if self._missing else await self._positions_sent()
        except KafkaException as raised:
            return await self._undone(errors.cause_of(raised), "Kafka did not take the positions of the transaction")
        if error is None:
            begun = self._pool.cluster.loop.time()
            try:
                await self._client.commit()
            except KafkaException as raised:
                late = self._pool.cluster.loop.time() - begun > _PROMPT
                error = await self._not_committed(errors.cause_of(raised), late)
        return error

    async def _positions_sent(self) -> AmqpError | None:
        """Make the positions a part of the Kafka transaction; returns why it is rolled back instead."""
        if (error := await self._positions.send()) is not None:
            await self._abort(taken=True)
        return error

    async def _rolled_back(self, text: str) -> AmqpError:
        await self._abort()
        return AmqpError(TRANSACTION_ROLLBACK, text, fault=Fault.BACKEND)

    async def _not_committed(self, error: KafkaError, late: bool) -> AmqpError:
        """Why the transaction was not committed; or that nobody knows whether it was.

        A fatal answer that is `late` may be about a commit that librdkafka has sent again, and Kafka done before.
        """
        if error.txn_requires_abort() or (error.fatal() and not late):
            return await self._undone(error, "Kafka could not commit the transaction")
        log.warning("kafka transaction perhaps not committed", cluster=self._pool.cluster.name, reason=error.str())
        self._client.fatal = True
        self._pool.cluster.supervisor.attempt(self._positions.in_doubt, "kafka-transaction")
        text = "Kafka did not say in time whether the transaction is committed"
        return AmqpError(INTERNAL_ERROR, text, fault=Fault.BACKEND)

    async def _undone(self, error: KafkaError, text: str) -> AmqpError:
        """Nothing is committed. If the client is fenced off, the records of positions say whether for another link."""
        log.warning("kafka transaction not committed", cluster=self._pool.cluster.name, reason=error.str())
        if taken := error.code() in _FENCED and await self._positions.taken():
            text = _TAKEN
        else:
            self._failed(error)
        await self._abort(taken=taken)
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

    async def _abort(self, *, taken: bool = False) -> None:
        """Abort; `taken`: if another process has fenced off the client, that was for a position of the transaction."""
        try:
            await self._client.abort()
        except KafkaException as error:
            cause = errors.cause_of(error)
            log.warning("kafka transaction left to its time-out", reason=cause.str())
            self._client.fatal = True
            if not taken:
                self._look_for_fence(cause)  # reports of records do not say so
