"""The shared state under subscriptions that deliver: away, and back without what was in it; and a right that goes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any, NamedTuple

import pytest

from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateway, Gateways
from tests.support.plugins.fixtures import served
from tests.support.servers.http_sink import HttpSinkServer, http_sink
from tests.support.servers.servers import Redis
from tests.support.subscriptions.api import (
    PATH,
    ApiClient,
    EventWriter,
    api_port,
    eventually,
    sink_ports,
    subscription_policy,
)

AT = f"{PATH}/a"
KEYS = 5


class Shared(NamedTuple):
    """A gateway with an embedded Kafka and a Redis of its own, and a sink."""

    document: Document
    gateway: Gateway
    api: ApiClient
    events: EventWriter
    sink: HttpSinkServer
    redis: Redis

    def proposal(self) -> dict[str, Any]:
        """A subscription to all events."""
        return {"id": "a", "protocol": "HTTP", "sink": f"{self.sink.url}/"}

    async def created(self) -> bool:
        """Whether it can be created now."""
        return (await self.api.ask("POST", PATH, self.proposal())).status == 201

    async def created_before(self) -> bool:
        """Whether the store says that it is there."""
        return (await self.api.ask("POST", PATH, self.proposal())).status == 409

    async def refused(self) -> bool:
        """Whether changes are refused, and nothing is done."""
        return (await self.api.ask("PUT", AT, self.proposal())).status == 503

    async def gone(self) -> bool:
        """Whether it is not there any more."""
        return (await self.api.ask("GET", AT)).status == 404

    async def write(self, *numbers: int) -> None:
        """Events with these numbers, each of five keys."""

        def write() -> None:
            for number in numbers:
                self.events.write("orders", str(number), key=f"k{number % KEYS}", wait=number == numbers[-1])

        await asyncio.to_thread(write)

    def came(self) -> list[int]:
        """The numbers of the events that came."""
        return [int(request.header("ce-id") or -1) for request in self.sink.requests]

    async def arrive(self, *numbers: int) -> None:
        """Wait until these have come."""

        async def arrived() -> bool:
            return set(numbers) <= set(self.came())

        await eventually(arrived)

    async def delivers_nothing(self) -> bool:
        """Whether `/readyz` says that the manager has no subscription."""
        parts = json.loads((await asyncio.to_thread(self.gateway.get, "/readyz"))[1])["parts"]
        return bool(parts["subscriptions/edge/orders"]["detail"] == "delivering 0 of 0")


@pytest.fixture
def redis() -> Iterator[Redis]:
    """A Redis that tests may end."""
    yield from served(Redis())


@pytest.fixture
async def shared(
    tmp_path_factory: pytest.TempPathFactory, redis: Redis, start_gateway: Gateways
) -> AsyncIterator[Shared]:
    document = subscription_policy(tmp_path_factory.mktemp("state"))
    document.data["gateway"] |= {"state": redis.url, "lease": "1s"}
    gateway = start_gateway(document.text)
    async with http_sink(port=sink_ports(document)[0]) as sink:
        yield Shared(document, gateway, ApiClient(api_port(document)), EventWriter(gateway), sink, redis)


@pytest.mark.row("CE-4-2")
async def test_a_state_that_comes_back_empty_ends_subscriptions_and_says_so(shared: Shared) -> None:
    await eventually(shared.created)
    await shared.write(*range(5))
    await shared.arrive(*range(5))
    shared.redis.kill()
    await eventually(shared.refused)
    assert (await shared.api.ask("GET", AT)).status == 200  # from memory
    await asyncio.to_thread(shared.redis.start_empty)
    await eventually(shared.gone)
    await eventually(shared.delivers_nothing)  # its delivery ends a moment later
    assert shared.gateway.wait_log("the store has lost subscriptions", subscriptions=1)
    await shared.write(*range(5, 10))
    await eventually(shared.created)
    await shared.write(*range(10, 15))
    await shared.arrive(*range(10, 15))
    assert set(shared.came()) == {*range(5), *range(10, 15)}


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "POST"])
async def test_nobody_says_that_an_id_is_not_there_while_the_state_is_away(shared: Shared, method: str) -> None:
    await eventually(shared.created)
    shared.redis.kill()
    await eventually(shared.refused)
    path, body = {  # POST: of an id that another gateway may have deleted
        "POST": (PATH, shared.proposal()),
        "PUT": (f"{PATH}/b", {**shared.proposal(), "id": "b"}),
    }.get(method, (f"{PATH}/b", None))
    answer = await shared.api.ask(method, path, body)
    assert (answer.status, answer.json["error"], answer.headers["retry-after"]) == (503, "unavailable", "5")
    await asyncio.to_thread(shared.redis.start)
    await eventually(shared.created_before)


async def test_a_state_that_stores_nothing_makes_the_gateway_unready(shared: Shared) -> None:
    async def ready() -> bool:
        return (await asyncio.to_thread(shared.gateway.get, "/readyz"))[0] == 200

    async def unready() -> bool:
        return not await ready()

    await eventually(shared.created)
    shared.redis.command("CONFIG", "SET", "maxmemory", "1")
    await eventually(unready)
    assert (await shared.api.ask("PUT", AT, shared.proposal())).status == 503
    shared.redis.command("CONFIG", "SET", "maxmemory", "0")
    await eventually(ready)
    await shared.write(*range(5))
    await shared.arrive(*range(5))


async def test_a_right_that_is_taken_away_under_load_loses_and_moves_nothing(shared: Shared) -> None:
    await eventually(shared.created)
    without = shared.document.but()
    without.scope()["access"][1]["who"] = ["shipping"]
    for begin in (0, 600):
        await shared.write(*range(begin, begin + 300))
        await shared.arrive(begin)
        await asyncio.to_thread(shared.gateway.reload, without.text)
        had = len(shared.sink.requests)
        await shared.write(*range(begin + 300, begin + 600))
        assert (await shared.api.ask("GET", f"{AT}/status")).json["reason"].startswith("policy")
        assert len(shared.sink.requests) == had
        await asyncio.to_thread(shared.gateway.reload, shared.document.text)
        await shared.arrive(*range(begin, begin + 600))
    firsts = list(dict.fromkeys(shared.came()))
    for key in range(KEYS):
        of_key = [each for each in firsts if each % KEYS == key]
        assert of_key == sorted(of_key)
