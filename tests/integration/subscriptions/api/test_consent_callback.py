"""Consent that an HTTP sink gives later, at the address that the handshake told it (Web Hooks, 4)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import NamedTuple

import pytest

from tests.support.gateway.gateway import Gateway, Gateways
from tests.support.servers.http_sink import HttpSinkServer, SunkRequest, http_sink, status
from tests.support.subscriptions.api import PATH, ApiClient, api_port, sink_ports, subscription_policy


class Place(NamedTuple):
    """A gateway that asks sinks for their consent, and one that answers the question later."""

    gateway: Gateway
    api: ApiClient
    sink: HttpSinkServer

    def callbacks(self) -> list[str]:
        """The addresses that the sink was told."""
        reported = (each.header("webhook-request-callback") for each in self.sink.requests)
        return [each for each in reported if each is not None]


def later(request: SunkRequest) -> bytes:
    """Consent at paths that say so, and no word about it elsewhere."""
    return status(200, "webhook-allowed-origin: *") if request.path == "/now" else status(200)


@pytest.fixture
async def place(tmp_path_factory: pytest.TempPathFactory, start_gateway: Gateways) -> AsyncIterator[Place]:
    document = subscription_policy(tmp_path_factory.mktemp("consent"), handshake={"origin": "gw.example"})
    (manager,) = document.scope()["subscriptions"]
    for rule in manager["sinks"]:
        rule["handshake"] = "on"
    document.scope()["api"][0]["public_url"] = f"http://127.0.0.1:{api_port(document)}"
    gateway = start_gateway(document.text)
    async with http_sink(later, port=sink_ports(document)[0]) as sink:
        yield Place(gateway, ApiClient(api_port(document)), sink)


async def test_a_sink_consents_at_the_address_it_was_told(place: Place) -> None:
    api, sink = place.api, place.sink
    made = await api.ask("POST", PATH, {"id": "a b", "protocol": "HTTP", "sink": f"{sink.url}/later"})
    assert (made.status, made.headers["location"]) == (202, f"{PATH}/a%20b")
    early = await api.ask("POST", f"{PATH}/a%20b/test")
    assert (early.status, early.json["error"]) == (409, "conflict")
    assert [each.method for each in sink.requests] == ["OPTIONS"]
    (callback,) = place.callbacks()
    at = callback.partition(str(api.port))[2]
    assert at.startswith(f"{PATH}/a%20b/confirm?key=")
    nobody = ApiClient(api.port, None)  # a sink has no login
    for wrong in (at + "x", at[:-1], f"{PATH}/none/confirm?key=x", f"{PATH}/a%20b/confirm"):
        answer = await nobody.ask("GET", wrong)
        assert (answer.status, answer.json["error"]) == (403, "forbidden")
    for rate in ("0", "many", "-5", "1.5", "1" * 12):
        unreadable = await nobody.ask("POST", at, webhook_allowed_rate=rate)
        assert (unreadable.status, unreadable.json["mistakes"][0]["field"]) == (400, "WebHook-Allowed-Rate")
    assert (await nobody.ask("POST", at)).status == 204
    assert (await nobody.ask("GET", at)).status == 403  # once
    assert (await api.ask("POST", f"{PATH}/a%20b/test")).json["delivered"]
    del sink.requests[1:]
    key = at.partition("key=")[2]
    assert key not in json.dumps(place.gateway.log())
    again = await api.ask("PUT", f"{PATH}/a%20b", {"protocol": "HTTP", "sink": f"{sink.url}/later"})
    assert again.status == 200  # the same sink is not asked again
    assert len(sink.requests) == 1
    moved = await api.ask("PUT", f"{PATH}/a%20b", {"protocol": "HTTP", "sink": f"{sink.url}/other"})
    assert moved.status == 202


async def test_a_sink_that_consents_at_once_is_not_waited_for(place: Place) -> None:
    made = await place.api.ask("POST", PATH, {"protocol": "HTTP", "sink": f"{place.sink.url}/now"})
    assert made.status == 201
    assert [each.method for each in place.sink.requests] == ["OPTIONS"]


async def test_a_sink_that_is_not_there_cannot_consent_later(place: Place) -> None:
    place.sink.answer = lambda request: None
    made = await place.api.ask("POST", PATH, {"protocol": "HTTP", "sink": f"{place.sink.url}/later"})
    assert (made.status, made.json["mistakes"][0]["field"]) == (400, "/sink")
