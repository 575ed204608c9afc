"""Positions shown as the committed offsets of Kafka groups without members, for lag tools (KM-11).

A group's offsets are committed by a client of that group, which subscribes to nothing: librdkafka's admin requests to a
group's coordinator end the process with a failed assertion when that broker goes away meanwhile (its issue 3663). A
client has one group for life, so there cannot be one for all; a few are kept for the groups that come again and again,
since a commit costs a sixteenth with a client that is connected already.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from bridges.kafka.librdkafka import ClientSettings

_KEPT: Final = 4
"""Clients that stay connected; each has a few threads."""
_COMMIT_MS: Final = 6000
"""How long a commit may wait for the group's coordinator; Kafka's least session time-out."""


class Mirror:
    """Blocking; one commit at a time."""

    def __init__(self, settings: ClientSettings) -> None:
        ours = {"enable.auto.commit": False, "session.timeout.ms": _COMMIT_MS}
        self._settings: Final = {**settings, **ours}
        self._clients: Final[OrderedDict[str, Consumer]] = OrderedDict()
        self._one: Final = threading.Lock()

    def commit(self, group: str, topic: str, positions: Mapping[int, int]) -> None:
        """Show these positions; raises KafkaException."""
        offsets = [TopicPartition(topic, partition, at) for partition, at in positions.items()]
        with self._one:
            client = self._clients.pop(group, None) or Consumer({**self._settings, "group.id": group})
            try:
                client.poll(0)  # what it has to say of broken connections
                for answer in client.commit(offsets=offsets, asynchronous=False):
                    if answer.error is not None:
                        raise KafkaException(answer.error)
            except BaseException:
                client.close()
                raise
            self._clients[group] = client
            while len(self._clients) > _KEPT:
                self._clients.popitem(last=False)[1].close()

    def close(self) -> None:
        """Let go of the clients."""
        with self._one:
            while self._clients:
                self._clients.popitem()[1].close()
