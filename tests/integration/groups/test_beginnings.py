"""When a shared group starts to read its log: once for all of its links, before any attach is answered (KM-9)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from bridges.kafka.clusters.cluster import ClusterConfig
from bridges.kafka.links.checkpointer import TerminusCheckpointer, TerminusLease
from bridges.kafka.links.terminus_request import TerminusRequest
from gateway.amqp.codec.types import Symbol
from policies.model.scopes.assignment import Assignment
from tests.support.amqp.numbered import until
from tests.support.kafka.streams import Route, Streams, bodies, fill

GROUP = {Symbol("event-streams-consumer-group"): "g"}
TOPIC = "orders"


@pytest.fixture
async def local() -> AsyncIterator[Streams]:
    """A topic of two partitions whose group links share them."""
    routes = {TOPIC: Route(TOPIC, assignment=Assignment(group_mode="shared"))}
    found = Streams(ClusterConfig(topics={TOPIC: 2}, refresh=0.2, retry=0.1, timeout=10), routes)
    yield found
    await found.close()


class Slow:
    """The first link that acquires partitions waits for the group's records until `go` is set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.go, self.reached, self.acquire = asyncio.Event(), False, TerminusCheckpointer.acquire
        monkeypatch.setattr(TerminusCheckpointer, "acquire", lambda *arguments: self._acquire(*arguments))

    async def _acquire(
        self, checkpointer: TerminusCheckpointer, request: TerminusRequest, fence: int = 0
    ) -> TerminusLease:
        self.reached = True
        await self.go.wait()
        return await self.acquire(checkpointer, request, fence)


@pytest.mark.row("ES-1-4")
async def test_what_comes_after_the_first_answer_is_the_groups(local: Streams, monkeypatch: pytest.MonkeyPatch) -> None:
    """One link is answered, without a partition yet, while another one is still acquiring all of them."""
    slow = Slow(monkeypatch)
    first: Any = asyncio.ensure_future(local.receiver(TOPIC, credit=100, properties=GROUP, side=local.connect()))
    await until(lambda: slow.reached, "a link that takes up partitions")
    second = await local.receiver(TOPIC, credit=100, properties=GROUP, side=local.connect())
    assert not first.done()
    await fill(local, TOPIC, 20)
    slow.go.set()
    links = [await first, second]
    await until(lambda: sum(link.messages.qsize() for link in links) == 20, "all events")
    found = [number for link in links for number in bodies(await link.receive(link.messages.qsize()))]
    assert sorted(found) == list(range(20))
