"""An internal error while a link is sent events: that link ends with an error, and others continue."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from bridges.kafka.links.receiver import LogReceiver
from tests.support.amqp.numbered import until
from tests.support.kafka.streams import Streams, bodies, fill

SOLO = "solo"


@pytest.mark.parametrize("streams", ["embedded"], indirect=True)
async def test_a_link_that_fails_in_a_turn_of_its_own_says_so(
    streams: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise it would silently receive nothing more; the next link of that turn continues."""
    failing, pumped, pump = list[bool](), Counter[LogReceiver](), LogReceiver._deliver

    def fails(self: LogReceiver) -> None:
        pumped[self] += 1
        if failing:
            failing.clear()
            raise RuntimeError("a bug that the test has made")
        pump(self)

    monkeypatch.setattr(LogReceiver, "_deliver", fails)
    monkeypatch.setattr("bridges.kafka.links.receiver._BATCHES_AT_ONCE", 0)  # each tries again in turns of its own
    await fill(streams, SOLO, 1)
    links = [await streams.receiver(SOLO, after="@earliest", credit=10) for _ in range(2)]
    await until(lambda: sum(count > 2 for count in pumped.values()) == len(links), "turns of both links")
    failing.append(True)
    monkeypatch.setattr("bridges.kafka.links.receiver._BATCHES_AT_ONCE", 4)
    ended = await asyncio.wait([asyncio.ensure_future(each.end()) for each in links], return_when="FIRST_COMPLETED")
    assert [task.result().condition for task in ended[0]] == ["amqp:internal-error"]
    (other,) = (each for each in links if not each.detached.done())
    assert bodies(await other.receive(1)) == [0]


@pytest.mark.parametrize("streams", ["embedded"], indirect=True)
@pytest.mark.parametrize("reported", ["arrived", "lost"])
async def test_a_link_that_fails_when_it_is_told_leaves_the_news_to_others(
    streams: Streams, monkeypatch: pytest.MonkeyPatch, reported: str
) -> None:
    """Two links wait for the same event; the first one to be notified fails, and the other is not affected."""
    failing, step = list[LogReceiver](), "_overtaken" if reported == "lost" else "_deliver"
    well = getattr(LogReceiver, step)

    def fails(self: LogReceiver, *arguments: int) -> None:
        if self in failing:
            raise RuntimeError("a bug that the test has made")
        well(self, *arguments)

    monkeypatch.setattr(LogReceiver, step, fails)
    links = [await streams.receiver(SOLO, credit=10) for _ in range(2)]
    log = next(iter(streams.bridge.cluster.scheduler._buffers.values()))
    await until(lambda: [*log.waiting] == [0] and len(log.waiting[0]) == len(links), "both links wait")
    failing.append(next(iter(log.waiting[0])))
    if reported == "lost":
        log.skip_deleted(0, 0)
    await fill(streams, SOLO, 1)
    (one, two) = links
    await until(lambda: one.detached.done() or two.detached.done(), "the end of one")
    ended, other = (one, two) if one.detached.done() else (two, one)
    assert (await ended.end()).condition == "amqp:internal-error"
    assert bodies(await other.receive(1)) == [0]
    assert [str(error) for _, error in streams.errors] == ["a bug that the test has made"]
    streams.errors.clear()
