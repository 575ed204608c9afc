"""Adds the new partitions of a topic to the consumer groups that read it (KM-9)."""

from __future__ import annotations

from typing import Final

from bridges.kafka.admin.client import Topic
from bridges.kafka.clusters.cluster import Cluster
from gateway.state.leases.manager import Leases
from policies.model.scopes.assignment import Assignment


class TopicGrowthWatcher:
    """Adds partitions to the group of one link, from before its first claim to the end of the link."""

    def __init__(self, cluster: Cluster, topic: Topic, leases: Leases, key: str, rules: Assignment) -> None:
        self._cluster: Final = cluster
        self._topic: Final = topic.name
        self._leases: Final = leases
        self._key: Final = key
        self._rules: Final = rules
        self.gone = False
        """Whether the topic was deleted."""
        cluster.watch(topic, self)

    def topic_grew(self, topic: Topic) -> None:
        """See `TopicWatcher`."""
        among = self._rules.among(topic.partitions)
        change = self._leases.grow(self._key, topic.partitions, among)
        self._cluster.supervisor.start(change, f"group-grew:{self._topic}")

    def topic_gone(self) -> None:
        """See `TopicWatcher`; a link that is attached is notified by the cluster itself."""
        self.gone = True

    def end(self) -> None:
        """Stop watching: the link is over, or was refused."""
        self._cluster.unwatch(self._topic, self)
