"""A topic that is deleted while its offsets are asked for."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from bridges.kafka.admin import client
from bridges.kafka.admin.client import Admin
from bridges.kafka.common import errors
from gateway.errors import INTERNAL_ERROR, NOT_FOUND


class Brokers:
    """They know no leader of any partition."""

    def __init__(self, code: int, deleted: bool) -> None:
        self.code, self.deleted = code, deleted

    def list_offsets(self, requested: dict[Any, Any], **_: object) -> dict[Any, Future[object]]:
        answer: Future[object] = Future()
        answer.set_exception(KafkaException(KafkaError(self.code)))
        return dict.fromkeys(requested, answer)

    def list_topics(self, topic: str, **_: object) -> Any:
        error = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART) if self.deleted else None
        return SimpleNamespace(topics={topic: SimpleNamespace(error=error, partitions={0: None})})


@pytest.mark.parametrize("deleted", [True, False])
@pytest.mark.parametrize("code", [KafkaError.LEADER_NOT_AVAILABLE, KafkaError._UNKNOWN_PARTITION, KafkaError._NOENT])
def test_it_is_not_found(monkeypatch: pytest.MonkeyPatch, code: int, deleted: bool) -> None:
    """While it exists, Kafka does not answer yet."""
    monkeypatch.setattr(client, "_PAUSES", (0,))
    admin: Any = Admin.__new__(Admin)
    admin._client, admin._timeout = Brokers(code, deleted), 1.0
    for ask in (lambda: admin.bounds("topic", [0]), lambda: admin.first_since("topic", [0], 5)):
        with pytest.raises(KafkaException) as caught:
            ask()
        told = errors.link_error(errors.cause_of(caught.value))
        assert told.condition == (NOT_FOUND if deleted else INTERNAL_ERROR)
