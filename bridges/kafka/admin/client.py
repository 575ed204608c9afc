"""Blocking requests to a Kafka cluster (metadata, settings, offsets), made in worker threads."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from confluent_kafka import (
    OFFSET_INVALID,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # not in its __all__
    AdminClient,
    ConfigEntry,
    ConfigResource,
    OffsetSpec,
    ResourceType,
)

from bridges.kafka.common import errors
from bridges.kafka.common.librdkafka import ClientSettings

_MAX_MESSAGE_BYTES: Final = 1_048_588
"""Kafka's default `max.message.bytes`."""
_NOT_READY: Final = frozenset(
    {
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._NOENT,
    }
)
"""Errors for a short time after a topic was created or the leader of a partition changed; `_NOENT`: none is known."""
_SILENT: Final = frozenset({KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError.REQUEST_TIMED_OUT})
"""Kafka has not answered, which says nothing about what it would allow."""
_PAUSES: Final = (0.05, 0.1, 0.2, 0.4)
_ELAPSED: Final = re.compile(r" \(after \d+ms in state (?:\(s\)|[^)])*\)")
"""What librdkafka adds to an error: `(after 1ms in state CONNECT, 4 identical error(s) suppressed)`."""
_OAUTH_SETTINGS: Final = "sasl.oauthbearer."
"""The prefix of settings that make a client fetch a token as soon as it is created."""


_TOPIC_SETTINGS: Final = ("message.timestamp.type", "cleanup.policy", "max.message.bytes")


class Topic(NamedTuple):
    """A topic as last seen; `identity` is None where the cluster has no topic ids.

    `append_time`: whether the broker sets the timestamps (LogAppendTime); None where the cluster does not say.
    """

    name: str
    partitions: int
    identity: str | None = None
    max_bytes: int = _MAX_MESSAGE_BYTES
    append_time: bool | None = None
    compacted: bool = False


class Bounds(NamedTuple):
    """The offsets that a partition retains for a reader of committed records: [low, high)."""

    low: int
    high: int


def settings_error(settings: ClientSettings) -> str | None:
    """librdkafka's error for these settings and the files they name; None: they are valid. Nothing is connected."""
    checked = {name: value for name, value in settings.items() if not name.startswith(_OAUTH_SETTINGS)}
    try:
        AdminClient({**checked, "log_level": 0})
    except KafkaException as error:
        return errors.cause_of(error).str()
    return None


def _value(settings: Mapping[str, ConfigEntry], name: str) -> str | None:
    """The value of a setting; None: the broker does not return it, as some other implementations of Kafka."""
    setting = settings.get(name)
    return None if setting is None else setting.value


class Admin:
    """Blocking calls, each bounded by `timeout` seconds; errors are `KafkaException`."""

    def __init__(self, settings: ClientSettings, *, timeout: float, plain: bool) -> None:
        """`plain`: the embedded cluster, which has no topic ids, topic settings or lookup by time."""
        ours: ClientSettings = {"allow.auto.create.topics": False, "error_cb": self._on_error}
        self._client: Final = AdminClient({**settings, **ours})
        self._timeout: Final = timeout
        self._plain: Final = plain
        self._last_error = ""

    def _on_error(self, error: KafkaError) -> None:
        """Called from `poll`. That all brokers are down is ignored: the error of the last one says why."""
        if error.code() != KafkaError._ALL_BROKERS_DOWN:
            self._last_error = _ELAPSED.sub("", error.str())

    def brokers(self) -> int:
        """The number of brokers, as proof that the cluster answers; the error names the cause if it is known.

        A time-out alone would not tell a wrong password from a broken cable.
        """
        try:
            found = len(self._client.list_topics(timeout=self._timeout).brokers)
        except KafkaException as error:
            self._client.poll(0)  # calls `_on_error` with the cause, if librdkafka has reported it since
            if not self._last_error:
                raise
            raise KafkaException(KafkaError(errors.cause_of(error).code(), self._last_error)) from None
        self._last_error = ""
        return found

    def partitions(self, topic: str) -> int:
        """The number of partitions; raises for an unknown topic."""
        for pause in (*_PAUSES, 0):
            found = self._client.list_topics(topic, timeout=self._timeout).topics[topic]
            if found.error is None or found.error.code() != KafkaError.LEADER_NOT_AVAILABLE:
                break
            time.sleep(pause)
        if found.error is not None:
            raise KafkaException(found.error)
        return len(found.partitions)

    def topic(self, name: str) -> Topic:
        """The partitions, identity and settings of a topic."""
        partitions = self.partitions(name)
        if self._plain:
            return Topic(name, partitions)
        described = self._client.describe_topics(TopicCollection([name]), request_timeout=self._timeout)
        identity = str(described[name].result(self._timeout + 1).topic_id)
        return Topic(name, partitions, identity, *self._settings(name))

    def _settings(self, topic: str) -> tuple[int, bool | None, bool]:
        resource = ConfigResource(ResourceType.TOPIC, topic)
        try:
            answer = self._client.describe_configs([resource], request_timeout=self._timeout)
            found = answer[resource].result(self._timeout + 1)
        except KafkaException as error:  # reading settings takes a separate permission; use the defaults
            if errors.cause_of(error).code() in _SILENT:
                raise
            return _MAX_MESSAGE_BYTES, None, False
        timestamp_type, cleanup, max_bytes = (_value(found, name) for name in _TOPIC_SETTINGS)
        append_time = None if timestamp_type is None else timestamp_type == "LogAppendTime"
        return int(max_bytes or _MAX_MESSAGE_BYTES), append_time, "compact" in (cleanup or "")

    def bounds(self, topic: str, partitions: Iterable[int], *, committed: bool = True) -> dict[int, Bounds]:
        """Log start and last stable offset of each partition (KM-7); uncommitted: its high watermark."""
        wanted = tuple(partitions)
        low = self._offsets(topic, wanted, OffsetSpec.earliest)
        high = self._offsets(topic, wanted, OffsetSpec.latest, committed=committed)
        return {partition: Bounds(low[partition], high[partition]) for partition in wanted}

    def first_since(self, topic: str, partitions: Iterable[int], time_ms: int) -> dict[int, int]:
        """The first offset with a timestamp of at least `time_ms`; -1 where there is none."""
        return self._offsets(topic, partitions, lambda: OffsetSpec.for_timestamp(time_ms))

    def _offsets(
        self, topic: str, partitions: Iterable[int], spec: Callable[[], OffsetSpec], *, committed: bool = True
    ) -> dict[int, int]:
        wanted = tuple(partitions)
        for pause in _PAUSES:
            try:
                return self._list_offsets(topic, wanted, spec(), committed)
            except KafkaException as error:
                if errors.cause_of(error).code() not in _NOT_READY:
                    raise
            time.sleep(pause)
        try:
            return self._list_offsets(topic, wanted, spec(), committed)
        except KafkaException as error:
            if errors.cause_of(error).code() in _NOT_READY:
                self.partitions(topic)  # its error says so if the topic was deleted meanwhile
            raise

    def _list_offsets(
        self, topic: str, partitions: tuple[int, ...], spec: OffsetSpec, committed: bool
    ) -> dict[int, int]:
        requested = {TopicPartition(topic, partition): spec for partition in partitions}
        level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        answers = self._client.list_offsets(requested, isolation_level=level, request_timeout=self._timeout)
        found = {key.partition: answer.result(self._timeout + 1).offset for key, answer in answers.items()}
        if OFFSET_INVALID in found.values():  # librdkafka's result for a broker that did not answer in time
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, f"no offsets within {self._timeout:g} s"))
        return found
