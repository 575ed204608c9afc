"""A bug of ours while a link is sent events: the link ends with a word, and others go on."""

from __future__ import annotations

import asyncio

import pytest

from bridges.kafka.receiver import Receiver
from tests.support.streams import Streams, bodies, fill

SOLO = "solo"


@pytest.mark.parametrize("streams", ["embedded"], indirect=True)
async def test_a_link_that_fails_in_a_turn_of_its_own_says_so(
    streams: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would get nothing more, in silence; the next of that turn goes on."""
    failing, pump = [True], Receiver._pump

    def fails(self: Receiver) -> None:
        if failing:
            failing.clear()
            raise RuntimeError("a bug that the test has made")
        pump(self)

    await fill(streams, SOLO, 1)
    links = [await streams.receiver(SOLO, after="@earliest") for _ in range(2)]
    monkeypatch.setattr("bridges.kafka.receiver._CHUNKS_AT_ONCE", 0)  # each begins in a turn of its own
    for each in links:
        each.link.grant(10)
    await asyncio.sleep(0)
    monkeypatch.setattr(Receiver, "_pump", fails)
    monkeypatch.setattr("bridges.kafka.receiver._CHUNKS_AT_ONCE", 8)
    ended = await asyncio.wait([asyncio.ensure_future(each.end()) for each in links], return_when="FIRST_COMPLETED")
    assert [task.result().condition for task in ended[0]] == ["amqp:internal-error"]
    (other,) = (each for each in links if not each.detached.done())
    assert bodies(await other.receive(1)) == [0]
