"""What a copy of a topic needs beside its records: its settings, and the positions of consumer groups; blocking.

Raises `AmqpError` with a description for users. Positions are read and committed by a client of each group, which
subscribes to nothing: librdkafka's admin requests for groups may end the process (bridges.kafka.admin.offset_mirror).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final, NamedTuple, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # not in its __all__
    AdminClient,
    ConfigResource,
    ConfigSource,
    NewTopic,
    ResourceType,
)

from bridges.kafka.admin.offset_mirror import Mirror
from bridges.kafka.common import errors
from bridges.kafka.common.librdkafka import ClientSettings
from gateway.errors import INTERNAL_ERROR, AmqpError

_TIMEOUT: Final = 10.0
_READING: Final[ClientSettings] = {
    "enable.auto.commit": False,
    "log_level": 0,
    # Otherwise, Kafka does not tell positions while a transaction that changes them is open. Those of the last one that
    # was committed are told in either case.
    "isolation.level": "read_uncommitted",
}
T = TypeVar("T")
Positions = Mapping[int, int]
"""The next offset of a group, by partition."""


class TopicSettings(NamedTuple):
    """How a topic is made; `settings` are those that differ from the cluster's defaults."""

    partitions: int
    replication: int
    settings: Mapping[str, str]


class TopicCopy:
    """Reads from one cluster, or writes to it."""

    def __init__(self, settings: ClientSettings) -> None:
        self._settings: Final = dict(settings)
        self._bootstrap: Final = settings["bootstrap.servers"]
        with errors.making_client(self._bootstrap):
            self._client: Final = AdminClient({"log_level": 0, **settings})

    def settings(self, topic: str) -> TopicSettings:
        """Partitions, replicas and settings of a topic."""
        return self._ask(topic, lambda: self._read(topic))

    def _read(self, topic: str) -> TopicSettings:
        found = self._client.list_topics(topic, timeout=_TIMEOUT).topics[topic]
        if found.error is not None:
            raise KafkaException(found.error)
        resource = ConfigResource(ResourceType.TOPIC, topic)
        entries = self._client.describe_configs([resource], request_timeout=_TIMEOUT)[resource].result(_TIMEOUT + 1)
        own = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
        changed = {name: str(each.value) for name, each in sorted(entries.items()) if each.source == own}
        replicas = min((len(each.replicas) for each in found.partitions.values()), default=1)
        return TopicSettings(len(found.partitions), replicas, changed)

    def create(self, topic: str, like: TopicSettings) -> bool:
        """Create a topic; false if it is there."""
        new = NewTopic(topic, like.partitions, like.replication, config=dict(like.settings))

        def made() -> bool:
            try:
                self._client.create_topics([new], request_timeout=_TIMEOUT)[topic].result(_TIMEOUT + 1)
            except KafkaException as error:
                if errors.cause_of(error).code() == KafkaError.TOPIC_ALREADY_EXISTS:
                    return False
                raise
            return True

        return self._ask(topic, made)

    def groups(self, patterns: Sequence[str]) -> list[str]:
        """The consumer groups whose names match one of these patterns (`*`, `?`, `[…]`)."""
        names = sorted(self._ask("", self._listed))
        return [name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns)]

    def _listed(self) -> list[str]:
        found = self._client.list_consumer_groups(request_timeout=_TIMEOUT).result(_TIMEOUT + 1)
        for error in found.errors or ():  # of one broker, whose groups are not among those found
            raise error
        return [each.group_id for each in found.valid or ()]

    def positions(self, group: str, topic: str, partitions: Iterable[int]) -> Positions:
        """Where a group continues; without partitions of which it has no position."""
        wanted = [TopicPartition(topic, each) for each in partitions]

        def committed() -> list[TopicPartition]:
            client = Consumer({**self._settings, **_READING, "group.id": group})
            try:
                found = client.committed(wanted, timeout=_TIMEOUT)
            finally:
                client.close()
            for each in found:
                if each.error is not None:
                    raise KafkaException(each.error)
            return found

        found = self._ask(topic, committed, f" of the group {group}")
        return {each.partition: each.offset for each in found if each.offset >= 0}

    def commit(self, group: str, topic: str, positions: Positions) -> None:
        """Commit positions of a group that has no members."""
        mirror = Mirror({"log_level": 0, **self._settings})
        try:
            self._ask(topic, lambda: mirror.commit(group, topic, positions), f" of the group {group}")
        finally:
            mirror.close()

    def _ask(self, topic: str, query: Callable[[], T], about: str = "") -> T:
        try:
            return query()
        except KafkaException as error:
            what = f"topic {topic}{about}" if topic else "consumer groups"
            text = f"Kafka at {self._bootstrap}, {what}: {errors.cause_of(error).str()}"
            raise AmqpError(INTERNAL_ERROR, text) from None
        except TimeoutError:
            raise AmqpError(INTERNAL_ERROR, f"Kafka at {self._bootstrap} does not answer") from None
