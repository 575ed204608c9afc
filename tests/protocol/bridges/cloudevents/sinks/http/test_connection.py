"""Connections of the HTTP client to a server that answers by script, on both event loops."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from bridges.cloudevents.sinks.common.dialer import Dialer
from bridges.cloudevents.sinks.http.client import HttpClient
from bridges.cloudevents.sinks.http.connection import NoAnswer
from bridges.cloudevents.sinks.http.pool import IDLE, NotSent
from bridges.cloudevents.sinks.http.request import head_start, request_bytes, target_of
from bridges.cloudevents.sinks.http.response import HttpAnswer
from tests.support.cloudevents.answer_recorder import local_dialer
from tests.support.cloudevents.delivery import until
from tests.support.gateway.process import PATIENCE
from tests.support.project.loops import on_both_loops
from tests.support.servers.certs import Authority
from tests.support.servers.http_sink import NO_CONTENT, HttpSinkServer, SunkRequest, http_sink, status


@asynccontextmanager
async def client_of(tls: ssl.SSLContext | None = None, dialer: Dialer | None = None) -> AsyncIterator[HttpClient]:
    client = HttpClient(dialer or local_dialer(), tls or ssl.create_default_context())
    try:
        yield client
    finally:
        await client.close()


async def post(client: HttpClient, url: str, body: bytes = b"data", seconds: float = PATIENCE / 2) -> HttpAnswer:
    target = target_of(url)
    return await client.send(target.origin, request_bytes(head_start("POST", target, []), "", body), seconds)


def connections_of(server: HttpSinkServer) -> list[int]:
    return [request.connection for request in server.requests]


@on_both_loops
async def test_requests_one_after_the_other_use_one_connection() -> None:
    async with http_sink() as server, client_of() as client:
        for _ in range(3):
            assert (await post(client, server.url)).status == 204
        assert connections_of(server) == [1, 1, 1]


CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\nx-trailer: 1\r\n\r\n"
KEEP = b"HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 2\r\n\r\nok"
CLOSES = {
    "connection: close": status(200, "connection: close", body=b"ok"),
    "HTTP/1.0": b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok",
    "two answers": status(200) + NO_CONTENT,
    "a part of a further answer": status(200) + b"HTTP/1.",
    "an informational answer behind": status(200) + b"HTTP/1.1 103 Early Hints\r\n\r\n",
    "bytes behind": status(200, body=b"ok") + b"xx",
    "chunks that are none": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
}


@pytest.mark.parametrize("answer", [CHUNKED, KEEP], ids=["chunked", "HTTP/1.0 keep-alive"])
@on_both_loops
async def test_the_connection_is_kept_after_an_answer_with_an_end(answer: bytes) -> None:
    async with http_sink(lambda request: answer) as server, client_of() as client:
        assert [(await post(client, server.url)).status for _ in range(2)] == [200, 200]
        assert connections_of(server) == [1, 1]


@pytest.mark.parametrize("name", CLOSES)
@on_both_loops
async def test_the_answer_counts_and_the_connection_is_not_used_again(name: str) -> None:
    async with http_sink(lambda request: CLOSES[name]) as server, client_of() as client:
        assert [(await post(client, server.url)).status for _ in range(2)] == [200, 200]
        assert connections_of(server) == [1, 2]


@on_both_loops
async def test_an_answer_that_ends_with_the_connection_counts() -> None:
    async def closing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"data")
        writer.write(b"HTTP/1.1 202 OK\r\n\r\nsome text")
        writer.close()

    async with listening(closing) as url, client_of() as client:
        assert (await post(client, url)).status == 202


@asynccontextmanager
async def listening(serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any]) -> AsyncIterator[str]:
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    finally:
        server.close()


@on_both_loops
async def test_what_comes_without_a_request_is_no_answer_to_the_next_one() -> None:
    """An answer that the sink sends while the connection is idle would be taken for that to the next request."""
    answered, seen = asyncio.Event(), asyncio.Event()

    async def early(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"data")
        writer.write(NO_CONTENT)
        if not seen.is_set():
            await answered.wait()
            await asyncio.sleep(0.03)  # the connection is idle for longer than it is used again unseen
            writer.write(status(410))
            seen.set()

    async with listening(early) as url, client_of() as client:
        assert (await post(client, url)).status == 204
        answered.set()
        await seen.wait()
        assert (await post(client, url)).status == 204


@on_both_loops
async def test_a_connection_that_the_sink_closes_between_two_requests_costs_no_attempt() -> None:
    answered, closed = asyncio.Event(), asyncio.Event()

    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"data")
        writer.write(NO_CONTENT)
        await answered.wait()
        await asyncio.sleep(0.03)
        writer.close()
        await writer.wait_closed()
        closed.set()

    async with listening(once) as url, client_of() as client:
        assert (await post(client, url)).status == 204
        answered.set()
        await closed.wait()
        assert (await post(client, url)).status == 204


@on_both_loops
async def test_the_loops_lateness_does_not_hide_that_the_sink_has_closed_the_connection() -> None:
    """The end of the stream is in the socket, but the loop has not read it yet."""
    async with http_sink() as server, client_of() as client:
        await post(client, server.url)
        connection = client.pool.acquire(target_of(server.url).origin)
        assert connection is not None
        client.pool.on_idle(connection)
        connection.idle_since -= 0.02
        connection._socket.shutdown(socket.SHUT_RD)
        assert client.pool.acquire(target_of(server.url).origin) is None


@on_both_loops
async def test_a_connection_is_not_used_again_after_a_while() -> None:
    async with http_sink() as server, client_of() as client:
        await post(client, server.url)
        (connection,) = client.pool._origins
        connection.idle_since -= IDLE
        await post(client, server.url)
        assert connections_of(server) == [1, 2]


@on_both_loops
async def test_idle_connections_are_closed_even_if_nothing_is_sent() -> None:
    async with http_sink() as server, client_of() as client:
        await post(client, server.url)
        for connection in client.pool._origins:
            connection.idle_since -= IDLE
        await until(lambda: not client.pool._origins and not client.pool._idle)


@on_both_loops
async def test_an_answer_before_the_request_was_sent_counts_and_the_connection_is_closed() -> None:
    """The sink reads the head alone, refuses and reads no more."""

    async def refusing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(status(413))
        await asyncio.sleep(5)

    async with listening(refusing) as url, client_of() as client:
        assert (await post(client, url, b"x" * 20_000_000)).status == 413
        await until(lambda: not client.pool._origins)


@on_both_loops
async def test_one_timer_holds_the_time_limit_of_every_request() -> None:
    silent = asyncio.Event()

    async def script(request: SunkRequest) -> bytes:
        if silent.is_set():
            await asyncio.sleep(30)
        return NO_CONTENT

    async with http_sink(script) as server, client_of() as client:
        await post(client, server.url, seconds=1)
        await asyncio.sleep(1.1)
        await post(client, server.url, seconds=PATIENCE)
        silent.set()
        with pytest.raises(NoAnswer, match="no answer in time"):
            async with asyncio.timeout(PATIENCE / 2):
                await post(client, server.url, seconds=0.2)
        assert connections_of(server) == [1, 1, 1]


@on_both_loops
async def test_a_body_that_does_not_come_in_time_leaves_the_status() -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n12345"
    async with http_sink(lambda request: head) as server, client_of() as client:
        assert (await post(client, server.url, seconds=1)).status == 200
        await until(lambda: not client.pool._origins)


@on_both_loops
async def test_a_head_that_is_cut_off_is_no_answer() -> None:
    async def cutting(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"data")
        writer.write(b"HTTP/1.1 200 OK\r\nserver:")
        writer.close()

    async with listening(cutting) as url, client_of() as client:
        with pytest.raises(NoAnswer, match="what the sink sent is no valid answer"):
            await post(client, url)


@on_both_loops
async def test_a_connection_attempt_that_is_not_answered_ends_in_time() -> None:
    with full_listener("127.0.0.1") as port:
        async with client_of() as client:
            with pytest.raises(NotSent, match="no answer in time"):
                await post(client, f"http://127.0.0.1:{port}/", seconds=0.2)


@on_both_loops
async def test_the_next_address_is_tried_if_the_first_does_not_answer() -> None:
    async def names(host: str, port: int) -> list[str]:
        return ["127.0.0.2", "127.0.0.1"]

    with full_listener("127.0.0.2") as port:
        async with http_sink(port=port) as server, client_of(dialer=Dialer(lambda address: True, names)) as client:
            assert (await post(client, f"http://sink.example:{port}/")).status == 204
            assert server.requests[0].header("host") == f"sink.example:{port}"


@contextmanager
def full_listener(address: str) -> Iterator[int]:
    """A port at which connections are never accepted, and not refused either."""
    with ExitStack() as sockets:
        listener = sockets.enter_context(socket.create_server((address, 0), backlog=0))
        port: int = listener.getsockname()[1]
        for _ in range(3):
            made = sockets.enter_context(socket.socket())
            made.setblocking(False)
            made.connect_ex((address, port))
        yield port


@on_both_loops
async def test_a_cancelled_request_closes_its_connection() -> None:
    async def never(request: SunkRequest) -> bytes:
        await asyncio.sleep(30)
        return NO_CONTENT

    async with http_sink(never) as server, client_of() as client:
        asking = asyncio.ensure_future(post(client, server.url))
        await server.wait_for(1)
        asking.cancel()
        await asyncio.wait([asking])
        assert asking.cancelled()
        await until(lambda: not client.pool._origins)
        assert len(server.requests) == 1


@on_both_loops
async def test_a_closed_client_has_no_connections_and_makes_none() -> None:
    async with http_sink() as server, client_of() as client:
        await post(client, server.url)
        await client.close()
        assert not client.pool._origins
        with pytest.raises(NotSent):
            await post(client, server.url)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


def server_tls(authority: Authority, name: str) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*authority.server(name, file=name))
    return context


def client_tls(ca: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(ca))


@pytest.mark.row("CE-P-3", part="TLS")
@on_both_loops
async def test_the_certificate_is_checked_for_the_name_though_the_address_is_dialled(authority: Authority) -> None:
    tls = client_tls(authority.ca)
    async with http_sink(tls=server_tls(authority, "sink.example")) as server, client_of(tls) as client:
        url = f"https://sink.example:{server.port}/in"
        assert [(await post(client, url)).status for _ in range(2)] == [204, 204]
        assert connections_of(server) == [1, 1]
        with pytest.raises(NotSent, match="its certificate is not accepted: Hostname mismatch"):
            await post(client, f"https://other.example:{server.port}/in")
        assert len(server.requests) == 2


@on_both_loops
async def test_a_certificate_of_an_unknown_authority_is_not_accepted(authority: Authority) -> None:
    async with http_sink(tls=server_tls(authority, "sink.example")) as server, client_of() as client:
        with pytest.raises(NotSent, match="its certificate is not accepted"):
            await post(client, f"https://sink.example:{server.port}/in")
        assert not server.requests


@on_both_loops
async def test_a_sink_without_tls_is_not_sent_anything() -> None:
    received = bytearray()

    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.extend(await reader.read(1000))
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with listening(plain) as url, client_of() as client:
        with pytest.raises(NotSent, match=r"TLS failed|connection failed"):
            await post(client, url.replace("http:", "https:"))
    assert b"POST" not in received


@on_both_loops
async def test_an_idle_connection_over_tls_is_closed_with_the_sink(authority: Authority) -> None:
    tls = client_tls(authority.ca)
    async with client_of(tls) as client:
        async with http_sink(tls=server_tls(authority, "sink.example")) as server:
            url = f"https://sink.example:{server.port}/in"
            await post(client, url)
        await until(lambda: not client.pool._origins)
