"""The gateway's embedded Kafka in place of a broker: its topics are in the policy and are handed out one by one."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateway
from tests.support.gateway.process import wait_until
from tests.support.servers.kafka import KafkaBroker

POOL: Mapping[int, int] = {1: 24, 3: 8}
"""How many topics there are with so many partitions."""


class EmbeddedKafka:
    """As `KafkaBroker`, as far as the embedded cluster goes: topics keep their producers' times and every record."""

    def __init__(self) -> None:
        self.topics = {f"of-{size}-{number}": size for size, count in POOL.items() for number in range(count)}
        self._left = dict(self.topics)
        self.bootstrap = ""

    def create_topic(self, *, partitions: int = 1) -> str:
        """A topic that nobody has used yet."""
        name = next(name for name, size in self._left.items() if size == partitions)
        del self._left[name]
        return name

    def found(self, gateway: Gateway) -> None:
        """The gateway chose the port; its `/readyz` says where."""

        def place() -> str | None:
            parts = json.loads(gateway.get("/readyz")[1] or "{}").get("parts", {})
            reported = re.search(r"embedded at (\S+)", str(parts.get("kafka/main")))
            return reported[1].rstrip("',}\"") if reported else None

        self.bootstrap = wait_until(place, "the address of the embedded Kafka") or ""


Kafka = KafkaBroker | EmbeddedKafka


def on(kafka: Kafka, document: Document) -> None:
    """Make it the cluster `main` of a policy."""
    if isinstance(kafka, EmbeddedKafka):
        document.kafka("embedded", topics=kafka.topics)
    else:
        document.kafka(kafka.bootstrap)


def begun(kafka: Kafka, gateway: Gateway) -> None:
    """The gateway serves."""
    if isinstance(kafka, EmbeddedKafka):
        kafka.found(gateway)
