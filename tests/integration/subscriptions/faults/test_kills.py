"""`kill -9` of a gateway that delivers, in each phase of a delivery: nothing lost, order kept, repeats bounded.

Once in each phase here; in `make soak` in drawn phases until the time is up (tests/support/plugins/seed.py), and
with `make kills` 200 times, or as often as `KILLS=` says.
"""

from __future__ import annotations

import asyncio
import http.client
import itertools
import os
import random
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from tests.support.cloudevents.delivery import until
from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateway, Gateways
from tests.support.gateway.process import free_port
from tests.support.plugins.seed import SECONDS, SEED
from tests.support.servers.http_sink import NO_CONTENT, HttpSinkServer, SunkRequest, http_sink, status
from tests.support.servers.kafka import KafkaBroker
from tests.support.servers.servers import Redis
from tests.support.subscriptions.api import (
    PATH,
    Answered,
    ApiClient,
    EventWriter,
    eventually,
    http_rule,
    sink_ports,
    subscription_policy,
)
from tests.support.subscriptions.stored import end_leases, stored_progress

ORDERS = "key", "partition", "none"
"""A subscription of each."""
WANTED, OTHER = "t.wanted", "t.other"
KEYS = 5
LOT = 40
KEPT = 5
"""Rounds: a gateway may be killed again before it has written what it has done since it was killed."""
KILLS = int(os.environ.get("SCOPEGATE_KILLS") or 0)
"""How often drawn phases end with one; 0: until the time is up."""
LATE = 5.0
"""Seconds of answers whose outcome a kill may lose: a tenth until they are written, and what a busy machine takes."""
LEASE = "30s"
"""More than a gateway or Redis stands still: without its lease, a gateway would deliver again what it has delivered."""


@dataclass(eq=False)
class Arrival:
    """A request of a subscription with one event."""

    order: str
    number: int
    request: SunkRequest
    settled: int
    """The events before this number were done with, and written as that, before it came."""
    answered: float | None = None


@dataclass(eq=False)
class KilledGateway:
    """A gateway that is killed and started again, and what its sink saw."""

    gateway: Gateway
    api: ApiClient
    events: EventWriter
    topic: str
    sink: HttpSinkServer
    redis: Redis
    draw: random.Random
    lives: list[tuple[int, float]] = field(default_factory=list)
    """For each life that has ended: the connections so far, and when it was killed."""
    struck: float = 0.0
    """When it was killed last."""
    arrivals: list[Arrival] = field(default_factory=list)
    """Of the events from `since` on."""
    held: asyncio.Event = field(default_factory=asyncio.Event)
    """Clear while the sink answers nothing."""
    moment: Callable[[Arrival], bool] = lambda arrival: False
    """Whether to kill when this request has been answered."""
    paths: dict[str, set[str]] = field(default_factory=dict)
    """Of each subscription: where its events may go now."""
    refused: set[str] = field(default_factory=set)
    versions: int = 0
    positions: dict[tuple[str, str], int] = field(default_factory=dict)
    """Of each subscription in each partition, as its status told them last."""
    since: int = 0
    written: int = 0
    settled: int = 0
    """The events before this number are done with, and written as that."""
    came: int = 0
    counted: int = 0

    async def answer(self, request: SunkRequest) -> bytes:
        """Accept an event, or refuse it if its id says so."""
        id = request.header("ce-id") or ""
        assert request.header("ce-type") == WANTED
        arrival = Arrival(request.header("scopegate-subscription") or "", int(id.rstrip("!")), request, self.settled)
        self.arrivals.append(arrival)
        await self.held.wait()
        arrival.answered = time.monotonic()
        if self.moment(arrival):
            asyncio.get_running_loop().call_soon(self.strike)
        return status(422) if id in self.refused else NO_CONTENT

    def strike(self) -> None:
        """SIGKILL."""
        self.moment = lambda arrival: False
        self.gateway.process.send_signal(signal.SIGKILL)
        self.struck = time.monotonic()

    async def write(self, *, refused: bool = False) -> None:
        """A lot of events with keys, some that nobody wants, and some that the sink refuses."""
        ids = {each: f"{each}!" if refused and each % 7 == 0 else str(each) for each in range(*self.next_lot())}
        self.refused |= {id for id in ids.values() if id.endswith("!")}

        def write() -> None:
            for number, id in ids.items():
                self.events.write(self.topic, id, WANTED, f"k{number % KEYS}", wait=False)
                self.events.write(self.topic, f"other-{id}", OTHER, "k", wait=number % LOT == LOT - 1)

        await asyncio.to_thread(write)

    def next_lot(self) -> tuple[int, int]:
        """The numbers of the next events; the sink will have them all."""
        first, self.written = self.written, self.written + LOT
        return first, self.written

    async def begin_again(self) -> None:
        """See the end of the gateway, and start it again; what waits for an answer is not answered."""
        await asyncio.to_thread(self.gateway.kill)
        await asyncio.to_thread(end_leases, self.redis)
        await self.accept_all()
        self.lives.append((self.sink.connections, self.struck))
        self.held.set()
        await asyncio.to_thread(self.gateway.restart)

    async def accept_all(self) -> None:
        """Count every connection that the gateway had opened: those to a socket are accepted in their order.

        A task counts each after it was accepted; one of the killed gateway would otherwise belong to its next life.
        """
        host, port = self.sink.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write_eof()
        await reader.read()
        writer.close()

    def missing(self) -> dict[str, list[int]]:
        """Events that have not come yet, by subscription."""
        came = {(each.order, each.number) for each in self.arrivals}
        wanted = range(self.since, self.written)
        return {order: [each for each in wanted if (order, each) not in came] for order in ORDERS}

    async def arrive(self) -> None:
        """Wait until each subscription has got every event that was written."""

        async def arrived() -> bool:
            return not any(self.missing().values())

        try:
            await eventually(arrived)
        except TimeoutError:
            raise AssertionError(self.missing()) from None

    async def advance(self) -> None:
        """See that no position is before where it was in an earlier life."""
        for order in ORDERS:
            await eventually(lambda order=order: self._no_less(order))  # type: ignore[misc]

    async def _no_less(self, order: str) -> bool:
        reported = (await self.api.ask("GET", f"{PATH}/{order}/status")).json.get("positions", {})
        now = {(order, number): int(at) for number, at in reported.get(f"events/{self.topic}", {}).items()}
        if not now or any(now[key] < self.positions.get(key, 0) for key in now):
            return False
        self.positions |= now
        return True

    async def settle(self) -> None:
        """Deliver a lot, and wait until its outcomes are written: a kill after that repeats none of it."""
        await self.write()
        await self.arrive()
        await eventually(self.all_stored)
        self.settled = self.written

    async def all_stored(self) -> bool:
        """Whether it is written of each subscription that it has passed every event, and waits for no outcome."""
        found = [await stored_progress(self.redis, self.topic, each, f"events/{self.topic}") for each in ORDERS]
        return found == [(2 * self.written, 0)] * len(ORDERS)

    def check(self) -> None:
        """Order of first arrivals, and nothing repeated but what was under way or just answered at a kill."""
        latest: dict[tuple[str, int], Arrival] = {}
        for each in self.arrivals:
            assert each.number >= max(self.since, each.settled), f"{each.number} came again, long done with"
            before = latest.get((each.order, each.number))
            if before is not None:
                self.may_repeat(before, each)
            latest[each.order, each.number] = each
        for order, key in itertools.product(ORDERS[:2], range(KEYS)):
            found = [number for of, number in latest if of == order and number % KEYS == key]
            assert found == sorted(found), (order, key)

    def may_repeat(self, before: Arrival, again: Arrival) -> None:
        """A kill is between two requests with one event, and the first was not answered long before it."""
        begun, came = before.request.connection, again.request.connection
        kills = [at for connections, at in self.lives if begun <= connections < came]
        assert kills, f"{again.number} came twice in one life"
        assert before.answered is None or before.answered > kills[0] - LATE, f"{again.number} was done with"

    def forget(self) -> None:
        """Keep what the last rounds wrote: how much there is does not make a round slower."""
        self.came += len(self.arrivals) - self.counted
        self.since = max(0, self.written - KEPT * LOT)
        self.arrivals = [each for each in self.arrivals if each.number >= self.since]
        self.counted = len(self.arrivals)
        self.sink.requests.clear()


# -- phases: each ends with SIGKILL


async def before_it_sends(killed: KilledGateway) -> None:
    killed.gateway.process.send_signal(signal.SIGSTOP)
    await killed.write()
    killed.gateway.process.send_signal(signal.SIGCONT)
    await asyncio.sleep(killed.draw.uniform(0, 0.01))
    killed.strike()


async def before_the_answer(killed: KilledGateway) -> None:
    killed.held.clear()
    before, count = len(killed.arrivals), killed.draw.randint(1, 8)
    await killed.write()
    await until(lambda: len(killed.arrivals) >= before + count)
    killed.strike()


async def before_the_position_is_written(killed: KilledGateway) -> None:
    last = killed.written + killed.draw.randrange(LOT)
    struck = asyncio.Event()

    def moment(arrival: Arrival) -> bool:
        if arrival.number >= last:
            struck.set()
        return struck.is_set()

    killed.moment = moment
    await killed.write()
    await asyncio.wait_for(struck.wait(), 60)


async def while_it_dead_letters(killed: KilledGateway) -> None:
    refusals = killed.draw.randint(1, 8)
    struck = asyncio.Event()

    def moment(arrival: Arrival) -> bool:
        nonlocal refusals
        refusals -= f"{arrival.number}!" in killed.refused
        if refusals <= 0:
            struck.set()
        return struck.is_set()

    killed.moment = moment
    await killed.write(refused=True)
    await asyncio.wait_for(struck.wait(), 60)


async def while_it_is_updated(killed: KilledGateway) -> None:
    await killed.write()
    order = killed.draw.choice(ORDERS)
    body = proposal(killed, order)
    asked = asyncio.ensure_future(killed.api.ask("PUT", f"{PATH}/{order}", body))
    await asyncio.sleep(killed.draw.uniform(0, 0.03))
    killed.strike()
    with suppress(OSError, http.client.HTTPException):
        assert (await asked).status == 200
        killed.paths[order] = {body["sink"]}  # what was answered is in force, whatever comes next


def proposal(killed: KilledGateway, order: str) -> dict[str, Any]:
    """Another version of a subscription."""
    killed.versions += 1
    sink = f"{killed.sink.url}/{killed.versions}"
    killed.paths.setdefault(order, set()).add(sink)
    return {"id": order, "protocol": "HTTP", "sink": sink, "types": [WANTED], "protocolsettings": {"x-order": order}}


Phase = Callable[[KilledGateway], Awaitable[None]]
PHASES: list[Phase] = [
    before_it_sends, before_the_answer, before_the_position_is_written, while_it_dead_letters, while_it_is_updated,
]  # fmt: skip


async def kill_in(phase: Phase, killed: KilledGateway) -> None:
    """One round: a kill, a start, and everything arrives, where the version that is in force says."""
    await phase(killed)
    await killed.begin_again()
    for order in ORDERS:
        reported: Answered = await killed.api.ask("GET", f"{PATH}/{order}")
        assert reported.json["sink"] in killed.paths[order]
        killed.paths[order] = {reported.json["sink"]}
    await killed.arrive()
    await killed.advance()
    connections, _ = killed.lives[-1]
    for each in killed.arrivals:
        at = f"{killed.sink.url}{each.request.path}"
        assert each.request.connection <= connections or at in killed.paths[each.order]
    killed.check()
    killed.forget()


def text(value: object) -> str:
    assert isinstance(value, bytes)
    return value.decode()


def dead_letters(bootstrap: str, topic: str) -> set[tuple[str, str]]:
    """Of what there are copies, by subscription and id."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic, "enable.auto.commit": False})
    try:
        bounds = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)
        assert bounds is not None
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        found, left = set[tuple[str, str]](), bounds[1]
        while left:
            record = consumer.poll(30)
            assert record is not None
            assert record.error() is None, record.error()
            headers = dict(record.headers() or ())
            about = headers["amqp.dead-letter.subscription"], headers["ce_id"]
            found.add((text(about[0]), text(about[1])))
            left -= 1
        return found
    finally:
        consumer.close()


def policy_of(document: Document, kafka: KafkaBroker, redis: Redis, topic: str, letters: str) -> None:
    """Shared state, a lease that a busy machine keeps, and a dead-letter topic."""
    document.data["kafka"]["main"] = {"bootstrap": kafka.bootstrap}
    document.data["gateway"] |= {"state": redis.url, "lease": LEASE}
    next(each for each in document.scope()["addresses"] if "kafka" in each)["dead_letter"] = letters
    manager = document.scope()["subscriptions"][0]
    manager["name"] = topic  # nobody else's in the shared Redis
    manager["delivery"] = {"retry": {"min": "20ms", "max": "100ms"}}
    manager["sinks"] = [http_rule(free_port())]


@pytest.fixture
async def killed(
    tmp_path_factory: pytest.TempPathFactory, kafka_broker: KafkaBroker, redis_server: Redis, start_gateway: Gateways
) -> AsyncIterator[KilledGateway]:
    topic, letters = kafka_broker.create_topic(partitions=2), kafka_broker.create_topic()
    document = subscription_policy(tmp_path_factory.mktemp("kills"), topics={topic: 2})
    policy_of(document, kafka_broker, redis_server, topic, letters)
    api = ApiClient(int(document.scope()["api"][0]["bind"].rpartition(":")[2]))
    async with http_sink(port=sink_ports(document)[0]) as sink:
        gateway = start_gateway(document.text)
        events, draw = EventWriter(kafka_broker.bootstrap), random.Random(SEED)
        made = KilledGateway(gateway, api, events, topic, sink, redis_server, draw)
        made.held.set()
        sink.answer = made.answer
        for order in ORDERS:
            assert (await api.ask("POST", PATH, proposal(made, order))).status == 201
        yield made
        await eventually(made.all_stored)  # what was refused is done with when its copy is written
        copies = await asyncio.to_thread(dead_letters, kafka_broker.bootstrap, letters)
        assert copies == {(order, id) for order in ORDERS for id in made.refused}


@pytest.mark.row("CE-4-2", "CE-P-1", "CE-3.2.1-9")
async def test_a_kill_in_each_phase_loses_nothing(killed: KilledGateway) -> None:
    for phase in PHASES:
        await killed.settle()
        await kill_in(phase, killed)


@pytest.mark.soak
async def test_kills_in_drawn_phases_lose_nothing(killed: KilledGateway) -> None:
    end, done = time.monotonic() + SECONDS, Counter[str]()
    while done.total() < KILLS if KILLS else time.monotonic() < end:
        phase = killed.draw.choice(PHASES)
        if killed.draw.random() < 0.2:
            await killed.settle()
        await kill_in(phase, killed)
        done[phase.__name__] += 1
    print(f"{done.total()} kills, {killed.came} requests for {killed.written * len(ORDERS)} events: {done}")
