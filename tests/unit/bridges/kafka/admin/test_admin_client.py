"""What is asked of a Kafka cluster's administration, where brokers of other makes answer less (B6)."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any, NamedTuple

import pytest
from confluent_kafka import KafkaError, KafkaException

from bridges.kafka.admin.client import Admin


class Setting(NamedTuple):
    """A topic's setting as the Kafka client shows it."""

    value: str | None


class Broker:
    """Answers with these settings for every topic."""

    def __init__(self, **settings: str | None) -> None:
        self.settings = {name.replace("_", "."): Setting(value) for name, value in settings.items()}

    def describe_configs(self, resources: list[Any], **_: Any) -> dict[Any, Future[Any]]:
        future: Future[Any] = Future()
        future.set_result(self.settings)
        return {resources[0]: future}


class Refusing:
    """Answers with an error."""

    def __init__(self, code: int) -> None:
        self.code = code

    def describe_configs(self, resources: list[Any], **_: Any) -> dict[Any, Future[Any]]:
        future: Future[Any] = Future()
        future.set_exception(KafkaException(KafkaError(self.code)))
        return {resources[0]: future}


def settings_of(client: Any) -> tuple[Any, ...]:
    """What is made of a client's answer."""
    admin = Admin({"bootstrap.servers": "127.0.0.1:1", "log_level": 0}, timeout=1, plain=False)
    admin._client = client  # type: ignore[misc]
    return admin._settings("topic")


def test_who_may_not_read_settings_uses_their_defaults() -> None:
    assert settings_of(Refusing(KafkaError.TOPIC_AUTHORIZATION_FAILED)) == (1_048_588, None, False)


@pytest.mark.parametrize("code", [KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError.REQUEST_TIMED_OUT])
def test_settings_are_not_guessed_while_kafka_is_silent(code: int) -> None:
    with pytest.raises(KafkaException):
        settings_of(Refusing(code))


@pytest.mark.parametrize(
    ("reported", "expected"),
    [
        ({}, (1_048_588, None, False)),
        ({"max_message_bytes": "7"}, (7, None, False)),
        ({"max_message_bytes": None, "cleanup_policy": None, "message_timestamp_type": None}, (1_048_588, None, False)),
        ({"cleanup_policy": "compact,delete", "message_timestamp_type": "CreateTime"}, (1_048_588, False, True)),
        ({"message_timestamp_type": "LogAppendTime"}, (1_048_588, True, False)),
    ],
)
def test_a_setting_that_is_not_told_has_its_default(reported: dict[str, str | None], expected: tuple[Any, ...]) -> None:
    assert settings_of(Broker(**reported)) == expected


class Away:
    """A client that reports an error of a connection, and gets no answer."""

    def __init__(self, admin: Admin, text: str) -> None:
        self.admin, self.text = admin, text

    def poll(self, _: float) -> None:
        self.admin._on_error(KafkaError(KafkaError._TRANSPORT, self.text))

    def list_topics(self, **_: Any) -> None:
        raise KafkaException(KafkaError(KafkaError._TRANSPORT, "Failed to get metadata"))


REFUSED = "127.0.0.1:1/bootstrap: Connect to ipv4#127.0.0.1:1 failed: Connection refused"


@pytest.mark.parametrize(
    "added", ["", " (after 0ms in state CONNECT)", " (after 12ms in state CONNECT, 4 identical error(s) suppressed)"]
)
def test_the_cause_is_told_without_what_the_client_counts(added: str) -> None:
    admin = Admin({"bootstrap.servers": "127.0.0.1:1", "log_level": 0}, timeout=1, plain=False)
    admin._client = Away(admin, REFUSED + added)  # type: ignore[assignment, misc]
    with pytest.raises(KafkaException) as caught:
        admin.brokers()
    assert caught.value.args[0].str() == REFUSED
