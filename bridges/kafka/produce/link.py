"""A send link on an event log: transfers become records, delivery reports become outcomes (KM-15).

The credit given out is bound to what is in flight: at most `window` messages are neither reported nor
refused, so that a stall in Kafka becomes back-pressure at the peer. While Kafka is known to be away, one
more is released at once; its credit comes back a little later, lest peer and gateway spin.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any, Final

import structlog
from confluent_kafka import KafkaError, KafkaException

from bridges.kafka import errors, partitions
from bridges.kafka.admin.client import Topic
from bridges.kafka.cluster import Cluster
from bridges.kafka.counters import ClusterCounters
from bridges.kafka.produce.client import Came
from bridges.kafka.produce.producer import ClusterProducer
from bridges.kafka.records.fast_encode import plain_value
from bridges.kafka.records.mapping import RecordWriter
from bridges.kafka.topics import STALE
from gateway.amqp.link.handlers import BatchIncoming
from gateway.amqp.link.outcomes import ACCEPTED, FAILED, RELEASED, SETTLED, Outcome, Rejected
from gateway.amqp.message import sections
from gateway.errors import NOT_FOUND, PRECONDITION_FAILED, RESOURCE_DELETED, AmqpError
from gateway.nodes.reject import reject_delivery
from gateway.observability.redaction import redact

_ANY: Final = -1
_BREATH: Final = 0.1
log = structlog.get_logger(logger_name="kafka")


class LogSender(BatchIncoming):
    """Handler of one incoming link; everything here runs on the loop."""

    def __init__(
        self,
        link: Any,
        cluster: Cluster,
        producer: ClusterProducer,
        topic: Topic | str,
        writer: RecordWriter,
        shortcut: bool,
        counters: ClusterCounters,
        *,
        bound: int | None,
        window: int,
    ) -> None:
        """`topic` is a name only where Kafka could not be asked: transfers are released until it could."""
        self._link: Final = link
        self._cluster: Final = cluster
        self._producer: Final = producer
        self._name: Final = topic if isinstance(topic, str) else topic.name
        self._topic = None if isinstance(topic, str) else topic
        self._writer: Final = writer
        self._shortcut: Final = shortcut
        self._counters: Final = counters
        self._bound: Final = bound
        self._partition: Final = _ANY if bound is None else bound
        self._accept_all: Final = getattr(link, "accept_all", None)  # links that are no peer's own have no such
        self._window: Final = window
        self._step: Final = max(1, window // 10)
        self._free = 0
        self._losses = 0
        self._breathing = False
        self._asking = False

    def begin(self) -> None:
        """The attach is answered: let the peer send."""
        self._cluster.watch(self._topic or self._name, self)
        self._link.grant(self._window)

    # -- from the cluster

    def topic_grew(self, topic: Topic) -> None:
        """KM-9: more partitions may be named."""
        self._cluster.supervisor.start(self._learn(topic), f"kafka-topic:{self._name}")

    async def _learn(self, topic: Topic) -> None:
        await self._producer.learn(topic)
        self._topic = topic

    def topic_gone(self) -> None:
        """KM-18."""
        self._link.withdraw(AmqpError(RESOURCE_DELETED, "the event log behind this address was deleted"))

    # -- from the link

    def takes_batches(self) -> bool:
        """As `handlers.takes_batches`."""
        return True

    def on_transfers(self, messages: Sequence[Came]) -> None:
        """Several messages: those that are nothing but data go to Kafka in one call; an odd one may end the link."""
        at = 0
        while at < len(messages) and self._link.open:
            if self._shortcut and self._topic is not None and self._cluster.up:
                at = self._producer.produce_plain(self._name, self._partition, messages, at, self)
            if at < len(messages):
                self.on_transfer(*messages[at])
                at += 1

    def on_transfer(self, delivery: Any, data: bytes, settled: bool) -> None:
        """One message: hand it to Kafka, or say at once why not."""
        topic = self._topic
        if topic is None or not self._cluster.up:
            self._put_off(delivery, settled)
            return
        try:
            context = None if settled else delivery
            if self._shortcut and (plain := plain_value(data)) is not None:
                self._producer.produce(self._name, self._partition, None, plain, None, self, context)
            else:
                self._produce(topic, data, context)
        except AmqpError as error:
            self._reject(delivery, settled, error)
            return
        except BufferError:
            self._put_off(delivery, settled)
            return
        except KafkaException as error:
            self._finish(delivery, settled, errors.refused(error.args[0]))
            return
        if settled:
            self._link.settle(delivery, SETTLED)

    def _produce(self, topic: Topic, data: bytes, context: Any) -> None:
        layout, partition = sections.walk(data), self._partition
        if layout.da != layout.ma:
            partition = self._target(sections.delivery_annotations(data, layout), partition, topic)
        key, value, headers = self._writer.record(data, layout)
        self._producer.produce(self._name, partition, key, value, headers, self, context)

    def on_detach(self, error: AmqpError | None) -> None:
        """What is in flight goes on to Kafka; its outcomes have nowhere to go."""
        self._cluster.unwatch(self._name, self)

    def _target(self, annotations: dict[Any, Any], partition: int, topic: Topic) -> int:
        """ES 4.6.6: the partition a transfer asks for; the annotation itself is not stored."""
        if (wanted := annotations.get(partitions.TARGET)) is None:
            return partition
        target = partitions.number(wanted, topic.partitions, partitions.TARGET)
        if partition not in (_ANY, target):
            raise AmqpError(PRECONDITION_FAILED, f"this link is bound to partition {partition}")
        return target

    # -- outcomes

    def on_written(self, contexts: list[Any]) -> None:
        """Kafka has these: deliveries, None for what came settled."""
        self._counters.accepted += len(contexts)
        self._accept(contexts)
        self._free += len(contexts)
        if self._free >= self._step:
            self._grant()

    def _accept(self, deliveries: list[Any]) -> None:
        if None in deliveries:
            deliveries = [delivery for delivery in deliveries if delivery is not None]
        if self._accept_all is not None:
            self._accept_all(deliveries)
        else:
            for delivery in deliveries:
                self._link.settle(delivery, ACCEPTED)

    def on_failed(self, contexts: list[Any], error: KafkaError, *, keyed: bool, batch: int) -> None:
        """These are not written, or perhaps not."""
        if error.code() in errors.TOO_LARGE:
            undecided = self._too_large(contexts, error, batch)
            self._cluster.supervisor.start(undecided, f"kafka-limit:{self._name}")
        else:
            self._failed(contexts, errors.failed(error, keyed=keyed))

    async def _too_large(self, contexts: list[Any], error: KafkaError, batch: int) -> None:
        """Brokers refuse whole batches: where the topic takes less than it did, any of the records may be too large.

        So what the topic takes is asked anew. Where batches are small enough for it, a batch that was refused was one
        record, which is rejected. Else all may be sent again, in smaller ones.
        """
        outcome: Outcome = RELEASED
        with contextlib.suppress(AmqpError):
            await asyncio.sleep(STALE)  # what was seen before the refusal says nothing
            topic = await self._cluster.topic(self._name)
            await self._learn(topic)
            if self._cluster.up and self._producer.fits(batch, topic):
                outcome = errors.failed(error)
        self._failed(contexts, outcome)

    def _failed(self, contexts: list[Any], outcome: Outcome) -> None:
        for delivery in contexts:
            if delivery is not None:
                self._finish(delivery, False, outcome)
            else:
                self._lost(outcome)
                self._returned()

    def _finish(self, delivery: Any, settled: bool, outcome: Outcome) -> None:
        if settled:
            self._lost(outcome)
            self._link.settle(delivery, SETTLED)
        else:
            self._count(outcome)
            # A link that is gone has freed its deliveries: only `settle` knows that.
            if isinstance(outcome, Rejected) and outcome.error is not None and self._link.open:
                reject_delivery(self._link, delivery, outcome.error, settled=False)
            else:
                self._link.settle(delivery, outcome)
        self._returned()

    def _reject(self, delivery: Any, settled: bool, error: AmqpError) -> None:
        """A message that cannot be taken; where no outcome can be heard, the link ends (row ES-4.2-2)."""
        if settled:
            self._lost(Rejected(error))
        else:
            self._counters.rejected += 1
        reject_delivery(self._link, delivery, error, settled)
        self._returned()

    def _put_off(self, delivery: Any, settled: bool) -> None:
        """Kafka is away or its queue is full: certainly not written."""
        if settled:
            self._lost(RELEASED)
        else:
            self._counters.released += 1
        self._link.settle(delivery, SETTLED if settled else RELEASED)
        self._free += 1
        if not self._breathing:
            self._breathing = True
            self._cluster.loop.call_later(_BREATH, self._breathed)

    def _breathed(self) -> None:
        self._breathing = False
        self._grant()
        if self._topic is None and self._cluster.up and not self._asking and self._link.open:
            self._asking = True
            self._cluster.supervisor.start(self._find_topic(), f"kafka-topic:{self._name}")

    async def _find_topic(self) -> None:
        try:
            topic = await self._cluster.topic(self._name)
            if self._bound is not None and self._bound >= topic.partitions:
                raise AmqpError(NOT_FOUND, f"there is no partition {self._bound}")
            await self._learn(topic)
        except AmqpError as error:
            if self._cluster.up:
                self._link.detach(error)
        finally:
            self._asking = False

    def _count(self, outcome: Outcome) -> None:
        if outcome is RELEASED:
            self._counters.released += 1
        elif outcome is FAILED:
            self._counters.modified += 1
        else:
            self._counters.rejected += 1

    def _lost(self, outcome: Outcome) -> None:
        self._counters.presettled_failed += 1
        self._losses += 1
        if self._losses & (self._losses - 1) == 0:  # the 1st, 2nd, 4th, 8th…: an outage cannot flood the log
            lost = {"link": redact(self._link.name), "outcome": outcome.name, "lost": self._losses}
            log.warning("pre-settled message not in Kafka", topic=self._name, **lost)

    def _returned(self) -> None:
        self._free += 1
        if self._free >= self._step and not self._breathing:
            self._grant()

    def _grant(self) -> None:
        free, self._free = self._free, 0
        self._link.grant(free)
