"""Who still asks a cluster that is closed is told so, and nothing fails for it."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from bridges.kafka.clusters.cluster import Cluster, ClusterConfig
from bridges.kafka.info import InfoNode, InfoSource
from gateway.errors import INTERNAL_ERROR, AmqpError
from gateway.tasks import Supervisor
from tests.support.amqp.numbered import until


class Asks:
    """A link to `$info` with all credit."""

    open, draining, credit = True, False, 10_000

    def __init__(self) -> None:
        self.source = SimpleNamespace(address="events/orders/$info")
        self.told: list[bytes] = []
        self.errors: list[Any] = []

    def send(self, data: bytes, context: object) -> None:
        self.told.append(data)

    def take_unsettled(self) -> None: ...

    def detach(self, error: AmqpError) -> None:
        self.errors.append(error)


async def test_info_with_credit_left_outlives_the_close_of_its_cluster() -> None:
    failed: list[BaseException] = []
    supervisor = Supervisor(lambda _, error: failed.append(error))
    cluster = Cluster("main", ClusterConfig(), asyncio.get_running_loop(), supervisor)
    link, node = Asks(), InfoNode(cluster, "orders", interval=0.01, minimum=0.01)
    source = InfoSource(link, node, cluster)
    source.begin()
    await until(lambda: link.told or link.errors, "the first message")
    await cluster.close()
    before = len(link.told)
    await until(lambda: len(link.told) > before or link.errors or failed, "what it says of a closed cluster")
    assert (failed, link.errors) == ([], [])
    assert b"current" in link.told[-1]
    with pytest.raises(AmqpError) as refused:
        await cluster.in_thread(lambda: None)
    assert refused.value.condition == INTERNAL_ERROR
    source.on_detach(None)
    await supervisor.close()


async def test_a_refresh_that_is_due_is_not_taken_for_the_close() -> None:
    """The time limit of its pause cancels the refresher for a turn of the loop."""
    supervisor = Supervisor(lambda _, error: None)
    cluster = Cluster("main", ClusterConfig(refresh=0.001, retry=0.001), asyncio.get_running_loop(), supervisor)
    for _ in range(3000):
        await cluster.in_thread(lambda: None)
    await cluster.close()
    await supervisor.close()
