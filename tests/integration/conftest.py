"""Fixtures that several integration modules share."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]

from bridges.kafka.clusters.cluster import ClusterConfig
from tests.support.amqp.peer import Listener
from tests.support.gateway.document import Document
from tests.support.gateway.far import Far
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.process import PATIENCE, wait_until
from tests.support.kafka.remote_log import Fars
from tests.support.kafka.streams import Clients, Streams
from tests.support.kafka.streams_remote import Remote
from tests.support.servers.kafka import KafkaBroker, led

SIZES = {"solo": 1, "orders": 3}
LOT = 15
"""Topics of each kind that are made in one go."""
Remotes = Callable[[], Remote]


@pytest.fixture(params=["embedded", "process"])
async def streams(request: pytest.FixtureRequest) -> AsyncIterator[Clients]:
    """Topics `solo` (1 partition) and `orders` (3): of a bridge in here on the embedded Kafka, or of a process."""
    found: Streams | Remote
    if request.param == "process":
        found = request.getfixturevalue("remotes")()
    else:
        found = Streams(ClusterConfig(topics=SIZES, refresh=0.2, retry=0.1, timeout=10))
    yield found
    await found.close()


@pytest.fixture(scope="module")
def remotes(start_module_gateway: Gateways, kafka_broker: KafkaBroker) -> Remotes:
    """Clients of a gateway process, each with topics of its own."""
    document = Document()
    document.kafka(kafka_broker.bootstrap)
    start_module_gateway(document.text)
    names = itertools.chain.from_iterable(map(new_topics, itertools.repeat(kafka_broker)))
    return lambda: Remote(document.edge, kafka_broker, next(names))


def new_topics(broker: KafkaBroker) -> list[dict[str, str]]:
    """Topics that nobody has used: what a test calls them, and their names."""
    prefix = broker.create_topic()
    found = [{name: f"{prefix}-{name}-{number}" for name in SIZES} for number in range(LOT)]
    wanted = [NewTopic(each[name], size, replication_factor=1) for each in found for name, size in SIZES.items()]
    admin = broker.admin()
    for answer in admin.create_topics(wanted).values():
        answer.result(PATIENCE)

    partitions = [TopicPartition(each[name], 0) for each in found for name in SIZES]
    wait_until(lambda: led(admin, partitions), "leaders of all topics")
    return found


@pytest.fixture
def fars(start_gateway: Gateways) -> Iterator[Fars]:
    """A log that the gateway moves from: `log` to `here/1`, a meeting point of its scope, unless told otherwise."""
    with Listener() as listener:

        def make(more: str = "", state: str = "memory", **entry: Any) -> Far:
            source = "{connector: far, address: log}"
            entry = {"name": "b", "from": source, "to": "here/1", **entry}
            text = "{" + ", ".join(f"{key}: {value}" for key, value in entry.items()) + "}"
            return Far(start_gateway, listener, more, text, state)

        yield make
