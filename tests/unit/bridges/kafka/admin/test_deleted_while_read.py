"""A topic that is deleted while its records are read: its brokers may say nothing, which is not an outage."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from bridges.kafka.admin import offsets, records
from bridges.kafka.admin.offsets import Offsets
from bridges.kafka.admin.records import RecordReads
from bridges.kafka.consume import range_reader
from bridges.kafka.consume.poll import Failure, PollResult
from bridges.kafka.consume.range_reader import TopicRange, read_ranges
from gateway.errors import INTERNAL_ERROR, NOT_FOUND, AmqpError

SETTINGS = {"bootstrap.servers": "kafka:1"}
GONE = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)


class SilentClient:
    """A consumer and an admin client of brokers that send no record; `metadata`: their answer to questions."""

    def __init__(self, metadata: KafkaError | None, reported: KafkaError | None = None) -> None:
        self._metadata, self._reported = metadata, reported

    def assign(self, _: object) -> None: ...
    def close(self) -> None: ...
    def brokers(self) -> int:
        return 1

    def partitions(self, _: str) -> int:
        if self._metadata is not None:
            raise KafkaException(self._metadata)
        return 1

    def poll(self, _: float) -> Any:
        return None if self._reported is None else SimpleNamespace(error=lambda: self._reported)

    def list_topics(self, topic: str, timeout: float) -> Any:
        if self._metadata is not None and self._metadata.code() != GONE.code():
            raise KafkaException(self._metadata)
        return SimpleNamespace(topics={topic: SimpleNamespace(error=self._metadata)})


def single(client: SilentClient, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(records, "Consumer", lambda _: client)
    with RecordReads(SETTINGS) as reads:
        reads.read("orders", 0, 0, 1, 1)


def spans(client: SilentClient, patch: pytest.MonkeyPatch) -> None:
    def nothing(*_: object, **__: object) -> Iterator[Any]:
        raise TimeoutError
        yield

    patch.setattr(offsets, "Admin", lambda *_, **__: client)
    patch.setattr(offsets, "read_spans", nothing)
    Offsets(SETTINGS).holding("orders", [(0, 0, 1)])


def ranges(client: SilentClient, patch: pytest.MonkeyPatch) -> None:
    reported = client.poll(0)
    failures = [] if reported is None else [Failure(reported.error(), "orders", 0, 0)]
    patch.setattr(range_reader, "Consumer", lambda _: client)
    patch.setattr(range_reader, "poller_for", lambda *_: lambda *_: PollResult({}, failures))
    patch.setattr(range_reader, "_PATIENCE", -1.0)
    list(read_ranges(SETTINGS, [TopicRange("orders", 0, 0, 1)]))


Read = Callable[[SilentClient, pytest.MonkeyPatch], None]
readers = pytest.mark.parametrize("read", [single, spans, ranges])


def error_of(read: Read, client: SilentClient, patch: pytest.MonkeyPatch) -> AmqpError:
    with pytest.raises(AmqpError) as caught:
        read(client, patch)
    return caught.value


@readers
def test_metadata_are_asked_for_before_the_cluster_is_blamed(read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    error = error_of(read, SilentClient(GONE), monkeypatch)
    assert (error.condition, error.description) == (NOT_FOUND, "Kafka at kafka:1 has no topic orders")


@readers
@pytest.mark.parametrize("code", [None, KafkaError._TRANSPORT, KafkaError.LEADER_NOT_AVAILABLE])
def test_a_cluster_that_has_the_topic_or_says_nothing_does_not_answer(
    read: Read, code: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = error_of(read, SilentClient(None if code is None else KafkaError(code)), monkeypatch)
    assert error.condition == INTERNAL_ERROR
    assert error.description.startswith("Kafka at kafka:1 does not answer")


@pytest.mark.parametrize("read", [single, ranges])
def test_a_client_that_knows_it_already(read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    error = error_of(read, SilentClient(None, GONE), monkeypatch)
    assert (error.condition, error.description) == (NOT_FOUND, "Kafka at kafka:1 has no topic orders")
