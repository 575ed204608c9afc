"""A subscription that changes, is suspended by a reload, or ends, while events come (CE-E2E-10)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateway, Gateways
from tests.support.servers.http_sink import HttpSinkServer, http_sink
from tests.support.subscriptions.api import (
    PATH,
    USERS,
    ApiClient,
    EventWriter,
    api_port,
    eventually,
    sink_ports,
    subscription_policy,
    write_users,
)

ROUNDS = (pytest.param(20, 20, id="few"), pytest.param(100, 100, id="many", marks=pytest.mark.soak))
"""Updates, and events before each."""
AT = f"{PATH}/a"


class Running(NamedTuple):
    """A gateway with a topic, a client of its API and two sinks."""

    document: Document
    gateway: Gateway
    api: ApiClient
    events: EventWriter
    sinks: tuple[HttpSinkServer, HttpSinkServer]

    def proposal(self, which: int = 0, **more: Any) -> dict[str, Any]:
        """A subscription to what its sink is for: `a.…` goes to the first, `b.…` to the second."""
        prefix = {"prefix": {"type": "ab"[which] + "."}}
        return {"protocol": "HTTP", "sink": f"{self.sinks[which].url}/{which}", "filters": [prefix], **more}

    async def state(self) -> tuple[str, str | None]:
        """The state, and its reason."""
        reported = (await self.api.ask("GET", f"{AT}/status")).json
        return reported["state"], reported.get("reason")

    async def ended(self) -> bool:
        """Whether nothing is sent any more."""
        return (await self.state())[0] == "ended"

    async def forget_ended(self) -> None:
        """Let those that have ended be seen no longer: until then, a test has the time to look at them."""
        changed = self.document.but()
        changed.scope()["subscriptions"][0]["keep_ended"] = "0s"
        await asyncio.to_thread(self.gateway.reload, changed.text)

    async def gone(self) -> bool:
        """Whether it is not there any more."""
        return (await self.api.ask("GET", AT)).status == 404


@pytest.fixture
async def running(tmp_path_factory: pytest.TempPathFactory, start_gateway: Gateways) -> AsyncIterator[Running]:
    document = subscription_policy(tmp_path_factory.mktemp("update"))
    first, second, _ = sink_ports(document)
    gateway = start_gateway(document.text)
    async with http_sink(port=first) as one, http_sink(port=second) as two:
        api = ApiClient(api_port(document))
        yield Running(document, gateway, api, EventWriter(gateway), (one, two))


def ids(sink: HttpSinkServer) -> list[str]:
    return [each.header("ce-id") or "" for each in sink.requests]


@pytest.mark.parametrize(("rounds", "each"), ROUNDS)
@pytest.mark.row("CE-3.2.4.4-6", "CE-3.2.4.4-1")
async def test_each_event_is_judged_by_one_version(running: Running, rounds: int, each: int) -> None:
    assert (await running.api.ask("POST", PATH, running.proposal(id="a"))).status == 201
    for number in range(rounds):
        for event in range(each):
            kind = "ab"[event % 2]
            running.events.write("orders", f"{kind}{number}-{event}", type=f"{kind}.x", key=f"k{event % 5}")
        assert (await running.api.ask("PUT", AT, running.proposal((number + 1) % 2))).status == 200
        seen = len(running.sinks[number % 2].requests)
        await asyncio.sleep(0)
        assert len(running.sinks[number % 2].requests) == seen  # after the answer nothing goes to the old sink
    for which, kind in enumerate("ab"):
        assert all(request.path == f"/{which}" for request in running.sinks[which].requests)
        assert all(request.header("ce-type") == f"{kind}.x" for request in running.sinks[which].requests)


@pytest.mark.parametrize(("rounds", "each"), ROUNDS)
@pytest.mark.row("CE-3.2.4.4-6")
async def test_an_update_loses_no_event(running: Running, rounds: int, each: int) -> None:
    def everything(which: int) -> dict[str, Any]:
        return running.proposal(which, filters=[])

    assert (await running.api.ask("POST", PATH, {**everything(0), "id": "a"})).status == 201
    written = []
    for number in range(rounds):
        for event in range(each):
            written.append(f"{number}-{event}")
            running.events.write("orders", written[-1], key=f"k{event % 5}")
        assert (await running.api.ask("PUT", AT, everything((number + 1) % 2))).status == 200

    async def arrived() -> bool:
        return {*ids(running.sinks[0]), *ids(running.sinks[1])} >= set(written)

    await eventually(arrived)


async def test_a_reload_that_takes_the_right_away_suspends(running: Running) -> None:
    assert (await running.api.ask("POST", PATH, running.proposal(id="a"))).status == 201
    allowed = running.document.text
    for change in ("access", "sinks"):
        changed = running.document.but()
        if change == "access":
            changed.scope()["access"][1]["who"] = ["shipping"]
        else:
            del changed.scope()["subscriptions"][0]["sinks"][0]
        await asyncio.to_thread(running.gateway.reload, changed.text)
        assert await running.state() == ("suspended", "policy")
        before = ids(running.sinks[0])
        running.events.write("orders", f"while-{change}", type="a.x")
        assert (await running.api.ask("POST", f"{AT}/resume")).json["state"] == "suspended"  # the policy decides
        assert (await running.api.ask("POST", f"{AT}/test")).status == 409
        assert ids(running.sinks[0]) == before
        await asyncio.to_thread(running.gateway.reload, allowed)
        assert await running.state() == ("active", None)
        await running.sinks[0].wait_for(len(before) + 1)
        assert ids(running.sinks[0])[-1] == f"while-{change}"


async def test_a_user_who_is_removed_gets_no_events_any_more(running: Running) -> None:
    """Nobody has taken a right from the owner, who can log in no more: not even to delete the subscription."""
    operator = running._replace(api=ApiClient(running.api.port, "ops"))
    users = Path(running.document.scope()["api"][0]["users"])
    assert (await running.api.ask("POST", PATH, running.proposal(id="a"))).status == 201
    write_users(users, [name for name in USERS if name != "billing"])

    async def suspended() -> bool:
        return await operator.state() == ("suspended", "policy")

    await eventually(suspended)
    assert (await running.api.ask("GET", PATH)).status == 401
    running.events.write("orders", "while", type="a.x")
    assert ids(running.sinks[0]) == []
    write_users(users)
    await running.sinks[0].wait_for(1)
    assert ids(running.sinks[0]) == ["while"]


@pytest.mark.row("CE-P-4")
async def test_nothing_is_sent_after_its_end(running: Running) -> None:
    assert (await running.api.ask("POST", PATH, running.proposal(id="a"))).status == 201
    running.events.write("orders", "before", type="a.x")
    await running.sinks[0].wait_for(1)
    ends = datetime.now(UTC) + timedelta(seconds=3)
    config = {"expires": ends.isoformat().replace("+00:00", "Z")}
    assert (await running.api.ask("PUT", AT, running.proposal(config=config))).status == 200
    await eventually(running.ended)
    assert await running.state() == ("ended", "expired")
    running.events.write("orders", "after", type="a.x")
    await running.forget_ended()
    await eventually(running.gone)
    assert ids(running.sinks[0]) == ["before"]


async def test_a_number_of_events_ends_it(running: Running) -> None:
    body = running.proposal(id="a", config={"maxevents": 3})
    assert (await running.api.ask("POST", PATH, body)).status == 201
    for number in range(6):
        running.events.write("orders", str(number), type="a.x", key="k")
    await running.sinks[0].wait_for(3)
    await eventually(running.ended)
    assert await running.state() == ("ended", "maxevents")
    assert (await running.api.ask("POST", f"{AT}/test")).status == 409
    assert ids(running.sinks[0]) == ["0", "1", "2"]
