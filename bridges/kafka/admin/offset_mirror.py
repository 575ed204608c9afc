"""Commits positions as offsets of Kafka groups without members, so that lag tools show them (KM-11).

A client of the group, which subscribes to nothing, commits its offsets. librdkafka's admin requests cannot be used:
they end the process with a failed assertion if the coordinator goes away meanwhile (librdkafka issue 3663). A client
belongs to one group for life, so each group needs its own; a few clients are kept open, because a commit costs a
sixteenth with a client that is already connected.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from bridges.kafka.common.librdkafka import ClientSettings

_MAX_CLIENTS: Final = 4
"""Clients that stay connected; each of them has several threads."""
_COMMIT_MS: Final = 6000
"""How long a commit may wait for the group's coordinator; the shortest session time-out that Kafka permits."""


class Mirror:
    """Blocking; one commit at a time."""

    def __init__(self, settings: ClientSettings) -> None:
        ours = {"enable.auto.commit": False, "session.timeout.ms": _COMMIT_MS}
        self._settings: Final = {**settings, **ours}
        self._clients: Final[OrderedDict[str, Consumer]] = OrderedDict()
        self._lock: Final = threading.Lock()

    def commit(self, group: str, topic: str, positions: Mapping[int, int]) -> None:
        """Commit these positions; raises KafkaException."""
        offsets = [TopicPartition(topic, partition, at) for partition, at in positions.items()]
        with self._lock:
            client = self._clients.pop(group, None) or Consumer({**self._settings, "group.id": group})
            try:
                client.poll(0)  # handles its pending events, such as broken connections
                for answer in client.commit(offsets=offsets, asynchronous=False):
                    if answer.error is not None:
                        raise KafkaException(answer.error)
            except BaseException:
                client.close()
                raise
            self._clients[group] = client
            while len(self._clients) > _MAX_CLIENTS:
                self._clients.popitem(last=False)[1].close()

    def close(self) -> None:
        """Close the clients."""
        with self._lock:
            while self._clients:
                self._clients.popitem()[1].close()
