"""A subscription from its creation to its end, with a sink that gets the events between (CE-E2E-1)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import pytest

from tests.support.gateway.gateway import Gateway, Gateways
from tests.support.servers.http_sink import HttpSinkServer, http_sink, status
from tests.support.subscriptions.api import PATH, ApiClient, EventWriter, api_port, sink_ports, subscription_policy

TYPE = "com.example.order."


class Running(NamedTuple):
    """A gateway with a topic, a client of its API and two sinks."""

    gateway: Gateway
    api: ApiClient
    events: EventWriter
    sink: HttpSinkServer
    other: HttpSinkServer

    def proposal(self, **more: Any) -> dict[str, Any]:
        """A subscription to orders."""
        prefix = {"type": "prefix", "property": "type", "value": TYPE}
        wanted = {"dialect": "basic", "filters": [prefix]}
        whole = {"protocol": "HTTP", "sink": f"{self.sink.url}/hook", "filter": wanted}
        return {**whole, **more}


@pytest.fixture
async def running(tmp_path_factory: pytest.TempPathFactory, start_gateway: Gateways) -> AsyncIterator[Running]:
    document = subscription_policy(tmp_path_factory.mktemp("lifecycle"))
    first, second, _ = sink_ports(document)
    managers = document.scope()["subscriptions"]
    managers.append({**managers[0], "name": "copies", "path": "/copies"})
    gateway = start_gateway(document.text)
    async with http_sink(port=first) as sink, http_sink(port=second) as other:
        yield Running(gateway, ApiClient(api_port(document)), EventWriter(gateway), sink, other)


def ids(sink: HttpSinkServer) -> list[str | None]:
    """The events that a sink has got."""
    return [each.header("ce-id") for each in sink.requests]


@pytest.mark.row("CE-1-1", "CE-3-1", "CE-3.1.5-1", "CE-3-2", "CE-3-4", "CE-3.2.1-11", "CE-3.2.1-12", "CE-3.2.1-8")
@pytest.mark.row("CE-3.2-1", "CE-3.3-1")
@pytest.mark.row("CE-3.2.4-1", "CE-3.2.4-2", "CE-3.2.4-3", "CE-3.2.4-4", "CE-3.2.4-5", "CE-3.2.4.1-1", "CE-3.2.4.1-3")
@pytest.mark.row("CE-3.2.4.1-4", "CE-3.2.4.1-7", "CE-3.2.4.1-8", "CE-3.2.4.2-1", "CE-3.2.4.3-1", "CE-3.2.4.3-2")
@pytest.mark.row("CE-3.2.4.3-3", "CE-3.2.4.4-1", "CE-3.2.4.4-3", "CE-3.2.4.4-4", "CE-3.2.8-1", "CE-3.2.8-3", "CE-4-1")
async def test_lifecycle(running: Running) -> None:
    api, events, sink, other = running.api, running.events, running.sink, running.other
    offered = await api.ask("OPTIONS")
    assert offered.headers["allow"] == "GET, HEAD, POST, OPTIONS"
    assert offered.json["operations"] == ["create", "retrieve", "query", "update", "delete"]
    assert offered.json["protocols"] == ["HTTP"]

    events.write("orders", "before")
    made = await api.ask("POST", PATH, running.proposal())
    assert made.status == 201
    at = made.headers["location"]
    assert at == f"{PATH}/{made.json['id']}"
    assert made.json["protocolsettings"] == {"method": "POST"}
    assert (await api.ask("GET", at)).json == made.json
    assert (await api.ask("GET")).json == [made.json]

    events.write("orders", "one", key="k", data='{"n": 1}')
    events.write("orders", "not wanted", type="com.example.return.created")
    events.write("orders", "two", key="k")
    await sink.wait_for(2)
    assert ids(sink) == ["one", "two"]
    request = sink.requests[0]
    assert (request.method, request.path, json.loads(request.body)) == ("POST", "/hook", {"n": 1})
    assert request.header("ce-type") == f"{TYPE}created"
    assert request.header("content-type") == "application/json"

    changed = await api.ask("PUT", at, running.proposal(sink=f"{other.url}/new", protocolsettings={"method": "PUT"}))
    assert (changed.status, changed.json["id"]) == (200, made.json["id"])
    assert (await api.ask("GET", at)).json == changed.json
    events.write("orders", "three")
    await other.wait_for(1)
    assert (ids(other), other.requests[0].method) == (["three"], "PUT")

    gone = await api.ask("DELETE", at)
    assert (gone.status, gone.json) == (200, changed.json)
    assert (await api.ask("GET", at)).status == 404
    assert (await api.ask("GET")).status == 204
    events.write("orders", "four")
    again = await api.ask("POST", PATH, running.proposal(id="later"))
    assert again.status == 201
    events.write("orders", "five")
    await sink.wait_for(3)
    assert ids(sink) == ["one", "two", "five"]
    assert ids(other) == ["three"]


async def test_status_and_test_events(running: Running) -> None:
    api, events, sink = running.api, running.events, running.sink
    made = await api.ask("POST", PATH, running.proposal(id="a"))
    assert made.status == 201
    tested = await api.ask("POST", f"{PATH}/a/test")
    assert (tested.status, tested.json["delivered"], tested.json["status"]) == (200, True, 204)
    assert sink.requests[0].header("ce-type") == "io.scopegate.test"
    again = await api.ask("POST", f"{PATH}/a/test")
    assert (again.status, again.json["error"]) == (429, "toomany")
    assert 0 < int(again.headers["retry-after"]) <= 5
    events.write("orders", "one")
    await sink.wait_for(2)
    reported = (await api.ask("GET", f"{PATH}/a/status")).json
    assert (reported["state"], reported["revision"], reported["guarantee"]) == ("active", 1, "at-least-once")
    assert reported["filter"] == "indexed"
    assert reported["effective"]["order"] == "key"


@pytest.mark.row("CE-1-2")
async def test_two_managers_of_one_topic_each_deliver_a_copy(running: Running) -> None:
    api, events, sink, other = running.api, running.events, running.sink, running.other
    assert (await api.ask("POST", PATH, running.proposal(id="a"))).status == 201
    assert (await api.ask("POST", "/copies", running.proposal(id="a", sink=other.url))).status == 201
    assert (await api.ask("GET", "/copies")).json != (await api.ask("GET")).json
    events.write("orders", "one")
    await sink.wait_for(1)
    await other.wait_for(1)
    assert ids(sink) == ids(other) == ["one"]


async def test_metrics_and_readiness_name_no_subscription(running: Running) -> None:
    api, events, sink, gateway = running.api, running.events, running.sink, running.gateway
    assert (await api.ask("POST", PATH, running.proposal(id="very-own-name"))).status == 201
    sink.answer = lambda request: status(400 if request.header("ce-id") == "bad" else 204)
    for id in ("one", "bad", "two"):
        events.write("orders", id, key="k")
    await sink.wait_for(3)
    label = 'manager="edge/orders"'
    await asyncio.to_thread(
        gateway.wait_metric, f'scopegate_subscription_events_total{{{label},outcome="delivered",protocol="HTTP"}}',
        lambda value: value == 2,
    )  # fmt: skip
    found = gateway.metrics()
    assert found[f'scopegate_subscriptions{{{label},protocol="HTTP",state="active"}}'] == 1
    assert found[f'scopegate_subscription_events_total{{{label},outcome="refused",protocol="HTTP"}}'] == 1
    assert found[f"scopegate_subscription_oldest_seconds{{{label}}}"] == 0
    assert (await api.ask("DELETE", f"{PATH}/very-own-name")).status == 200
    after = gateway.metrics()  # what has happened stays counted
    assert after[f'scopegate_subscription_events_total{{{label},outcome="delivered",protocol="HTTP"}}'] == 2
    assert "very-own-name" not in gateway.get("/metrics")[1] + gateway.get("/readyz")[1]
    assert json.loads(gateway.get("/readyz")[1])["parts"]["subscriptions/edge/orders"]["ready"]
