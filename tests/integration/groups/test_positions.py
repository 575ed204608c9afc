"""Where links of a consumer group start, and which of their requested positions apply (ES-4.5-10)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from bridges.kafka.clusters.cluster import ClusterConfig
from gateway.amqp.codec.types import Symbol
from policies.model.scopes.assignment import Assignment
from tests.support.gateway.process import PATIENCE
from tests.support.kafka.streams import Route, StreamPeer, Streams, bodies, fill

GROUP = {Symbol("event-streams-consumer-group"): "g"}


@pytest.fixture(params=["bound", "shared"])
async def local(request: pytest.FixtureRequest) -> AsyncIterator[Streams]:
    """A topic of one partition, whose group links own their partition, or share it."""
    routes = {"solo": Route("solo", assignment=Assignment(group_mode=request.param))}
    found = Streams(ClusterConfig(topics={"solo": 1}, refresh=0.2, retry=0.1, timeout=10), routes)
    yield found
    await found.close()


async def leave(streams: Streams, peer: StreamPeer) -> None:
    """Detach, and wait until the gateway has noticed."""
    leases = streams.bridge._leases
    peer.link.detach(None)
    async with asyncio.timeout(PATIENCE):
        while True:
            group = await leases.view(streams.bridge.group_key("solo", "g"))
            if not group.held and not group.sharing:
                return
            await asyncio.sleep(0.01)


@pytest.mark.row("ES-4.5-10")
async def test_a_group_goes_on_where_it_has_got_to(local: Streams, request: pytest.FixtureRequest) -> None:
    await fill(local, "solo", 5)
    first = await local.receiver("solo", after="@earliest", credit=3, properties=GROUP)
    assert list(first.link.source.filter) == ["position"], "the group has no position yet: that of the filter counts"
    assert bodies(await first.receive(3)) == [0, 1, 2]
    await leave(local, first)
    second = await local.receiver("solo", credit=1, properties=GROUP)
    assert bodies(await second.receive(1)) == [3], "not at the end of the log"
    await leave(local, second)
    third = await local.receiver("solo", after="@earliest", credit=1, properties=GROUP)
    if request.node.callspec.params["local"] == "shared":
        assert not third.link.source.filter, "a position that is not in force is not echoed"
        assert bodies(await third.receive(1)) == [4]
    else:
        assert list(third.link.source.filter) == ["position"]
        assert bodies(await third.receive(1)) == [0]
