"""Subscriptions outlive their processes: restarts, kills, and two gateways that share them (CE-E2E-10)."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.support.gateway.document import Document
from tests.support.gateway.forwarder import Forwarder
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.process import PATIENCE, free_port
from tests.support.gateway.warm import shortened
from tests.support.servers.http_sink import NO_CONTENT, HttpSinkServer, SunkRequest, http_sink, status
from tests.support.servers.kafka import KafkaBroker
from tests.support.servers.servers import Redis
from tests.support.subscriptions.api import PATH, ApiClient, EventWriter, eventually, sink_ports, subscription_policy

AT = f"{PATH}/a"
LEASE = "5s"
"""Longer than a gateway or Redis stands still on a busy machine: without its lease, one delivers again what it did."""
PATIENT = shortened({"bridges.cloudevents.dispatch.stored.remote_records._TIMEOUT": 6.0})
"""Gateways that wait longer for the owner of what was changed, for the same reason."""


class Shared(NamedTuple):
    """A broker, a Redis, a sink, and the policy of gateways that share them."""

    document: Document
    topic: str
    events: EventWriter
    sink: HttpSinkServer

    def policy(self, lease: str = LEASE) -> tuple[str, ApiClient]:
        """The policy of another gateway, and a client of its API."""
        other, port = self.document.but(), free_port()
        edge, http = free_port(), free_port()
        other.data["gateway"] |= {"id": f"gw-{port}", "http": f"127.0.0.1:{http}", "lease": lease}
        other.scope()["listen"][0]["bind"] = f"127.0.0.1:{edge}"
        other.scope()["api"][0]["bind"] = f"127.0.0.1:{port}"
        other.scope()["subscriptions"][0]["handshake"] = {"origin": f"gw-{port}.example"}
        return other.text, ApiClient(port)

    def proposal(self) -> dict[str, object]:
        """A subscription to all events."""
        return {"id": "a", "protocol": "HTTP", "sink": f"{self.sink.url}/"}

    def write(self, *names: str) -> None:
        """Some events."""
        for name in names:
            self.events.write(self.topic, name, key="k")

    async def arrive(self, *names: str) -> None:
        """Wait until the sink has had them all."""

        async def arrived() -> bool:
            return set(names) <= {each.header("ce-id") for each in self.sink.requests}

        await eventually(arrived)


@pytest.fixture
async def shared(
    tmp_path_factory: pytest.TempPathFactory, kafka_broker: KafkaBroker, redis_server: Redis
) -> AsyncIterator[Shared]:
    topic = kafka_broker.create_topic()
    document = subscription_policy(tmp_path_factory.mktemp("restart"), topics={topic: 1})
    document.data["kafka"]["main"] = {"bootstrap": kafka_broker.bootstrap}
    document.data["gateway"]["state"] = redis_server.url
    document.scope()["subscriptions"][0]["name"] = topic  # nobody else's in the shared Redis
    async with http_sink(port=sink_ports(document)[0]) as sink:
        yield Shared(document, topic, EventWriter(kafka_broker.bootstrap), sink)


async def active(api: ApiClient) -> None:
    """Wait until a gateway delivers the subscription."""

    async def delivered() -> bool:
        return bool((await api.ask("GET", f"{AT}/status")).json.get("here"))

    await eventually(delivered)


@pytest.mark.row("CE-4-2", "CE-3.2.1-12")
@pytest.mark.parametrize("orderly", [True, False])
async def test_a_restart_loses_nothing(shared: Shared, start_gateway: Gateways, orderly: bool) -> None:
    text, api = shared.policy()
    gateway = start_gateway(text)
    made = await api.ask("POST", PATH, shared.proposal())
    assert made.status == 201
    shared.write("one", "two")
    await shared.arrive("one", "two")
    await asyncio.to_thread(gateway.stop if orderly else gateway.kill)
    shared.write("three")
    await asyncio.to_thread(gateway.restart)
    assert (await api.ask("GET", AT)).json == made.json
    shared.write("four")
    await shared.arrive("three", "four")
    if orderly:
        assert [each.header("ce-id") for each in shared.sink.requests] == ["one", "two", "three", "four"]


@pytest.mark.row("CE-P-2")
async def test_two_gateways_share_subscriptions(shared: Shared, start_gateway: Gateways) -> None:
    (first, one), (second, two) = shared.policy(), shared.policy()
    leader = start_gateway(first)
    made = await one.ask("POST", PATH, shared.proposal())
    assert made.status == 201
    await active(one)
    start_gateway(second, env=PATIENT)
    assert (await two.ask("GET", AT)).json == made.json
    assert (await two.ask("POST", PATH, shared.proposal())).status == 409
    shared.write("one")
    await shared.arrive("one")
    changed = await two.ask("PUT", AT, {**shared.proposal(), "sink": f"{shared.sink.url}/changed"})
    assert changed.status == 200  # a change is seen by the one that delivers

    async def seen() -> bool:
        return (await one.ask("GET", AT)).json == changed.json

    await eventually(seen)
    shared.write("two")
    await shared.arrive("two")
    assert [(each.header("ce-id"), each.path) for each in shared.sink.requests] == [("one", "/"), ("two", "/changed")]
    await asyncio.to_thread(leader.kill)
    shared.write("three")
    await shared.arrive("three")
    assert (await two.ask("DELETE", AT)).json == changed.json


@pytest.mark.row("CE-P-2")
async def test_a_change_at_another_gateway_is_answered_when_it_is_in_force(
    shared: Shared, start_gateway: Gateways
) -> None:
    (first, one), (second, two) = shared.policy("30s"), shared.policy("30s")
    owner = start_gateway(first)
    assert (await one.ask("POST", PATH, shared.proposal())).status == 201
    await active(one)
    start_gateway(second, env=PATIENT)
    for number in range(10):
        changed = await two.ask("PUT", AT, {**shared.proposal(), "sink": f"{shared.sink.url}/{number}"})
        assert changed.status == 200, changed.body
        reported = (await two.ask("GET", f"{AT}/status")).json
        assert (reported["applied"], reported["here"]) == (reported["revision"], False)
        shared.write(str(number))
        await shared.arrive(str(number))
    assert [(each.path, each.header("ce-id")) for each in shared.sink.requests] == [
        (f"/{number}", str(number)) for number in range(10)
    ]
    shared.sink.answer = lambda request: status(410)
    shared.write("gone")

    async def suspended() -> bool:
        return (await two.ask("GET", f"{AT}/status")).json["state"] == "suspended"

    await eventually(suspended)
    shared.sink.answer = lambda request: NO_CONTENT
    assert (await two.ask("POST", f"{AT}/resume")).json["state"] == "active"
    shared.write("again")
    await shared.arrive("again")

    owner.process.send_signal(signal.SIGSTOP)
    late = await two.ask("PUT", AT, shared.proposal())
    assert late.status == 202, "the owner has not applied it, and the answer says so"
    reported = (await two.ask("GET", f"{AT}/status")).json
    assert reported["applied"] < reported["revision"]
    assert (await two.ask("DELETE", AT)).status == 202
    owner.process.send_signal(signal.SIGCONT)
    made = await two.ask("POST", PATH, shared.proposal())
    assert made.status == 201
    assert (await two.ask("DELETE", AT)).status == 200


async def test_lag_tools_see_the_lowest_unfinished_offset(
    shared: Shared, start_gateway: Gateways, kafka_broker: KafkaBroker
) -> None:
    text, api = shared.policy()
    start_gateway(text)
    assert (await api.ask("POST", PATH, shared.proposal())).status == 201
    shared.sink.answer = lambda request: status(503 if request.header("ce-id") == "two" else 204)
    shared.write("one", "two", "three")
    await shared.arrive("one", "two")
    group = f"amqp.subscriptions.edge.{shared.topic}"
    reader = Consumer({"bootstrap.servers": kafka_broker.bootstrap, "group.id": group})

    async def committed(offset: int) -> None:
        def look() -> int:
            (at,) = reader.committed([TopicPartition(shared.topic, 0)], PATIENCE)
            return int(at.offset)

        await eventually(lambda: _is(look, offset))

    try:
        await committed(1)
        shared.sink.answer = lambda request: NO_CONTENT
        await shared.arrive("three")
        await committed(3)
    finally:
        await asyncio.to_thread(reader.close)


async def _is(look: Callable[[], int], wanted: int) -> bool:
    return await asyncio.to_thread(look) == wanted


@pytest.mark.row("CE-3.2.1-9", "CE-P-1", "CE-4-2")
@pytest.mark.parametrize("kills", [1, pytest.param(3, marks=pytest.mark.soak)])
async def test_kills_under_load_lose_nothing_and_keep_each_key_in_order(
    shared: Shared, start_gateway: Gateways, kills: int
) -> None:
    text, api = shared.policy()
    gateway = start_gateway(text)
    assert (await api.ask("POST", PATH, shared.proposal())).status == 201
    names = [f"{number % 7}-{number}" for number in range(300 * kills)]
    for round_ in range(kills):
        for name in names[round_ * 300 : round_ * 300 + 300]:
            shared.events.write(shared.topic, name, key=name[0], wait=name is names[round_ * 300 + 299])
        had = len(shared.sink.requests)
        await eventually(lambda had=had: _more(shared, had + 20))  # type: ignore[misc]
        await asyncio.to_thread(gateway.kill)  # with events under way and outcomes not written yet
        await asyncio.to_thread(gateway.restart)
    await shared.arrive(*names)
    firsts = Counter(str(each.header("ce-id")) for each in shared.sink.requests)
    for key in range(7):
        arrived = [name for name in firsts if name.startswith(f"{key}-")]
        assert arrived == [name for name in names if name.startswith(f"{key}-")]
    assert max(firsts.values()) <= kills + 1


async def _more(shared: Shared, count: int) -> bool:
    """Whether the sink has had so many requests."""
    return len(shared.sink.requests) >= count


@pytest.mark.row("CE-P-2")
async def test_a_gateway_that_sleeps_longer_than_its_lease_delivers_nothing_more(
    shared: Shared, start_gateway: Gateways
) -> None:
    (first, one), (second, two) = shared.policy(), shared.policy()
    sleeper = start_gateway(first)
    assert (await one.ask("POST", PATH, shared.proposal())).status == 201
    await active(one)
    heir = start_gateway(second)
    answering = asyncio.Event()

    async def answer(request: SunkRequest) -> bytes:
        if request.header("ce-id") == "slow":
            await answering.wait()
        return NO_CONTENT

    shared.sink.answer = answer
    shared.write("slow")
    await shared.arrive("slow")
    sleeper.process.send_signal(signal.SIGSTOP)
    shared.write("while")
    await active(two)
    answering.set()  # the sleeper finds the answer when it wakes
    await shared.arrive("while")
    shared.write(*map(str, range(10)))
    await shared.arrive(*map(str, range(10)))
    sleeper.process.send_signal(signal.SIGCONT)
    await asyncio.to_thread(sleeper.wait_log, "group leases lost")
    shared.write("after")
    await shared.arrive("after")
    origins = [request.header("webhook-request-origin") for request in shared.sink.requests]
    assert origins[0] == f"gw-{one.port}.example"
    assert set(origins[1:]) == {f"gw-{two.port}.example"}
    came = [each.header("ce-id") for each in shared.sink.requests]
    assert came == ["slow", "slow", "while", *map(str, range(10)), "after"]
    await asyncio.to_thread(heir.stop)  # the position is the heir's, whatever the sleeper would have written
    await active(one)
    shared.write("last")
    await shared.arrive("last")
    assert [each.header("ce-id") for each in shared.sink.requests][len(came) :] == ["last"]


@pytest.mark.row("CE-P-2")
async def test_a_gateway_that_is_cut_off_from_the_state_delivers_until_its_lease_ends(
    shared: Shared, start_gateway: Gateways, redis_server: Redis
) -> None:
    (first, one), (second, two) = shared.policy(), shared.policy()
    with Forwarder(redis_server.port) as line:
        start_gateway(first.replace(f":{redis_server.port}/", f":{line.port}/"))
        assert (await one.ask("POST", PATH, shared.proposal())).status == 201
        await active(one)
        heir = start_gateway(second)
        shared.write("before")
        await shared.arrive("before")
        await asyncio.to_thread(line.cut)
        shared.write(*map(str, range(20)))
        await active(two)
        assert (await one.ask("PUT", AT, shared.proposal())).status == 503
        assert (await one.ask("GET", AT)).status == 200  # from memory
        shared.write("while")
        await shared.arrive(*map(str, range(20)), "while")
        origins = [request.header("webhook-request-origin") for request in shared.sink.requests]
        assert origins == sorted(origins, key=f"gw-{two.port}.example".__eq__), "never both, and never back"
        await asyncio.to_thread(line.mend)

        async def follows() -> bool:
            return (await one.ask("PUT", AT, shared.proposal())).status == 200

        await eventually(follows)
        count = len(shared.sink.requests)
        shared.write("after")
        await shared.arrive("after")
        await asyncio.to_thread(heir.stop)  # the position is the heir's
        await active(one)
        shared.write("last")
        await shared.arrive("last")
        assert [each.header("ce-id") for each in shared.sink.requests][count:] == ["after", "last"]


@pytest.mark.row("CE-3.2.4.1-5", "CE-P-2")
async def test_one_id_at_once_at_two_gateways_is_created_once(shared: Shared, start_gateway: Gateways) -> None:
    (first, one), (second, two) = shared.policy(), shared.policy()
    start_gateway(first)
    start_gateway(second)
    for number in range(10):
        body = {**shared.proposal(), "id": f"s{number}"}
        answers = await asyncio.gather(*(api.ask("POST", PATH, body) for api in (one, two, one, two)))
        assert sorted(each.status for each in answers) == [201, 409, 409, 409]


@pytest.mark.row("CE-3.2.1-12")
async def test_a_subscription_begins_at_a_time(shared: Shared, start_gateway: Gateways) -> None:
    policy, api = shared.policy()
    start_gateway(policy)
    shared.write("before")
    await asyncio.sleep(0.005)  # its timestamp has milliseconds
    moment = now()
    await asyncio.sleep(0.005)
    shared.write("after")
    made = await api.ask("POST", PATH, {**shared.proposal(), "config": {"start": moment}})
    assert made.status == 201, made.body
    await shared.arrive("after")
    later = await api.ask("POST", PATH, {**shared.proposal(), "id": "end", "config": {"start": now()}})
    assert later.status == 201, later.body
    ends = (await api.ask("GET", f"{PATH}/end/export")).json["positions"]
    assert [each["offsets"] for each in ends.values()] == [{"0": f"{2:020}"}], "no event is as young: the end"
    shared.write("more")
    await shared.arrive("more")
    assert "before" not in [each.header("ce-id") for each in shared.sink.requests]


def now() -> str:
    """A time as the object has it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
