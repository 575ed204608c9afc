"""Filters of every dialect, from the API to the sink (CE-E2E-4)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.support.gateway.gateway import Gateway, Gateways
from tests.support.servers.http_sink import HttpSinkServer, http_sink
from tests.support.subscriptions.api import ApiClient, EventWriter, api_port, sink_ports, subscription_policy

PATH = "/subscriptions"


class Dialects:
    """A gateway whose manager offers all dialects."""

    def __init__(self, gateway: Gateway, port: int, sink: int) -> None:
        self.client = ApiClient(port)
        self.port = sink
        self.sink = f"http://127.0.0.1:{sink}"
        self.writer = EventWriter(gateway)

    def ask(self, method: str, path: str, **members: Any) -> Any:
        return self.client.request(method, path, {"protocol": "HTTP", "sink": f"{self.sink}/x", **members})

    def make(self, name: str, members: dict[str, Any]) -> None:
        answer = self.ask("POST", PATH, id=name, sink=f"{self.sink}/{name}", **members)
        assert answer.status == 201, answer.json

    def end(self, names: list[str]) -> None:
        for name in names:
            assert self.client.request("DELETE", f"{PATH}/{name}").status == 200

    def write(self) -> None:
        """Four events, and a record that is none, before the last of them."""
        write = self.writer.write
        write("orders", "0", "order.made", subject="a.jpg")
        write("orders", "1", "order.paid", subject="a.png", time="2018-04-05T17:31:00Z")
        write("orders", "2", "image.made", subject="b.jpg", partitionkey="k")
        self.writer.plain("orders", b"no event", type="order.made")
        write("orders", "3", "order.paid", count="5")


@pytest.fixture(scope="module")
def dialects(tmp_path_factory: pytest.TempPathFactory, start_module_gateway: Gateways) -> Dialects:
    offered = ["basic", "filters", "sql", "amqp-sql"]
    document = subscription_policy(tmp_path_factory.mktemp("dialects"), dialects=offered, limits={"unindexed": 4})
    (first,) = document.scope()["subscriptions"]
    document.scope()["subscriptions"].append({**first, "name": "wrapping", "path": "/wrapping", "others": "wrap"})
    gateway = start_module_gateway(document.text)
    return Dialects(gateway, api_port(document), sink_ports(document)[0])


EXACT = {"type": "exact", "property": "type", "value": "x"}


@pytest.mark.row("CE-3.2.1-10", "CE-3.2.3-1", "CE-3.2.3-3", "CE-3.2.3-4", "CE-3.2.3-5", "CE-3.2.3.1-2", "CE-3.2.3-7")
@pytest.mark.parametrize(
    ("members", "field"),
    [
        ({"filter": {"filters": []}}, "/filter/dialect"),
        ({"filter": {"dialect": 5, "filters": []}}, "/filter/dialect"),
        ({"filter": {"dialect": "jq", "expression": "."}}, "/filter/dialect"),
        ({"filter": {"basic": {"dialect": "basic"}}}, "/filter/dialect"),
        ({"filter": {"dialect": "basic"}}, "/filter/filters"),
        ({"filter": {"dialect": "basic", "filters": [], "conditions": []}}, "/filter/conditions"),
        ({"filter": {"dialect": "basic", "filters": [], "any": 1}}, "/filter/any"),
        ({"filter": {"dialect": "basic", "filters": [EXACT, {**EXACT, "type": "contains"}]}}, "/filter/filters/1/type"),
        ({"filter": {"dialect": "sql", "expression": "type ="}}, "/filter/expression"),
        ({"filter": {"dialect": "sql", "expression": "NOW() = 1"}}, "/filter/expression"),
        ({"filter": {"dialect": "amqp-sql", "expression": "a ="}}, "/filter/expression"),
        ({"filters": [{"not": {"sql": "type LIKE subject"}}]}, "/filters/0/not/sql"),
        ({"filters": [{"exact": {}}]}, "/filters/0/exact"),
        ({"filters": [], "filter": {"dialect": "basic", "filters": []}}, "/filters"),
        ({"types": [""]}, "/types/0"),
        ({"source": ""}, "/source"),
    ],
)
def test_mistakes_of_filters_on_create_and_update(dialects: Dialects, members: dict[str, Any], field: str) -> None:
    if dialects.client.request("GET", f"{PATH}/kept").status == 404:
        assert dialects.ask("POST", PATH, id="kept").status == 201
    for method, path in (("POST", PATH), ("PUT", f"{PATH}/kept")):
        answer = dialects.ask(method, path, **members)
        assert (answer.status, answer.json["error"]) == (400, "invalid")
        assert [each["field"] for each in answer.json["mistakes"]] == [field]
    assert not {"filter", "filters", "types", "source"} & dialects.client.request("GET", f"{PATH}/kept").json.keys()


@pytest.mark.row("CE-3.2.3.1-9")
def test_the_example_with_its_trailing_comma_is_no_json(dialects: Dialects) -> None:
    body = b'{"protocol": "HTTP", "filter": {"dialect": "basic", "filters": [{"type": "exact"},]}}'
    answer = dialects.client.request("POST", PATH, body)
    assert (answer.status, answer.json["error"]) == (400, "invalid")


@pytest.mark.row("CE-3.2.3.1-2")
@pytest.mark.parametrize("key", ["filters", "conditions"])
def test_the_object_keeps_the_key_that_came(dialects: Dialects, key: str) -> None:
    given = {"dialect": "basic", key: [EXACT]}
    answer = dialects.ask("POST", f"{PATH}?dry=1", filter=given)
    assert answer.status == 200
    assert answer.json["filter"] == given


def test_the_number_of_filters_that_cannot_be_looked_up_is_bounded(dialects: Dialects) -> None:
    for number in range(4):
        made = dialects.ask("POST", PATH, id=f"slow-{number}", filters=[{"sql": f"amount > {number}"}])
        assert made.status == 201
    second = dialects.ask("POST", PATH, filters=[{"not": {"exact": {"type": "x"}}}])
    assert second.status == 400
    assert "exact, prefix or suffix" in second.json["mistakes"][0]["message"]
    assert dialects.ask("PUT", f"{PATH}/slow-0", filters=[{"sql": "amount > 9"}]).status == 200
    looked_up = [{"sql": "amount > 1"}, {"prefix": {"subject": "a"}}]
    assert dialects.ask("POST", PATH, id="slow-4", filters=looked_up).status == 201
    for number in range(5):
        assert dialects.client.request("DELETE", f"{PATH}/slow-{number}").status == 200


# -- delivered


def condition(kind: str, name: str, value: str) -> dict[str, str]:
    return {"type": kind, "property": name, "value": value}


def basic(*conditions: dict[str, str], key: str = "filters") -> dict[str, Any]:
    return {"filter": {"dialect": "basic", key: list(conditions)}}


def expression(dialect: str, text: str) -> dict[str, Any]:
    return {"filter": {"dialect": dialect, "expression": text}}


WANTED: dict[str, tuple[dict[str, Any], str]] = {
    "absent": ({}, "0123"),
    "null": ({"filter": None}, "0123"),
    "empty": (basic(), "0123"),
    "exact": (basic(condition("exact", "type", "order.made")), "0"),
    "prefix": (basic(condition("prefix", "type", "order.")), "013"),
    "suffix": (basic(condition("suffix", "subject", ".jpg")), "02"),
    "time": (basic(condition("prefix", "time", "2018-04-05T17:31:00")), "1"),
    "integer": (basic(condition("exact", "count", "5")), "3"),
    "extension": (basic(condition("exact", "partitionkey", "k")), "2"),
    "nowhere": (basic(condition("prefix", "missing", "")), ""),
    "conditions": (
        basic(condition("prefix", "type", "order."), condition("suffix", "subject", ".jpg"), key="conditions"),
        "0",
    ),
    "not": ({"filters": [{"not": {"exact": {"subject": "a.jpg"}}}]}, "123"),
    "any": ({"filters": [{"any": [{"exact": {"count": "5"}}, {"prefix": {"subject": "b"}}]}]}, "23"),
    "sql": (expression("sql", "type LIKE 'order.%' AND EXISTS count AND count > 4"), "3"),
    "message": (expression("amqp-sql", "p.content_type = 'application/json' AND a.[cloudEvents:count] = '5'"), "3"),
    "types": ({"types": ["order.made", "order.gone"], "source": "/orders"}, "0"),
}


@pytest.mark.row(
    "CE-3.2.1-7", "CE-3.2.1-8", "CE-3.2.1-9", "CE-3.2.1-13", "CE-3.2.3-1", "CE-3.2.3-2", "CE-3.2.3-6", "CE-3.2.3-7",
    "CE-3.2.3.1-1", "CE-3.2.3.1-2", "CE-3.2.3.1-4", "CE-3.2.3.1-5", "CE-3.2.3.1-6", "CE-3.2.3.1-7", "CE-3.2.3.1-8",
    "CE-3.2.3.1-10",
)  # fmt: skip
async def test_each_sink_gets_the_events_of_its_filter(dialects: Dialects) -> None:
    """Each subscription has a path of its own at one sink, and sees an event of its own behind all others."""
    expected = {name: wanted for name, (_, wanted) in WANTED.items()}
    count = sum(map(len, expected.values()))
    await asyncio.to_thread(dialects.client.request, "DELETE", f"{PATH}/kept")
    async with http_sink(port=dialects.port) as sink:
        for name, (members, _) in WANTED.items():
            await asyncio.to_thread(dialects.make, name, members)
        await asyncio.to_thread(dialects.write)
        await sink.wait_for(count)
        await asyncio.to_thread(dialects.writer.write, "orders", "4", subject="a.jpg", type="other")
        await sink.wait_for(count + len(AFTERWARDS))
        await asyncio.to_thread(dialects.end, list(WANTED))
    found = {name: "".join(sorted(ids_at(sink, name))) for name in WANTED}
    assert found == {name: ids + "4" * (name in AFTERWARDS) for name, ids in expected.items()}
    assert len(sink.requests) == count + len(AFTERWARDS), "nothing comes twice"


AFTERWARDS = {"absent", "null", "empty", "suffix"}
"""Who wants the event behind all others."""


def ids_at(sink: HttpSinkServer, name: str) -> set[str]:
    return {request.header("ce-id") or "?" for request in sink.requests if request.path == f"/{name}"}


@pytest.mark.row("CE-3.2.3.1-10", "CE-1-1", "CE-1-2")
async def test_records_that_are_no_events_are_wrapped_where_the_policy_says_so(dialects: Dialects) -> None:
    """Two managers over one topic: each delivers a copy of what it takes for an event."""
    wrapped = {"id": "wrapped", "sink": f"{dialects.sink}/wrapped", "types": ["kafka.record", "order.made"]}
    async with http_sink(port=dialects.port) as sink:
        answer = await asyncio.to_thread(dialects.ask, "POST", "/wrapping", **wrapped)
        assert answer.status == 201
        await asyncio.to_thread(dialects.make, "events", {})
        await asyncio.to_thread(dialects.writer.plain, "orders", b"plain")
        await asyncio.to_thread(dialects.writer.write, "orders", "5", "order.made")
        await sink.wait_for(3)
        await asyncio.to_thread(dialects.end, ["events"])
        await asyncio.to_thread(dialects.client.request, "DELETE", "/wrapping/wrapped")
    (made,) = [request for request in sink.requests if request.path == "/events"]
    assert made.header("ce-id") == "5"
    bodies = {request.header("ce-type"): request.body for request in sink.requests if request.path == "/wrapped"}
    assert bodies == {"kafka.record": b"plain", "order.made": b"{}"}
