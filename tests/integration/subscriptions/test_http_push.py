"""Events pushed to HTTP sinks by the gateway's process: consent, rates, answers, order (CE-E2E-5)."""

from __future__ import annotations

import asyncio
import random
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple

import pytest

from tests.support.cloudevents.delivery import until
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.process import PATIENCE, free_port, wait_until
from tests.support.servers.http_sink import NO_CONTENT, HttpSinkServer, Script, SunkRequest, http_sink, status
from tests.support.subscriptions.api import (
    PATH,
    Answered,
    ApiClient,
    EventWriter,
    api_port,
    eventually,
    http_rule,
    subscription_policy,
)

ORIGIN = "gw.events.example"
CLOCK = 0.01
"""Seconds by which the clocks of loops are read too early: they count milliseconds."""
CONSENT = status(200, f"WebHook-Allowed-Origin: {ORIGIN}", "WebHook-Allowed-Rate: *")


class Push(NamedTuple):
    """A gateway, its client, who writes events, and the ports of sinks that the policy allows."""

    client: ApiClient
    events: EventWriter
    asked: Iterator[int]
    """Sinks that are asked for their consent."""
    edge: int
    denied: int
    unasked: int
    """A sink that is not asked."""

    async def create(self, url: str, **members: Any) -> Answered:
        body = {"protocol": "HTTP", "sink": url, **members}
        return await self.client.ask("POST", body=body)

    async def write(self, *arguments: Any, **members: Any) -> None:
        await asyncio.to_thread(self.events.write, *arguments, **members)


@pytest.fixture(scope="module")
def push(tmp_path_factory: pytest.TempPathFactory, start_module_gateway: Gateways) -> Push:
    asked = [free_port() for _ in range(16)]
    document = subscription_policy(
        tmp_path_factory.mktemp("http"),
        handshake={"origin": ORIGIN},
        delivery={"retry": {"min": "20ms", "max": "100ms"}},
    )
    local = {"networks": ["127.0.0.0/8"]}
    document.scope()["subscriptions"][0]["sinks"] = [
        {"protocol": "http", "to": f"http://127.0.0.1:{port}", **local} for port in asked
    ]
    unasked = free_port()
    document.scope()["subscriptions"][0]["sinks"].append(http_rule(unasked))
    gateway = start_module_gateway(document.text)
    client, events = ApiClient(api_port(document)), EventWriter(gateway)
    return Push(client, events, iter(asked), document.edge, free_port(), unasked)


@asynccontextmanager
async def sink(push: Push, answer: Script = lambda request: NO_CONTENT) -> AsyncIterator[HttpSinkServer]:
    """A sink that consents, and answers deliveries by a script."""

    def script(request: SunkRequest) -> Any:
        return CONSENT if request.method == "OPTIONS" else answer(request)

    async with http_sink(script, port=next(push.asked)) as server:
        yield server


def deliveries(server: HttpSinkServer) -> list[SunkRequest]:
    return [request for request in server.requests if request.method != "OPTIONS"]


async def arrived(server: HttpSinkServer, count: int) -> list[SunkRequest]:
    await until(lambda: len(deliveries(server)) >= count)
    return deliveries(server)


async def suspended(push: Push, made: Answered) -> dict[str, Any]:
    """The status, once the subscription is suspended."""
    path = f"{PATH}/{made.json['id']}/status"

    def reported() -> dict[str, Any] | None:
        found: dict[str, Any] = push.client.request("GET", path).json
        return found if found["state"] == "suspended" else None

    return await asyncio.to_thread(wait_until, reported, "a suspension") or {}


@pytest.mark.row("CE-W-1", "CE-W-2", "CE-W-4", "CE-3.2.2.1-1", "CE-3.2.2.1-3")
async def test_a_sink_that_consents_gets_events_with_the_settings(push: Push) -> None:
    async with sink(push) as server:
        settings = {"headers": {"x-tenant": "7"}}
        made = await push.create(f"{server.url}/in?a=b", protocolsettings=settings, types=["t.consent"])
        assert made.status == 201
        assert made.json["protocolsettings"]["method"] == "POST"
        assert [request.method for request in server.requests] == ["OPTIONS"]
        put = await push.create(f"{server.url}/put", protocolsettings={"method": "PUT"}, types=["t.consent"])
        await push.write("orders", "1", "t.consent", key="k")
        found = {request.method: request for request in await arrived(server, 2)}
        await push.client.ask("DELETE", f"{PATH}/{put.json['id']}")
    posted = found["POST"]
    assert (posted.path, posted.body) == ("/in?a=b", b"{}")
    assert found["PUT"].path == "/put"
    assert posted.header("webhook-request-origin") == ORIGIN
    assert (posted.header("ce-id"), posted.header("x-tenant")) == ("1", "7")
    assert posted.header("content-type") == "application/json"
    assert posted.header("scopegate-subscription") == made.json["id"]


@pytest.mark.row("CE-W-1")
async def test_a_sink_without_consent_hears_one_question_and_nothing_else(push: Push) -> None:
    async with http_sink(lambda request: status(200), port=next(push.asked)) as server:
        made = await push.create(f"{server.url}/in", types=["t.unasked"])
        assert (made.status, made.json["mistakes"][0]["field"]) == (400, "/sink")
        await push.write("orders", "1", "t.unasked")
        assert [request.method for request in server.requests] == ["OPTIONS"]


@pytest.mark.row("CE-W-2")
async def test_the_granted_rate_is_kept(push: Push) -> None:
    def script(request: SunkRequest) -> bytes:
        granted = status(200, "WebHook-Allowed-Origin: *", "WebHook-Allowed-Rate: 600")
        return granted if request.method == "OPTIONS" else NO_CONTENT

    async with http_sink(script, port=next(push.asked)) as server:
        assert (await push.create(f"{server.url}/in", types=["t.rate"])).status == 201
        begun = time.monotonic()
        for number in range(30):
            await push.write("orders", str(number), "t.rate", key=str(number))
        last = (await arrived(server, 30))[-1].at
    assert last - begun >= 1.9, "ten at once, then ten a second"


@pytest.mark.row("CE-W-3")
async def test_a_redirect_is_not_followed(push: Push) -> None:
    async with http_sink() as other:
        answers = [status(307, f"location: {other.url}/"), status(302, f"location: {other.url}/")]
        async with sink(push, lambda request: answers.pop() if answers else NO_CONTENT) as server:
            assert (await push.create(f"{server.url}/in", types=["t.redirect"])).status == 201
            await push.write("orders", "1", "t.redirect", key="k")
            assert [request.path for request in await arrived(server, 3)] == ["/in"] * 3
        assert other.connections == 0


@pytest.mark.row("CE-W-3", "CE-3.2.2.1-4")
async def test_retry_after_holds_up_the_whole_sink(push: Push) -> None:
    answers = [status(429, "retry-after: 2")]
    async with sink(push, lambda request: answers.pop() if answers else NO_CONTENT) as server:
        made = await push.create(f"{server.url}/in", types=["t.wait"])
        await push.write("orders", "0", "t.wait", key="0")
        await arrived(server, 1)

        async def heard() -> bool:
            reported = (await push.client.ask("GET", f"{PATH}/{made.json['id']}/status")).json
            return bool(reported["state"] == "failing" or reported["events"]["repeated"])

        await eventually(heard)  # what is on its way with the first may come before its answer
        for number in (1, 2):
            await push.write("orders", str(number), "t.wait", key=str(number))
        first, *rest = await arrived(server, 4)
        assert [request.at - first.at >= 2.0 - CLOCK for request in rest] == [True] * 3


@pytest.mark.row("CE-3.2.2.1-4")
async def test_410_suspends_and_resume_goes_on_where_it_was(push: Push) -> None:
    answers = [status(410)]
    async with sink(push, lambda request: answers.pop() if answers else NO_CONTENT) as server:
        made = await push.create(f"{server.url}/in", types=["t.gone"])
        await push.write("orders", "1", "t.gone", key="k")
        reported = await suspended(push, made)
        assert reported["reason"].startswith("gone")
        await push.write("orders", "2", "t.gone", key="k")
        assert len(deliveries(server)) == 1
        assert (await push.client.ask("POST", f"{PATH}/{made.json['id']}/resume")).status == 200
        assert [request.header("ce-id") for request in await arrived(server, 3)] == ["1", "1", "2"]


@pytest.mark.row("CE-W-4")
async def test_a_challenge_is_not_answered_with_a_login_that_was_not_configured(push: Push) -> None:
    challenge = status(401, 'www-authenticate: Basic realm="x"', 'www-authenticate: Bearer realm="x"')
    async with sink(push, lambda request: challenge) as server:
        made = await push.create(f"{server.url}/in", types=["t.challenge"])
        await push.write("orders", "1", "t.challenge", key="k")
        reported = await suspended(push, made)
        assert reported["reason"].startswith("credential")
        assert all(request.header("authorization") is None for request in server.requests)
        assert len(deliveries(server)) == 3, "three in a row"


@pytest.mark.row("CE-W-4", "CE-3.2.1-6")
async def test_schemes_and_places_that_no_rule_allows_are_refused(push: Push) -> None:
    wrong = ["ftp://127.0.0.1/", "ws://127.0.0.1/", f"https://127.0.0.1:{push.denied}/", "127.0.0.1", "/in"]
    for url in [*wrong, f"http://127.0.0.1:{push.denied}/", "http://user:pw@127.0.0.1/", "http://127.0.0.1/#x"]:
        refused = await push.create(url)
        assert (refused.status, refused.json["error"]) == (400, "invalid"), url
        assert {each["field"] for each in refused.json["mistakes"]} == {"/sink"}
    for protocol, url in [("AMQP", "http://h/"), ("MQTT5", "amqp://h/"), ("KAFKA", "h:9092"), ("NATS", "mqtt://h")]:
        refused = await push.client.ask("POST", body={"protocol": protocol, "sink": url})
        assert "/sink" in {each["field"] for each in refused.json["mistakes"]}, protocol


@pytest.mark.row("CE-3.2.1-2")
async def test_one_of_two_with_the_same_id_is_made(push: Push) -> None:
    async with sink(push) as server:
        asked = [push.create(f"{server.url}/in", id="twin", types=["t.none"]) for _ in range(2)]
        answers = await asyncio.gather(*asked)
    assert sorted(each.status for each in answers) == [201, 409]
    assert next(each for each in answers if each.status == 409).json["error"] == "conflict"


@pytest.mark.row("CE-P-1")
async def test_events_of_a_key_keep_their_order_through_failures(push: Push) -> None:
    chance = random.Random(7)
    script = lambda request: status(500) if chance.random() < 0.2 else NO_CONTENT  # noqa: E731
    async with http_sink(script, port=push.unasked) as server:
        assert (await push.create(f"{server.url}/in", types=["t.order"])).status == 201
        for number in range(1000):
            await push.write("orders", str(number), "t.order", key=f"key-{number % 100}", wait=False)
        await push.write("orders", "last", "t.order", key="last")
        await until(lambda: len({request.header("ce-id") for request in deliveries(server)}) == 1001)
    first: dict[str, None] = {}
    for request in deliveries(server):
        first.setdefault(request.header("ce-id") or "", None)
    for key in range(100):
        ids = [int(each) for each in first if each != "last" and int(each) % 100 == key]
        assert ids == sorted(ids)
    assert len(deliveries(server)) > 1001, "some were repeated"


@pytest.mark.row("CE-3.1.1-1", "CE-3.1.3-1")
@pytest.mark.parametrize(
    "hello", [b"\x10\x10\x00\x04MQTT\x04\x02\x00\x3c\x00\x04test", b'CONNECT {"verbose":false}\r\nSUB a.* 1\r\n']
)
async def test_clients_of_mqtt_and_nats_find_no_server_of_theirs(push: Push, hello: bytes) -> None:
    def answer() -> bytes:
        with socket.create_connection(("127.0.0.1", push.edge), timeout=PATIENCE) as peer:
            peer.sendall(hello)
            found = b""
            with suppress(ConnectionError):
                while piece := peer.recv(100):
                    found += piece
            return found

    assert (await asyncio.to_thread(answer))[:4] in (b"", b"AMQP", b"HTTP"), "as any wrong protocol header is answered"
