"""The handshake of web hooks against a server that answers by script (Web Hooks for Event Delivery, 4)."""

from __future__ import annotations

import ssl

import pytest

from bridges.cloudevents.sinks.common.dialer import NOT_ALLOWED, Dialer
from bridges.cloudevents.sinks.http.client import HttpClient
from bridges.cloudevents.sinks.http.consent import Consent, consent_of, request_consent
from bridges.cloudevents.sinks.http.response import HttpAnswer
from tests.support.gateway.process import PATIENCE
from tests.support.servers.http_sink import HttpSinkServer, http_sink, status

ORIGIN = "gw.events.example"


async def request_with_policy(server: HttpSinkServer, callback: str | None = None, *, allowed: bool = True) -> Consent:
    client = HttpClient(Dialer(lambda address: allowed), ssl.create_default_context())
    try:
        return await request_consent(client, f"{server.url}/in", ORIGIN, 120, callback, PATIENCE / 2)
    finally:
        await client.close()


@pytest.mark.row("CE-W-1", part="the question")
async def test_the_question_is_one_options_request() -> None:
    async with http_sink(lambda request: status(200, f"WebHook-Allowed-Origin: {ORIGIN}")) as server:
        assert await request_with_policy(server, "https://gw/confirm?key=1") == Consent(True, 2.0)
        (request,) = server.requests
    assert (request.method, request.path, request.body) == ("OPTIONS", "/in", b"")
    assert request.header("webhook-request-origin") == ORIGIN
    assert request.header("webhook-request-rate") == "120"
    assert request.header("webhook-request-callback") == "https://gw/confirm?key=1"


@pytest.mark.parametrize(
    ("headers", "given", "rate"),
    [
        ({"webhook-allowed-origin": "*"}, True, 2.0),
        ({"webhook-allowed-origin": "GW.Events.Example"}, True, 2.0),
        ({"webhook-allowed-origin": ORIGIN, "webhook-allowed-rate": "60"}, True, 1.0),
        ({"webhook-allowed-origin": ORIGIN, "webhook-allowed-rate": "*"}, True, None),
        ({"webhook-allowed-origin": ORIGIN, "webhook-allowed-rate": "0"}, True, 2.0),
        ({"webhook-allowed-origin": ORIGIN, "webhook-allowed-rate": "-3"}, True, 2.0),
        ({"webhook-allowed-origin": ORIGIN, "webhook-allowed-rate": "9" * 5000}, True, 2.0),
        ({"webhook-allowed-origin": "other.example"}, False, None),
        ({"webhook-allowed-origin": f"{ORIGIN}, other.example"}, False, None),
        ({"webhook-allowed-origin": ""}, False, None),
        ({"webhook-allowed-rate": "*"}, False, None),
        ({}, False, None),
    ],
)
@pytest.mark.parametrize("code", [200, 204, 405, 500])
def test_the_headers_decide_and_the_status_does_not(
    headers: dict[str, str], given: bool, rate: float | None, code: int
) -> None:
    answer = consent_of(HttpAnswer(code, headers), ORIGIN, 120)
    assert (answer.granted, answer.rate) == (given, rate)


@pytest.mark.row("CE-W-1", part="no consent without an answer")
@pytest.mark.parametrize("answer", [None, b"garbage\r\n\r\n", status(302, "location: http://127.0.0.1:1/")])
async def test_no_answer_is_no_consent(answer: bytes | None) -> None:
    async with http_sink(lambda request: answer) as server:
        consent = await request_with_policy(server)
        assert not consent.granted
        assert len(server.requests) == 1


@pytest.mark.row("CE-P-3", part="handshake")
async def test_no_question_is_put_to_an_address_that_is_not_allowed() -> None:
    async with http_sink() as server:
        assert await request_with_policy(server, allowed=False) == Consent(False, reason=NOT_ALLOWED, answered=False)
        assert server.connections == 0
