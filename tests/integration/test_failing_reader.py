"""A bug of ours while a link is sent events: the link ends with a word, and others go on."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from bridges.kafka.receiver import Receiver
from tests.support.numbered import until
from tests.support.streams import Streams, bodies, fill

SOLO = "solo"


@pytest.mark.parametrize("streams", ["embedded"], indirect=True)
async def test_a_link_that_fails_in_a_turn_of_its_own_says_so(
    streams: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would get nothing more, in silence; the next of that turn goes on."""
    failing, pumped, pump = list[bool](), Counter[Receiver](), Receiver._pump

    def fails(self: Receiver) -> None:
        pumped[self] += 1
        if failing:
            failing.clear()
            raise RuntimeError("a bug that the test has made")
        pump(self)

    monkeypatch.setattr(Receiver, "_pump", fails)
    monkeypatch.setattr("bridges.kafka.receiver._CHUNKS_AT_ONCE", 0)  # each tries again in turns of its own
    await fill(streams, SOLO, 1)
    links = [await streams.receiver(SOLO, after="@earliest", credit=10) for _ in range(2)]
    await until(lambda: sum(count > 2 for count in pumped.values()) == len(links), "turns of both links")
    failing.append(True)
    monkeypatch.setattr("bridges.kafka.receiver._CHUNKS_AT_ONCE", 4)
    ended = await asyncio.wait([asyncio.ensure_future(each.end()) for each in links], return_when="FIRST_COMPLETED")
    assert [task.result().condition for task in ended[0]] == ["amqp:internal-error"]
    (other,) = (each for each in links if not each.detached.done())
    assert bodies(await other.receive(1)) == [0]
