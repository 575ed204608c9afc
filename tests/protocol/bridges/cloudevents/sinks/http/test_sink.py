"""The HTTP sink against a server that answers by script: every answer and every fault becomes one verdict."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress

import pytest

from bridges.cloudevents.delivery.answers import Answer, DeliveryOutcome
from bridges.cloudevents.events.event import CloudEvent
from bridges.cloudevents.sinks.common.dialer import NOT_ALLOWED, Dialer
from bridges.cloudevents.sinks.http.client import HttpClient
from bridges.cloudevents.sinks.http.login import LoginFailed, LoginUnavailable
from bridges.cloudevents.sinks.http.sink import HttpSink, HttpTarget
from tests.support.cloudevents.answer_recorder import AnswerRecorder, attempt, strict_supervisor
from tests.support.gateway.process import PATIENCE
from tests.support.servers.http_sink import NO_CONTENT, HttpSinkServer, SunkRequest, http_sink, status


def encode(events: Sequence[CloudEvent]) -> tuple[list[tuple[str, str]], bytes]:
    return [("ce-id", events[0].attributes["id"])], b"data"


@asynccontextmanager
async def sink_at(
    url: str,
    *,
    seconds: float = PATIENCE / 2,
    allowed: Callable[[str], bool] = lambda address: True,
    resolve: Callable[[str], list[str]] | None = None,
    connections: int = 8,
    method: str = "POST",
    authorization: Callable[[bool], object] | None = None,
) -> AsyncIterator[tuple[HttpSink, AnswerRecorder]]:
    async def names(host: str, port: int) -> list[str]:
        return resolve(host) if resolve is not None else ["127.0.0.1"]

    received, supervisor = AnswerRecorder(), strict_supervisor()
    context = ssl.create_default_context()
    client = HttpClient(Dialer(allowed, names), context)
    login = None
    if authorization is not None:

        async def login(fresh: bool) -> str | None:
            return authorization(fresh)  # type: ignore[return-value]

    target = HttpTarget(method, url, [("x-tenant", "7")], seconds, login)
    sink = HttpSink(client, target, encode, connections, received, supervisor)
    try:
        yield sink, received
    finally:
        await sink.close(0)
        await client.close()
        await supervisor.close()


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
async def test_a_request_is_sent_once_whatever_its_method(method: str) -> None:
    async with http_sink(lambda request: None) as server:
        answer = await send_once(server, method=method)
        assert answer.outcome is DeliveryOutcome.FAILED
        assert [request.method for request in server.requests] == [method]


async def send_once(server: HttpSinkServer, path: str = "/in?q=%2F", **options: object) -> Answer:
    async with sink_at(server.url + path, **options) as (sink, received):  # type: ignore[arg-type]
        sink.send(attempt(earlier_attempts=2))
        return await received.next()


@pytest.mark.row("CE-3.2.2.1-2")
async def test_a_request_has_the_events_headers_and_the_settings() -> None:
    async with http_sink() as server:
        answer = await send_once(server)
        assert answer.outcome is DeliveryOutcome.DONE
        (request,) = server.requests
    assert (request.method, request.path, request.body) == ("POST", "/in?q=%2F", b"data")
    assert request.header("ce-id") == "1"
    assert request.header("x-tenant") == "7"
    assert request.header("scopegate-attempt") == "3"
    assert request.header("host") == f"127.0.0.1:{server.port}"
    names = [name.lower() for name, _ in request.headers]
    assert sorted(names) == ["accept", "ce-id", "content-length", "host", "scopegate-attempt", "x-tenant"]


GARBAGE = {
    "garbage": b"\x00\x01\x02 no HTTP\r\n\r\n",
    "HTTP/0.9": b"<html>hello</html>",
    "no answer": None,
    "endless header": b"HTTP/1.1 200 OK\r\nx: " + b"a" * 20_000 + b"\r\n\r\n",
    "two lengths": b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n12",
}


@pytest.mark.parametrize("name", GARBAGE)
async def test_what_is_no_answer_is_repeated(name: str) -> None:
    async with http_sink(lambda request: GARBAGE[name]) as server:
        answer = await send_once(server)
    assert answer.outcome is DeliveryOutcome.FAILED
    assert not answer.reached
    assert "hello" not in answer.reason


@pytest.mark.row("CE-W-3", part="redirects")
@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
async def test_a_redirect_is_never_followed(code: int) -> None:
    async with http_sink() as other, http_sink(lambda request: status(code, f"location: {other.url}/x")) as server:
        answer = await send_once(server)
        assert answer.outcome is DeliveryOutcome.SINK_FAILED
        assert len(server.requests) == 1
        assert other.connections == 0


@pytest.mark.parametrize("answer", [status(101), b"HTTP/1.1 100 Continue\r\n\r\n" * 50 + NO_CONTENT])
async def test_informational_answers_do_not_count(answer: bytes) -> None:
    async with http_sink(lambda request: answer) as server:
        found = await send_once(server)
    assert found.outcome is (DeliveryOutcome.SINK_FAILED if b" 101 " in answer else DeliveryOutcome.DONE)


@pytest.mark.parametrize("code", [100, 103])
async def test_informational_answers_without_end_are_given_up_before_the_time_limit(code: int) -> None:
    flood = f"HTTP/1.1 {code} X\r\n\r\n".encode() * 50_000
    async with http_sink(lambda request: flood) as server:
        answer = await send_once(server)
    assert (answer.outcome, answer.reached) == (DeliveryOutcome.FAILED, False)
    assert answer.reason == "what the sink sent is no valid answer"


async def test_an_answer_that_does_not_end_is_given_up_in_time() -> None:
    async def slowly(request: SunkRequest) -> bytes:
        await asyncio.sleep(30)
        return NO_CONTENT

    async with http_sink(slowly) as server:
        answer = await send_once(server, seconds=1)
    assert (answer.outcome, answer.reason) == (DeliveryOutcome.FAILED, "no answer in time")


async def test_an_answer_that_comes_byte_by_byte_is_given_up_in_time() -> None:
    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nx-slow: ")
        with suppress(OSError):
            while not reader.at_eof():
                writer.write(b"a")
                await writer.drain()
                await asyncio.sleep(0.01)
        writer.close()

    server = await asyncio.start_server(drip, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    async with server, sink_at(url, seconds=1) as (sink, received):
        sink.send(attempt())
        answer = await received.next()
    assert (answer.outcome, answer.reason) == (DeliveryOutcome.FAILED, "no answer in time")


async def test_a_long_body_closes_the_connection_and_a_short_one_keeps_it() -> None:
    bodies = [b"x" * 100, b"x" * 1_000_000, b"x" * 100]
    script = lambda request: status(200, body=bodies.pop(0))  # noqa: E731
    async with http_sink(script) as server, sink_at(server.url) as (sink, received):
        for number in range(3):
            sink.send(attempt(number=number))
            assert (await received.next()).outcome is DeliveryOutcome.DONE
        assert [request.connection for request in server.requests] == [1, 1, 2]


async def test_a_compressed_answer_is_not_decompressed() -> None:
    bomb = b"\x1f\x8b" + b"\x00" * 1000
    async with http_sink(lambda request: status(200, "content-encoding: gzip", body=bomb)) as server:
        assert (await send_once(server)).outcome is DeliveryOutcome.DONE


async def test_cookies_are_not_kept() -> None:
    script = lambda request: status(200, "set-cookie: a=b")  # noqa: E731
    async with http_sink(script) as server, sink_at(server.url) as (sink, received):
        for number in range(2):
            sink.send(attempt(number=number))
            await received.next()
        assert [request.header("cookie") for request in server.requests] == [None, None]


@pytest.mark.row("CE-P-3")
async def test_the_address_that_was_checked_is_dialled_and_no_other() -> None:
    answers = [["127.0.0.1"], ["127.0.0.2"], ["127.0.0.2", "127.0.0.1"]]
    async with http_sink(lambda request: status(204, "connection: close")) as server:
        url = f"http://sink.example:{server.port}/"
        only = "127.0.0.1".__eq__
        async with sink_at(url, allowed=only, resolve=lambda host: answers.pop(0)) as (sink, received):
            found = []
            for number in range(3):
                sink.send(attempt(number=number))
                found.append(await received.next())
        assert [each.outcome for each in found] == [
            DeliveryOutcome.DONE,
            DeliveryOutcome.SINK_FAILED,
            DeliveryOutcome.DONE,
        ]
        assert found[1].reason == NOT_ALLOWED
        assert [request.header("host") for request in server.requests] == [f"sink.example:{server.port}"] * 2


@pytest.mark.row("CE-P-3")
async def test_an_address_in_the_url_is_checked_as_well() -> None:
    async with http_sink() as server:
        answer = await send_once(server, allowed=lambda address: False)
        assert (answer.outcome, answer.reason, answer.reached) == (DeliveryOutcome.SINK_FAILED, NOT_ALLOWED, False)
        assert server.connections == 0


async def test_a_name_that_does_not_resolve_is_told_in_the_same_words() -> None:
    def unknown(host: str) -> list[str]:
        raise OSError("no such name")

    async with sink_at("http://sink.example/", resolve=unknown) as (sink, received):
        sink.send(attempt())
        answer = await received.next()
    assert (answer.outcome, answer.reason) == (DeliveryOutcome.SINK_FAILED, NOT_ALLOWED)


async def test_a_refused_connection_is_the_sinks_fault() -> None:
    async with http_sink() as server:
        url = server.url
    async with sink_at(url) as (sink, received):
        sink.send(attempt())
        answer = await received.next()
    assert (answer.outcome, answer.reason, answer.reached) == (DeliveryOutcome.SINK_FAILED, "connection refused", False)


async def test_a_rejected_login_is_renewed_once() -> None:
    def script(request: SunkRequest) -> bytes:
        return NO_CONTENT if request.header("authorization") == "Bearer new" else status(401)

    async with http_sink(script) as server:
        answer = await send_once(server, authorization=lambda fresh: "Bearer new" if fresh else "Bearer old")
        assert answer.outcome is DeliveryOutcome.DONE
        assert len(server.requests) == 2
        answer = await send_once(server, authorization=lambda fresh: "Bearer old")
        assert answer.outcome is DeliveryOutcome.CREDENTIAL
        assert len(server.requests) == 3, "the same login is not sent twice"


@pytest.mark.parametrize(
    ("failure", "outcome"),
    [
        (LoginFailed("refused"), DeliveryOutcome.CREDENTIAL),
        (LoginUnavailable("away"), DeliveryOutcome.SINK_FAILED),
    ],
)
async def test_only_a_login_that_is_refused_counts_as_one(failure: LoginFailed, outcome: DeliveryOutcome) -> None:
    def authorization(fresh: bool) -> str:
        raise failure

    async with http_sink() as server:
        answer = await send_once(server, authorization=authorization)
        assert not server.requests
    assert (answer.outcome, answer.reason, answer.reached) == (outcome, str(failure), True)


async def test_no_more_requests_run_than_connections() -> None:
    release = asyncio.Event()

    async def held(request: SunkRequest) -> bytes:
        await release.wait()
        return NO_CONTENT

    async with http_sink(held) as server, sink_at(server.url, connections=3) as (sink, received):
        for number in range(3):
            assert sink.free_slots == 3 - number
            sink.send(attempt(number=number))
        assert sink.free_slots == 0
        await server.wait_for(3)
        release.set()
        for _ in range(3):
            assert (await received.next()).outcome is DeliveryOutcome.DONE
        assert sink.free_slots == 3
        assert server.connections == 3


async def test_a_closed_sink_tells_nothing() -> None:
    async def never(request: SunkRequest) -> bytes:
        await asyncio.sleep(30)
        return NO_CONTENT

    async with http_sink(never) as server, sink_at(server.url) as (sink, received):
        sink.send(attempt())
        await server.wait_for(1)
        await sink.close(0.05)
        assert sink.free_slots == 0
    assert received.nothing
