"""What is asked of a Kafka cluster's administration, where brokers of other makes answer less (B6)."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any, NamedTuple

import pytest

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
    admin = Admin({"bootstrap.servers": "127.0.0.1:1", "log_level": 0}, timeout=1, plain=False)
    client: Any = Broker(**reported)
    admin._client = client  # type: ignore[misc]
    assert admin._settings("topic") == expected
