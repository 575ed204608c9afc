"""A send link on an event log: transfers become records, delivery reports become outcomes (KM-15).

At most `window` messages are in flight without a report, so that a stall of Kafka becomes back-pressure for the peer.
While Kafka is unreachable, messages are released at once; their credit is granted again a little later, so that peer
and gateway do not loop.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from typing import Final

import structlog
from confluent_kafka import KafkaError, KafkaException

from bridges.kafka.admin.client import Topic
from bridges.kafka.clusters.cluster import Cluster
from bridges.kafka.clusters.topics import STALE
from bridges.kafka.common import errors, partitions
from bridges.kafka.common.counters import ClusterCounters
from bridges.kafka.produce.client import Header, ReportContext
from bridges.kafka.produce.producer import ClusterProducer
from bridges.kafka.records.fast_encode import plain_value
from bridges.kafka.records.mapping import RecordWriter
from bridges.kafka.transactions.pool import TransactionalClients
from gateway.amqp.codec.types import Value
from gateway.amqp.link.handlers import BatchIncoming, Delivery, Transfer
from gateway.amqp.link.outcomes import ACCEPTED, FAILED, RELEASED, SETTLED, Outcome, Rejected
from gateway.amqp.link.transactions import PostedMessage, PostedMessages
from gateway.amqp.message import sections
from gateway.errors import NOT_FOUND, NOT_IMPLEMENTED, PRECONDITION_FAILED, RESOURCE_DELETED, AmqpError
from gateway.links.link import IncomingLink
from gateway.links.reject import reject_delivery
from gateway.observability.redaction import redact

_ANY: Final = -1
_KEY: Final = b"-key"
"""Part of both annotations that become a key."""
_PAUSE: Final = 0.1
"""Seconds before the credit of released messages is granted again."""
log = structlog.get_logger(logger_name="kafka")


class LogSender(BatchIncoming):
    """Handler of one incoming link; everything here runs on the loop."""

    def __init__(
        self,
        link: IncomingLink,
        cluster: Cluster,
        producer: ClusterProducer,
        topic: Topic | str,
        writer: RecordWriter,
        shortcut: bool,
        counters: ClusterCounters,
        *,
        bound: int | None,
        window: int,
        transactions: TransactionalClients | None = None,
    ) -> None:
        """`topic` is a name if Kafka was unreachable: transfers are released until the topic is known.

        `bound`: the partition that the link is bound to; None: any. `window`: credit, in messages.
        """
        self._link: Final = link
        self._cluster: Final = cluster
        self._producer: Final = producer
        self._name: Final = topic if isinstance(topic, str) else topic.name
        self._topic = None if isinstance(topic, str) else topic
        self._writer: Final = writer
        self._shortcut: Final = shortcut
        self._rules: Final = None if isinstance(topic, str) else writer.rules  # the topic may turn out to be compacted
        self._counters: Final = counters
        self._bound: Final = bound
        self._partition: Final = _ANY if bound is None else bound
        self._accept_all: Final = getattr(link, "accept_all", None)  # links inside the gateway do not have it
        self._window: Final = window
        self._transactions: Final = transactions
        self._least_grant: Final = max(1, window // 10)
        self._unused_credit = 0
        self._losses = 0
        self._pausing = False
        self._finding_topic = False

    def begin(self) -> None:
        """Grant credit; called when the attach is answered."""
        self._cluster.watch(self._topic or self._name, self)
        self._link.grant(self._window)

    # -- from the cluster

    def topic_grew(self, topic: Topic) -> None:
        """KM-9: transfers may now name the new partitions."""
        self._cluster.supervisor.start(self._update_topic(topic), f"kafka-topic:{self._name}")

    async def _update_topic(self, topic: Topic) -> None:
        await self._producer.refresh_partitions(topic)
        self._topic = topic

    def topic_gone(self) -> None:
        """KM-18."""
        self._link.withdraw(AmqpError(RESOURCE_DELETED, "the event log behind this address was deleted"))

    # -- from the link

    def takes_batches(self) -> bool:
        """See `handlers.BatchIncoming`."""
        return True

    def on_transfers(self, messages: Sequence[Transfer]) -> None:
        """Several messages: runs of usual ones go to Kafka in one call each. Any other may end the link."""
        at, rules = 0, self._rules
        partition = self._partition if self._together is None else self._common_partition(messages)
        while at < len(messages) and self._link.open:
            if rules is not None and partition is not None and self._topic is not None and self._cluster.up:
                at = self._producer.produce_messages(self._name, partition, messages, at, self, rules)
            if at < len(messages):
                self.on_transfer(*messages[at])
                at += 1

    @property
    def _together(self) -> int | None:
        """What messages have in common that go to one partition (`gateway.links.wrapped_link`)."""
        return getattr(self._link, "together", None) if self._bound is None else None

    def _common_partition(self, messages: Sequence[Transfer]) -> int | None:
        """The partition of messages that belong together; None: some may have a key, which is looked for one by one."""
        if any(_KEY in data for _, data, _ in messages):
            return None
        return self._place()

    def _place(self) -> int:
        """The partition of a message that has no key and names none."""
        if self._topic is None or (common := self._together) is None:
            return self._partition
        return common % self._topic.partitions

    def on_transfer(self, delivery: Delivery, data: bytes, settled: bool) -> None:
        """One message: produce it, or settle it at once with an error."""
        topic = self._topic
        if topic is None or not self._cluster.up:
            self._release(delivery, settled)
            return
        try:
            context = None if settled else delivery
            if self._shortcut and (plain := plain_value(data)) is not None:
                self._producer.produce(self._name, self._place(), None, plain, None, self, context)
            else:
                self._producer.produce(self._name, *self._record(topic, data), self, context)
        except AmqpError as error:
            self._reject(delivery, settled, error)
            return
        except BufferError:
            self._release(delivery, settled)
            return
        except KafkaException as error:
            self._finish(delivery, settled, errors.refused(error.args[0]))
            return
        if settled:
            self._link.settle(delivery, SETTLED)

    def on_post(self, post: PostedMessage, data: bytes) -> None:
        """A message in a transaction becomes a record in one of Kafka's (KM-14)."""
        topic = self._topic
        if topic is None or not self._cluster.up:
            raise errors.unreachable()
        if self._transactions is None:
            raise AmqpError(NOT_IMPLEMENTED, "the gateway's own links have no transactions")
        plain = plain_value(data) if self._shortcut else None
        record = self._record(topic, data) if plain is None else (self._partition, None, plain, None)
        branch = post.transaction.enlist(self._transactions)
        branch.produce(self._name, *record, post)

    def on_posts(self, posts: PostedMessages) -> None:
        """Several messages in a transaction: runs of usual ones go to Kafka in one call each. Any may end the link."""
        at, more = 0, True
        while at < len(posts.messages) and more:
            at = self._post_run(posts, at)
            if at < len(posts.messages):
                more = posts.post(at, self.on_post)
                at += 1

    def _post_run(self, posts: PostedMessages, at: int) -> int:
        """Post usual messages together if their transaction already works on this cluster; returns the next one."""
        rules = self._rules
        if self._transactions is None or rules is None or self._topic is None or not self._cluster.up:
            return at
        branch = posts.transaction.enlisted(self._transactions)
        return at if branch is None else branch.produce_messages(self._name, self._partition, posts, at, rules)

    def _record(self, topic: Topic, data: bytes) -> tuple[int, bytes | None, bytes | None, list[Header] | None]:
        """Partition, key, value and headers; raises AmqpError for a message that the topic does not take."""
        layout, partition = sections.walk(data), self._partition
        if layout.da != layout.ma:
            partition = self._target(sections.delivery_annotations(data, layout), partition, topic)
        key, value, headers = self._writer.record(data, layout)
        return self._place() if key is None and partition == _ANY else partition, key, value, headers

    def on_detach(self, error: AmqpError | None) -> None:
        """The link is over; records in flight are still written, and their outcomes are dropped."""
        self._cluster.unwatch(self._name, self)
        if self._transactions is not None:
            self._transactions.link_ended()

    def _target(self, annotations: Mapping[Value, Value], partition: int, topic: Topic) -> int:
        """ES 4.6.6: the partition that a transfer names; the annotation itself is not stored."""
        if (requested := annotations.get(partitions.TARGET)) is None:
            return partition
        target = partitions.number(requested, topic.partitions, partitions.TARGET)
        if partition not in (_ANY, target):
            raise AmqpError(PRECONDITION_FAILED, f"this link is bound to partition {partition}")
        return target

    # -- outcomes

    def on_written(self, contexts: list[ReportContext]) -> None:
        """Kafka has written the records; contexts are deliveries, or None for pre-settled messages."""
        self._counters.accepted += len(contexts)
        self._accept(contexts)
        self._unused_credit += len(contexts)
        if self._unused_credit >= self._least_grant:
            self._grant()

    def _accept(self, deliveries: list[ReportContext]) -> None:
        if None in deliveries:
            deliveries = [delivery for delivery in deliveries if delivery is not None]
        if self._accept_all is not None:
            self._accept_all(deliveries)
        else:
            for delivery in deliveries:
                self._link.settle(delivery, ACCEPTED)

    def on_failed(self, contexts: list[ReportContext], error: KafkaError, *, keyed: bool, batch: int) -> None:
        """The records were not written, or perhaps not."""
        if error.code() in errors.TOO_LARGE:
            self._cluster.supervisor.start(self._too_large(contexts, error, batch), f"kafka-limit:{self._name}")
        else:
            self._failed(contexts, errors.failed(error, keyed=keyed))

    async def _too_large(self, contexts: list[ReportContext], error: KafkaError, batch: int) -> None:
        """A broker has refused a batch as too large: if the topic's limit was lowered, its records may be small enough.

        So Kafka is asked for the limit again. If batches are within it, a refused batch had a single record, which is
        rejected. Otherwise the records are released, to be sent again in smaller batches.
        """
        outcome: Outcome = RELEASED
        with contextlib.suppress(AmqpError):
            await asyncio.sleep(STALE)  # what was seen before the refusal may be outdated
            topic = await self._cluster.topic(self._name)
            await self._update_topic(topic)
            if self._cluster.up and self._producer.fits(batch, topic):
                outcome = errors.failed(error)
        self._failed(contexts, outcome)

    def _failed(self, contexts: list[ReportContext], outcome: Outcome) -> None:
        for delivery in contexts:
            if delivery is not None:
                self._finish(delivery, False, outcome)
            else:
                self._count_loss(outcome)
                self._return_credit()

    def _finish(self, delivery: Delivery, settled: bool, outcome: Outcome) -> None:
        if settled:
            self._count_loss(outcome)
            self._link.settle(delivery, SETTLED)
        else:
            self._count(outcome)
            # A detached link has freed its deliveries, which `settle` ignores.
            if isinstance(outcome, Rejected) and outcome.error is not None and self._link.open:
                reject_delivery(self._link, delivery, outcome.error, settled=False)
            else:
                self._link.settle(delivery, outcome)
        self._return_credit()

    def _reject(self, delivery: Delivery, settled: bool, error: AmqpError) -> None:
        """Reject a message; if it is pre-settled or the peer does not support `rejected`, the link ends (ES-4.2-2)."""
        if settled:
            self._count_loss(Rejected(error))
        else:
            self._counters.rejected += 1
        reject_delivery(self._link, delivery, error, settled)
        self._return_credit()

    def _release(self, delivery: Delivery, settled: bool) -> None:
        """Release a message, which is certainly not written: Kafka is unreachable, or the queue is full."""
        if settled:
            self._count_loss(RELEASED)
        else:
            self._counters.released += 1
        self._link.settle(delivery, SETTLED if settled else RELEASED)
        self._unused_credit += 1
        if not self._pausing:
            self._pausing = True
            self._cluster.loop.call_later(_PAUSE, self._pause_over)

    def _pause_over(self) -> None:
        self._pausing = False
        self._grant()
        if self._topic is None and self._cluster.up and not self._finding_topic and self._link.open:
            self._finding_topic = True
            self._cluster.supervisor.start(self._find_topic(), f"kafka-topic:{self._name}")

    async def _find_topic(self) -> None:
        try:
            topic = await self._cluster.topic(self._name)
            if self._bound is not None and self._bound >= topic.partitions:
                raise AmqpError(NOT_FOUND, f"there is no partition {self._bound}")
            await self._update_topic(topic)
        except AmqpError as error:
            if self._cluster.up:
                self._link.detach(error)
        finally:
            self._finding_topic = False

    def _count(self, outcome: Outcome) -> None:
        if outcome is RELEASED:
            self._counters.released += 1
        elif outcome is FAILED:
            self._counters.modified += 1
        else:
            self._counters.rejected += 1

    def _count_loss(self, outcome: Outcome) -> None:
        self._counters.presettled_failed += 1
        self._losses += 1
        if self._losses & (self._losses - 1) == 0:  # the 1st, 2nd, 4th, 8th…: an outage cannot flood the log
            lost = {"link": redact(self._link.name), "outcome": outcome.name, "lost": self._losses}
            log.warning("pre-settled message not written to Kafka", topic=self._name, **lost)

    def _return_credit(self) -> None:
        self._unused_credit += 1
        if self._unused_credit >= self._least_grant and not self._pausing:
            self._grant()

    def _grant(self) -> None:
        credit, self._unused_credit = self._unused_credit, 0
        self._link.grant(credit)
