"""The operator's HTTP port, served by the real uvicorn on a free port and asked by the stdlib's client."""

from __future__ import annotations

import asyncio
import http.client
import json
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.observability.http import bounded, server
from gateway.observability.http.server import make_app, serve_http
from gateway.observability.measures import RuleMeasures
from gateway.observability.metrics import CONTENT_TYPE, Metrics
from gateway.observability.readiness import Readiness
from gateway.tasks import Supervisor
from tests.support.gateway.process import PATIENCE, free_port

Answer = tuple[int, str, bytes]


def failed(name: str, error: BaseException) -> None:
    raise AssertionError(f"{name}: {error!r}")


def ignored(reason: str) -> None:
    pass


@asynccontextmanager
async def serving(
    metrics: Metrics, readiness: Readiness, dropped: Callable[[str], None] = ignored
) -> AsyncIterator[int]:
    async with running(make_app(metrics, readiness), dropped) as port:
        yield port


@asynccontextmanager
async def running(app: ASGIApp, dropped: Callable[[str], None]) -> AsyncIterator[int]:
    supervisor, started, port = Supervisor(failed), asyncio.Event(), free_port()
    supervisor.start(serve_http("127.0.0.1", port, app, started, dropped), "http")
    await asyncio.wait_for(started.wait(), PATIENCE)
    try:
        yield port
    finally:
        await asyncio.wait_for(supervisor.close(), PATIENCE)


def ask(port: int, path: str, method: str = "GET") -> Answer:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.request(method, path)
        response = connection.getresponse()
        return response.status, response.headers.get("content-type", ""), response.read()
    finally:
        connection.close()


async def test_metrics() -> None:
    metrics = Metrics()
    metrics.increment("reloads", "ok")
    async with serving(metrics, Readiness()) as port:
        status, kind, body = await asyncio.to_thread(ask, port, "/metrics")
    assert (status, kind) == (200, CONTENT_TYPE)
    assert b'scopegate_reloads_total{result="ok"} 1.0\n' in body


async def test_a_scrape_of_very_many_rules_gives_way_to_other_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.tasks._TIME_SLICE", 0.0)
    metrics, measures, turns, sizes = Metrics(), RuleMeasures(), 0, [0]
    metrics.histogram_source(measures.samples)
    for number in range(1_000):
        metrics.links("edge", f"rule-{number}/**")
        measures.of("edge", f"rule-{number}/**")

    async def count() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    async def send(message: Message) -> None:
        sizes.append(len(message.get("body", b"")))

    request = {"type": "http", "http_version": "1.1", "method": "GET", "path": "/metrics", "headers": []}
    counting = asyncio.create_task(count())
    await make_app(metrics, Readiness())({**request, "asgi": {"spec_version": "2.4"}}, asyncio.Future, send)
    counting.cancel()
    assert sum(sizes) > 1_000_000
    assert max(sizes) < 100_000
    assert turns > sum(sizes) / 100_000


async def test_many_scrapes_at_the_same_time_are_made_together() -> None:
    """Each had a slice of its own in every turn of the loop: messages waited for all of them."""
    metrics, made = Metrics(), 0

    def reads() -> Iterator[None]:
        nonlocal made
        made += 1
        yield None

    metrics.gauge_source(reads)
    async with serving(metrics, Readiness()) as port:
        answers = await asyncio.gather(*(asyncio.to_thread(ask, port, "/metrics") for _ in range(30)))
        asked_once = made
        opened = [await asyncio.open_connection("127.0.0.1", port) for _ in range(40)]
        for _, writer in opened:
            writer.write(b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n" * 10)
        heads = [await asyncio.wait_for(reader.readuntil(b"\r\n"), PATIENCE) for reader, _ in opened]
        for _, writer in opened:
            writer.close()
    assert {status for status, _, _ in answers} == {200}
    assert set(heads) == {b"HTTP/1.1 200 OK\r\n"}
    assert (asked_once <= 30, made < asked_once + 200) == (True, True), "400 requests were made together"


async def test_healthz_and_what_is_not_there() -> None:
    async with serving(Metrics(), Readiness()) as port:
        assert await asyncio.to_thread(ask, port, "/healthz") == (200, "text/plain; charset=utf-8", b"ok\n")
        assert (await asyncio.to_thread(ask, port, "/"))[0] == 404
        assert (await asyncio.to_thread(ask, port, "/metrics", "POST"))[0] == 405


async def test_readyz_says_what_is_missing() -> None:
    readiness, up = Readiness(), {"kafka/main": False}
    readiness.add("listeners", lambda: (True, ""))
    readiness.add("kafka/main", lambda: (up["kafka/main"], "k1:9092"))
    async with serving(Metrics(), readiness) as port:
        status, _, body = await asyncio.to_thread(ask, port, "/readyz")
        assert (status, json.loads(body)) == (
            503,
            {
                "ready": False,
                "parts": {
                    "listeners": {"ready": True, "required": True, "detail": ""},
                    "kafka/main": {"ready": False, "required": True, "detail": "k1:9092"},
                },
            },
        )
        up["kafka/main"] = True
        assert (await asyncio.to_thread(ask, port, "/readyz"))[0] == 200
        readiness.add("state", lambda: (1 / 0 > 0, ""))
        status, _, body = await asyncio.to_thread(ask, port, "/readyz")
        assert (status, json.loads(body)["parts"]["state"]["detail"]) == (503, "asking failed: ZeroDivisionError")
        readiness.add("state", lambda: (False, "away"), required=False)
        status, _, body = await asyncio.to_thread(ask, port, "/readyz")
        assert (status, json.loads(body)["parts"]["state"]["required"]) == (200, False)
        readiness.remove("state")
        assert (await asyncio.to_thread(ask, port, "/readyz"))[0] == 200


async def test_a_taken_port_is_the_callers_error() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(OSError, match=r"cannot listen on 127\.0\.0\.1:\d+: Address already in use"):
            serve_http("127.0.0.1", taken.getsockname()[1], make_app(Metrics(), Readiness()), asyncio.Event())


async def test_the_end_closes_idle_connections_and_frees_the_port() -> None:
    async with serving(Metrics(), Readiness()) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
    await asyncio.wait_for(reader.read(), PATIENCE)
    writer.close()
    with socket.socket() as again:
        again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        again.bind(("127.0.0.1", port))


async def test_the_end_waits_for_nobody_where_nobody_is_connected(monkeypatch: pytest.MonkeyPatch) -> None:
    async def waits(*_: object) -> None:
        raise AssertionError("uvicorn's own end, which waits in any case")

    monkeypatch.setattr(server.Server, "shutdown", waits)
    async with serving(Metrics(), Readiness()):
        pass


async def test_signals_stay_the_gateways() -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    async with serving(Metrics(), Readiness()):
        assert {number: signal.getsignal(number) for number in before} == before


def test_importing_it_leaves_most_of_the_start_budget() -> None:
    # Start to ready is to take 1.5 s in all. Processor time, 0.1 s: what else runs would count as well.
    code = (
        "import time; t = time.process_time(); import gateway.observability.http.server; print(time.process_time() - t)"
    )
    taken = min(float(subprocess.check_output([sys.executable, "-c", code])) for _ in range(3))
    assert taken < 0.6


# -- bounds


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deadlines of a second."""
    monkeypatch.setattr(bounded, "HEAD", 1.0)
    monkeypatch.setattr(bounded.BoundedProtocol, "answer", 1.0)


WHOLE = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"


class Half:
    """A client that says something and no more, and hears when the server has enough of it."""

    def __init__(self, port: int, said: bytes = b"GET /healthz HTTP/1.1\r\n") -> None:
        self._port, self._said = port, said

    async def __aenter__(self) -> asyncio.StreamReader:
        reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._writer.write(self._said)
        return reader

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()


async def ended(reader: asyncio.StreamReader) -> bytes:
    """What still came before the server closed the connection."""
    async with asyncio.timeout(PATIENCE):
        try:
            return await reader.read()
        except ConnectionResetError:
            return b""


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("said", [b"", b"GET /hea", WHOLE[:-2], WHOLE + b"GET /"])
async def test_half_a_request_is_not_waited_for(said: bytes) -> None:
    reasons = list[str]()
    async with serving(Metrics(), Readiness(), reasons.append) as port, Half(port, said) as reader:
        answer = await ended(reader)
        assert (b"200 OK" in answer) == (b"\r\n\r\n" in said)
    assert reasons == ["http-too-slow"]


@pytest.mark.usefixtures("short")
async def test_an_answer_that_takes_too_long_ends_its_connection() -> None:
    reasons, asked = list[str](), asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        asked.set()
        await asyncio.Event().wait()

    async with running(app, reasons.append) as port, Half(port, b"GET / HTTP/1.1\r\nhost: x\r\n\r\n") as reader:
        await asyncio.wait_for(asked.wait(), PATIENCE)
        assert await ended(reader) == b""
    assert reasons == ["http-too-slow"]


async def test_health_is_answered_while_others_send_half_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded, "HEAD", PATIENCE)
    reasons = list[str]()
    async with serving(Metrics(), Readiness(), reasons.append) as port, AsyncExitStack() as stack:
        readers = [await stack.enter_async_context(Half(port)) for _ in range(bounded.CONNECTIONS + 20)]
        for _ in range(3):
            status, _, _ = await asyncio.to_thread(ask, port, "/healthz")
            assert status == 200
        assert await ended(readers[0]) == b""
        assert set(reasons) == {"http-too-many-connections"}
        assert len(reasons) >= 20
