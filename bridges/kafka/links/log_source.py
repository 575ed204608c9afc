"""The log of a node as receive links use it: the topic, checked against the policy, and how events are delivered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import structlog

from bridges.kafka.admin.client import Topic
from bridges.kafka.clusters.cluster import Cluster
from bridges.kafka.common.counters import ClusterCounters
from bridges.kafka.links.checkpointer import TerminusCheckpointer
from bridges.kafka.links.delivery_policy import DeliveryPolicy
from bridges.kafka.links.start_positions import StartPositions
from bridges.kafka.produce.dead_letters import DeadLetters
from bridges.kafka.produce.producer import ClusterProducer
from gateway.errors import PRECONDITION_FAILED, AmqpError
from policies.model.scopes.reading import LogReadingRule

log = structlog.get_logger(logger_name="kafka")


class LogSource:
    """A topic that links read by one rule of the policy."""

    def __init__(
        self,
        cluster: Cluster,
        producer: ClusterProducer,
        checkpointer: TerminusCheckpointer,
        counters: ClusterCounters,
        topic: str,
        rule: LogReadingRule,
        keys: Sequence[str],
    ) -> None:
        """`keys`: the sources of the record key, for dead letters (`key_from`)."""
        self.cluster: Final = cluster
        self.checkpointer: Final = checkpointer
        self.counters: Final = counters
        self.rule: Final = rule
        self.starts: Final = StartPositions(cluster, checkpointer, rule.isolation)
        self._producer: Final = producer
        self._topic: Final = topic
        self._keys: Final = keys

    async def topic(self) -> Topic:
        """The topic; raises AmqpError if it does not meet the policy (KM-3)."""
        topic = await self.cluster.topic(self._topic)
        if self.rule.strict_timestamps and not topic.append_time:
            text = "the event log stores producers' timestamps; strict_timestamps requires LogAppendTime"
            raise AmqpError(PRECONDITION_FAILED, text)
        return topic

    async def delivery_policy(self, topic: str, *, ordered: bool, annotated: bool) -> DeliveryPolicy:
        """How events are delivered on a link; `ordered`: its positions are stored."""
        rule = self.rule
        letters = None if rule.dead_letter is None else await self._dead_letters(topic, rule.dead_letter)
        strict = ordered if rule.strict_order is None else rule.strict_order
        return DeliveryPolicy(
            rule.max_redeliveries,
            strict,
            letters,
            rule.on_truncation == "detach",
            rule.drop_expired,
            annotated,
            rule.isolation,
        )

    async def _dead_letters(self, topic: str, to: str) -> DeadLetters:
        """The dead letters of a topic; if their topic is missing, that is logged now and not at the first rejection."""
        try:
            await self._producer.refresh_partitions(await self.cluster.topic(to))
        except AmqpError as error:
            log.warning("dead-letter topic cannot be used now", topic=topic, to=to, reason=error.description)
        return DeadLetters(self._producer, self.cluster.loop, self.counters, topic, to, keys=self._keys)
