"""A sink that is away: it costs no memory, no event an attempt and no other subscription time; then it gets all.

Minutes are for the hours of a real outage: pauses between attempts are as much shorter, and there are thousands of
events in seconds. In `make soak` it lasts as long as the time is (tests/support/plugins/seed.py). A whole hour, with
the pauses that a policy has by default, takes an hour: `make soak MINUTES=90 ARGS="--kinds whole"`.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import pytest

from tests.bench.running import resident_kib
from tests.support.gateway.gateway import Gateway, Gateways
from tests.support.gateway.process import PATIENCE
from tests.support.plugins.seed import SECONDS
from tests.support.servers.http_sink import NO_CONTENT, HttpSinkServer, SunkRequest, http_sink, status
from tests.support.servers.kafka import KafkaBroker
from tests.support.subscriptions.api import (
    PATH,
    ApiClient,
    EventWriter,
    api_port,
    eventually,
    sink_ports,
    subscription_policy,
)

KEYS = 50
LOT = 100
HELD = "scopegate_subscription_held_bytes"
NOISE = 0.25
"""Seconds that a busy machine adds to a latency."""
GROWN = 8 * 1024
"""KiB that an outage may cost."""
READ_ONCE = 8 * 1024
"""KiB more for a sink that answers with errors after it was not there: then all that is due is read again, once."""
OUTAGE = float(os.environ.get("SCOPEGATE_OUTAGE") or SECONDS)
"""Seconds of the long one; a whole hour is a step of its own in `make soak` (tests/soak/steps.py)."""
PACE, PIECE = 20, round(min(30, OUTAGE / 4))
"""Events a second that are written meanwhile, and seconds between two looks at the memory."""
HOURS = min(1.0, OUTAGE / 3600)
SIZE = round(500 / HOURS)
"""Bytes of each: a shorter outage has larger events, so that as much waits in the log as after an hour."""
RETRY = {"min": f"{round(1000 * HOURS)}ms", "max": f"{round(300_000 * HOURS)}ms"}
"""The pauses of a policy by default; a shorter outage has shorter ones, so that there are as many attempts."""
BEFORE = round(min(60, OUTAGE))
"""Seconds before the long one that say what latencies are without it."""


class AbsentSinkGateway(NamedTuple):
    """A gateway, the sink of a subscription that is at work, and the port of the one that is away."""

    gateway: Gateway
    api: ApiClient
    events: EventWriter
    topic: str
    well: HttpSinkServer
    port: int

    async def subscribe(self, id: str, port: int) -> None:
        body = {"id": id, "protocol": "HTTP", "sink": f"http://127.0.0.1:{port}/"}
        assert (await self.api.ask("POST", PATH, body)).status == 201

    async def told(self) -> dict[str, Any]:
        """The status of the subscription whose sink is away."""
        found: dict[str, Any] = (await self.api.ask("GET", f"{PATH}/away/status")).json
        return found

    async def write(self, first: int, count: int) -> list[float]:
        """Write lots of events; return the seconds that nine tenths of each took until the sink at work had them."""
        lots = [await self.write_lot(range(low, low + LOT), 500) for low in range(first, first + count, LOT)]
        return [tail(sorted(lot), 0.9) for lot in lots]

    async def write_lot(self, numbers: range, size: int) -> list[float]:
        """Write events of `size` bytes; return how long each took until the sink at work had it, in seconds."""
        self.well.requests.clear()
        begun = time.monotonic()

        def write() -> None:
            for number in numbers:
                last, data = number == numbers[-1], "x" * size
                self.events.write(self.topic, str(number), key=f"k{number % KEYS}", wait=last, data=data)

        await asyncio.to_thread(write)
        return [request.at - begun for request in await self.well.wait_for(len(numbers), PATIENCE)]

    def held(self) -> float:
        return self.gateway.metrics()[HELD]


@pytest.fixture
async def away(
    tmp_path_factory: pytest.TempPathFactory, kafka_broker: KafkaBroker, start_gateway: Gateways
) -> AsyncIterator[AbsentSinkGateway]:
    retry = {"min": "20ms", "max": "500ms", "attempts": 2}
    async with begun(tmp_path_factory.mktemp("away"), kafka_broker, start_gateway, delivery={"retry": retry}) as made:
        yield made


@pytest.fixture
async def usual(
    tmp_path_factory: pytest.TempPathFactory, kafka_broker: KafkaBroker, start_gateway: Gateways
) -> AsyncIterator[AbsentSinkGateway]:
    """As `away`, with the retries that a policy has by default."""
    folder, delivery = tmp_path_factory.mktemp("usual"), {"retry": RETRY}
    async with begun(folder, kafka_broker, start_gateway, delivery=delivery) as made:
        yield made


@asynccontextmanager
async def begun(
    folder: Path, kafka: KafkaBroker, start_gateway: Gateways, **manager: Any
) -> AsyncIterator[AbsentSinkGateway]:
    """A gateway with the subscription whose sink is at work."""
    topic = kafka.create_topic(partitions=2)
    document = subscription_policy(folder, topics={topic: 2}, **manager)
    document.data["kafka"]["main"] = {"bootstrap": kafka.bootstrap}
    one, other, _ = sink_ports(document)
    async with http_sink(port=one) as well:
        gateway = start_gateway(document.text)
        made = AbsentSinkGateway(
            gateway, ApiClient(api_port(document)), EventWriter(kafka.bootstrap), topic, well, other
        )
        await made.subscribe("well", one)
        yield made


def tail(late: list[float], part: float) -> float:
    """A quantile."""
    return late[int(len(late) * part)]


async def outage(away: AbsentSinkGateway, seconds: float, lots: int) -> None:
    """No connection at first, then errors, then all of it."""
    await away.write(0, 3 * LOT)
    alone = await away.write(3 * LOT, lots * LOT)
    await away.subscribe("away", away.port)
    first = written = (3 + lots) * LOT
    sizes: list[int] = []
    late, end = list[float](), time.monotonic() + seconds
    async with AsyncExitStack() as stack:
        sink: HttpSinkServer | None = None
        while written == first or len(sizes) < 4 or time.monotonic() < end:
            late += await away.write(written, lots * LOT)
            written += lots * LOT
            sizes.append(resident_kib(away.gateway.process.pid))
            if sink is None and len(sizes) >= 2:
                sink = await stack.enter_async_context(http_sink(lambda request: status(500), port=away.port))
        assert sink is not None
        await eventually(lambda: _buffers_few_events(away))
        told = await away.told()
        assert (told["state"], told["events"]["delivered"]) == ("failing", 0)
        check_costs(sizes, median(alone), median(late))  # a pause of the machine is in few of the lots
        await all_of_it(away, sink, range(first, written))
    told = await away.told()
    assert [told["events"][each] for each in ("refused", "deadlettered", "lost")] == [0, 0, 0]
    assert told["events"]["delivered"] == written - first
    print(f"{written - first} events waited; RSS in KiB {sizes[0]} to {sizes[-1]}")


async def _buffers_few_events(away: AbsentSinkGateway) -> bool:
    """Less than ten events are in memory."""
    return await asyncio.to_thread(away.held) < 10 * 2048


def check_costs(sizes: list[int], alone: float, late: float, most: int = GROWN) -> None:
    """Memory in KiB after the first quarter, and the latency of the subscription at work, seconds."""
    quarter = len(sizes) // 4
    assert sizes[-1] - sizes[quarter] < most, str(sizes)
    assert late <= 1.5 * alone + NOISE, (late, alone)


async def all_of_it(away: AbsentSinkGateway, sink: HttpSinkServer, wanted: range) -> None:
    """The sink is back: each event comes, in the order of its key."""
    came: dict[int, None] = {}

    def accept(request: SunkRequest) -> bytes:
        came.setdefault(int(request.header("ce-id") or 0))
        sink.requests.clear()
        return NO_CONTENT

    sink.answer = accept

    async def arrived() -> bool:
        return len(came) == len(wanted)

    await eventually(arrived, PATIENCE + len(wanted) / 200 + 300 * HOURS)
    ids = list(came)
    assert sorted(ids) == list(wanted)
    for key in range(KEYS):
        of_key = [each for each in ids if each % KEYS == key]
        assert of_key == sorted(of_key), key

    async def settled() -> bool:
        return bool((await away.told())["events"]["delivered"] == len(wanted))

    await eventually(settled)


@pytest.mark.row("CE-3.2.1-9", "CE-P-1")
async def test_a_sink_that_is_away_costs_nothing_and_gets_all_afterwards(away: AbsentSinkGateway) -> None:
    await outage(away, 0, 3)


@pytest.mark.soak
async def test_a_long_outage_costs_no_more_than_a_short_one(away: AbsentSinkGateway) -> None:
    await outage(away, SECONDS, 5)


# -- with the pauses that a policy has by default


async def write_steadily(away: AbsentSinkGateway, first: int, seconds: int) -> list[float]:
    """Write `PACE` events a second; return how long each took until the sink at work had it, ascending."""
    late, begun = list[float](), time.monotonic()
    for lot in range(seconds):
        await asyncio.sleep(max(0.0, begun + lot - time.monotonic()))
        low = first + lot * PACE
        late += await away.write_lot(range(low, low + PACE), SIZE)
    return sorted(late)


@pytest.mark.soak
async def test_a_long_outage_of_a_usual_sink_costs_nothing(usual: AbsentSinkGateway) -> None:
    alone = await write_steadily(usual, 0, BEFORE)
    await usual.subscribe("away", usual.port)
    first = written = BEFORE * PACE
    sizes, late, begun = list[int](), list[float](), time.monotonic()
    async with AsyncExitStack() as stack:
        sink: HttpSinkServer | None = None
        while time.monotonic() < begun + OUTAGE:
            late += await write_steadily(usual, written, PIECE)
            written += PIECE * PACE
            sizes.append(resident_kib(usual.gateway.process.pid))
            if sink is None and time.monotonic() > begun + OUTAGE / 2:
                sink = await stack.enter_async_context(http_sink(lambda request: status(500), port=usual.port))
        assert sink is not None
        told = await usual.told()
        assert (told["state"], told["events"]["delivered"]) == ("failing", 0)
        away, attempts = time.monotonic() - begun, len(sink.requests)
        check_costs(sizes, tail(alone, 0.99), tail(sorted(late), 0.99), GROWN + READ_ONCE)
        back = time.monotonic()
        await all_of_it(usual, sink, range(first, written))
        took = time.monotonic() - back
    told = await usual.told()
    assert [told["events"][each] for each in ("refused", "deadlettered", "lost")] == [0, 0, 0]
    print(
        f"away for {away:.0f} s, {written - first} events waited, all there {took:.0f} s after its return; "
        f"{attempts} attempts in the second half; RSS in KiB {sizes[0]}, {sizes[len(sizes) // 4]} to {sizes[-1]}; "
        f"p99 of the other {tail(sorted(late), 0.99):.3f} s, before {tail(alone, 0.99):.3f} s"
    )
