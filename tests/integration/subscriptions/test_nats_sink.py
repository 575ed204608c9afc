"""The NATS sink against nats-server: core NATS and JetStream."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import nats
import pytest
from nats.aio.msg import Msg

from bridges.cloudevents.delivery.answers import Answer, DeliveryOutcome
from bridges.cloudevents.events.bindings.nats import nats_binary
from bridges.cloudevents.model.values import AccessToken, PlainCredential
from bridges.cloudevents.sinks.common.dialer import NOT_ALLOWED
from bridges.cloudevents.sinks.nats import NatsSink, NatsTarget
from bridges.cloudevents.sinks.nats.client import header_block
from bridges.cloudevents.sinks.nats.sink import message_id
from gateway.tasks import until
from tests.support.cloudevents.answer_recorder import AnswerRecorder, attempt, event, local_dialer, strict_supervisor
from tests.support.gateway.process import PATIENCE, free_port, hold
from tests.support.project.loops import on_both_loops
from tests.support.servers.certs import Authority
from tests.support.servers.flooding import flooding
from tests.support.servers.sink_servers import NatsServer

INFO = b'INFO {"server_id": "x", "version": "2.9.10", "proto": 1, "headers": true, "max_payload": 1048576}\r\n'
MUCH = 256 * 1024 * 1024
"""Bytes: more than the sockets on the way hold."""
HEADERS = nats_binary(event())[0]
BUSY = 2.5
"""Seconds that an attempt may take where one has no answer: more than a busy machine stands still."""
LIMITED = """
max_payload: 10000
authorization: {
  users: [
    {user: gw, password: right, permissions: {publish: ["out.>", "$JS.>", "_INBOX.>"], subscribe: ">"}}
    {user: all, password: all}
  ]
}
"""


@asynccontextmanager
async def sink(
    port: int, allowed: Callable[[str], bool] = lambda address: True, **fields: object
) -> AsyncIterator[tuple[NatsSink, AnswerRecorder]]:
    values: dict[str, object] = {
        "host": "127.0.0.1", "port": port, "subject": "out.orders", "jetstream": False,
        "tls": None, "login": None, "timeout": PATIENCE / 2,
    }  # fmt: skip
    received, supervisor, failures = AnswerRecorder(), strict_supervisor(), list[object]()
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: failures.append(context))
    target = NatsTarget(**{**values, **fields})  # type: ignore[arg-type]
    made = NatsSink(local_dialer(allowed), target, nats_binary, 16, received, supervisor)
    try:
        yield made, received
    finally:
        await made.close(0)
        await supervisor.close()
    assert not failures, "a task failed"


@asynccontextmanager
async def subscribed(port: int, subject: str = "out.>", **login: str) -> AsyncIterator[Callable[[], object]]:
    client = await nats.connect(f"nats://127.0.0.1:{port}", **login)
    subscription = await client.subscribe(subject)
    await client.flush()

    async def following() -> Msg:
        return await subscription.next_msg(PATIENCE)

    try:
        yield following
    finally:
        await client.close()


@pytest.fixture(scope="module")
def server() -> Iterator[NatsServer]:
    made = NatsServer()
    yield made
    made.stop()


@pytest.mark.row("CE-3.2.2.5-1", part="the message")
async def test_an_event_arrives_on_the_subject_before_it_is_done(server: NatsServer) -> None:
    async with subscribed(server.port) as following, sink(server.port) as (made, received):
        made.send(attempt())
        assert (await received.next()).outcome is DeliveryOutcome.DONE
        message = await following()
    assert (message.subject, message.data) == ("out.orders", b"data")
    named = {f"ce-{name}": value for name, value in event().attributes.items()}
    assert message.headers == {**named, "ce-datacontenttype": "text/plain"}


async def test_many_events_keep_their_order(server: NatsServer) -> None:
    async with subscribed(server.port) as following, sink(server.port) as (made, received):
        sent = 0
        for _ in range(200):
            while made.free_slots and sent < 200:
                made.send(attempt(str(sent).encode(), sent))
                sent += 1
            assert (await received.next()).outcome is DeliveryOutcome.DONE
        assert [(await following()).data for _ in range(200)] == [str(number).encode() for number in range(200)]


async def test_jetstream_acknowledges_and_drops_repetitions(server: NatsServer) -> None:
    client = await nats.connect(f"nats://127.0.0.1:{server.port}")
    stream = client.jetstream()
    await stream.add_stream(name="KEPT", subjects=["kept.*"])
    async with sink(server.port, subject="kept.orders", jetstream=True) as (made, received):
        for repetition in range(3):
            made.send(attempt(earlier_attempts=repetition))
            assert (await received.next()).outcome is DeliveryOutcome.DONE
        made.send(attempt(number=2))
        assert (await received.next()).outcome is DeliveryOutcome.DONE
    assert (await stream.stream_info("KEPT")).state.messages == 2
    await client.close()


async def test_a_subject_without_a_stream_is_the_sinks_fault(server: NatsServer) -> None:
    async with sink(server.port, subject="nobody.there", jetstream=True) as (made, received):
        made.send(attempt())
        assert await received.next() == Answer(DeliveryOutcome.SINK_FAILED, "no stream takes messages of the subject")


@pytest.fixture(scope="module")
def limited() -> Iterator[NatsServer]:
    made = NatsServer(LIMITED)
    yield made
    made.stop()


async def test_permissions_passwords_and_sizes_have_their_answers(limited: NatsServer) -> None:
    right = PlainCredential("gw", "right")
    async with sink(limited.port, login=right) as (made, received):
        made.send(attempt())
        assert (await received.next()).outcome is DeliveryOutcome.DONE
        made.send(attempt(b"x" * 20_000))
        reason = "larger than the server's max_payload of 10000 bytes"
        assert await received.next() == Answer(DeliveryOutcome.REFUSED, reason)
        made.send(attempt())
        assert (await received.next()).outcome is DeliveryOutcome.DONE
    async with sink(limited.port, login=right, subject="forbidden") as (made, received):
        for _ in range(20):  # the answer to the PING must not come before the one to the message
            made.send(attempt())
            assert (await received.next()).outcome is DeliveryOutcome.CREDENTIAL
    for wrong in (PlainCredential("gw", "wrong"), AccessToken("token", 0), None):
        async with sink(limited.port, login=wrong) as (made, received):
            made.send(attempt())
            answer = await received.next()
            assert answer == Answer(DeliveryOutcome.CREDENTIAL, "the server does not accept the login")


async def test_events_that_are_published_together_have_an_answer_each(limited: NatsServer) -> None:
    async with (
        subscribed(limited.port, user="all", password="all") as following,
        sink(limited.port, login=PlainCredential("gw", "right")) as (made, received),
    ):
        made.send(attempt())
        assert (await received.next()).outcome is DeliveryOutcome.DONE
        for number in range(5):
            made.send(attempt(b"x" * (20_000 if number == 2 else number), number + 2))
        outcomes = [(await received.next()).outcome for _ in range(5)]
        assert outcomes == [DeliveryOutcome.REFUSED if number == 2 else DeliveryOutcome.DONE for number in range(5)]
        assert [len((await following()).data) for _ in range(5)] == [4, 0, 1, 3, 4]  # type: ignore[attr-defined]


@pytest.mark.parametrize("headers", [{"a b": "c"}, {"a": "b\r\nc: d"}, {"a": "b\n"}, {"": "b"}])
def test_headers_that_no_message_can_have_are_refused(headers: dict[str, str]) -> None:
    assert header_block({"ce-id": "1"}) == b"NATS/1.0\r\nce-id: 1\r\n\r\n"
    with pytest.raises(ValueError, match="header"):
        header_block({"ce-id": "1", **headers})


async def test_events_that_come_before_the_connection_are_published_together_too(server: NatsServer) -> None:
    """Otherwise a subscription that is never idle would send each event by itself for ever."""
    async with sink(server.port) as (made, received):
        for number in range(16):
            made.send(attempt(number=number))
        for number in range(16, 48):
            assert (await received.next()).outcome is DeliveryOutcome.DONE
            made.send(attempt(number=number))
        for _ in range(16):
            assert (await received.next()).outcome is DeliveryOutcome.DONE
        assert made._client is not None
        assert made._client.confirmations <= 4, "48 events with a window of 16"


@pytest.mark.parametrize("jetstream", [False, True])
async def test_headers_count_for_the_largest_message(limited: NatsServer, jetstream: bool) -> None:
    """The server ends the connection for a larger message, and would again."""
    async with sink(limited.port, login=PlainCredential("gw", "right"), jetstream=jetstream) as (made, received):
        exact = len(b"NATS/1.0\r\n\r\n") + sum(len(f"{name}: {value}\r\n") for name, value in HEADERS.items())
        exact += len(f"Nats-Msg-Id: {message_id('out.orders', event())}\r\n") if jetstream else 0
        made.send(attempt(b"x" * (10_001 - exact)))
        assert (await received.next()).outcome is DeliveryOutcome.REFUSED
        made.send(attempt(b"x" * (10_000 - exact)))
        expected = DeliveryOutcome.SINK_FAILED if jetstream else DeliveryOutcome.DONE  # there is no stream
        assert (await received.next()).outcome is expected


@pytest.mark.parametrize("jetstream", [False, True])
async def test_events_under_way_on_a_lost_connection_fail_at_once(jetstream: bool) -> None:
    server = NatsServer()
    try:
        async with sink(server.port, jetstream=jetstream, timeout=10 * PATIENCE) as (made, received):
            made.send(attempt())
            await received.next()
            assert server.process is not None
            hold(server.process.pid)
            made.send(attempt())
            client = made._client
            assert client is not None
            await until(lambda: client.stats["out_msgs"] == 2, PATIENCE)  # it is on its way
            server.kill()
            answer = await received.next()
        assert answer == Answer(DeliveryOutcome.FAILED, "the connection was lost", reached=False)
    finally:
        server.stop()


@pytest.mark.parametrize("endless", [b"x" * 60_000, b"PING\r\n", b"MSG a 1 2\r\nhi\r\n", INFO])
async def test_a_server_that_sends_without_end_is_left(endless: bytes) -> None:
    """One message of 2 GB, or many small ones: neither memory nor time of the loop is the server's."""
    port, large = free_port(), b"MSG a 1 2000000000\r\n" if endless[0] == ord("x") else b""
    async with flooding(port, INFO, b"PONG\r\n" + large, endless, MUCH) as flood, sink(
        port, timeout=10 * PATIENCE
    ) as (made, received):
        made.send(attempt())
        assert (await received.next()).outcome in (DeliveryOutcome.FAILED, DeliveryOutcome.SINK_FAILED)
        assert (flood.connections, flood.sent < MUCH) == (1, True)


async def test_a_malformed_limit_of_a_server_is_its_fault() -> None:
    port = free_port()
    info = b'INFO {"server_id": "x", "max_payload": "large"}\r\n'
    async with flooding(port, info, b"PONG\r\n", b" ", 0), sink(port) as (made, received):
        made.send(attempt())
        assert (await received.next()).outcome is DeliveryOutcome.SINK_FAILED


@asynccontextmanager
async def silent_once(silent: int) -> AsyncIterator[tuple[int, list[int]]]:
    """A server that answers each PING but one of its first connection; its port, and the PINGs of each connection."""
    pings: list[int] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = len(pings)
        pings.append(0)
        writer.write(INFO)
        while line := await reader.readline():
            if line.startswith(b"HPUB"):
                await reader.readexactly(int(line.split()[-1]) + 2)
            elif line.startswith(b"PING"):
                pings[number] += 1
                writer.write(b"" if (number, pings[number]) == (0, silent) else b"PONG\r\n")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], pings


@on_both_loops
async def test_after_a_missing_confirmation_nothing_counts_as_done_without_one() -> None:
    """The next PONG would be taken for that of the PING before, and ends what nats-py reads."""
    async with silent_once(3) as (port, pings), sink(port, timeout=BUSY) as (made, received):
        outcomes = []
        for number in range(12):
            made.send(attempt(number=number))
            outcomes.append((await received.next()).outcome)
        done = outcomes.count(DeliveryOutcome.DONE)
    assert (outcomes[0], outcomes[-1], len(pings)) == (DeliveryOutcome.DONE, DeliveryOutcome.DONE, 2)
    assert DeliveryOutcome.FAILED in outcomes
    assert done <= sum(pings) - len(pings) - 1, "a PING of each is for the login; one has no answer"


@on_both_loops
async def test_a_server_that_reads_nothing_holds_nobody_up() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(INFO)
        while not (await reader.readline()).startswith(b"PING"):
            pass
        writer.write(b"PONG\r\n")
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1024)
    async with sink(server.sockets[0].getsockname()[1], timeout=1) as (made, received):
        for number in range(16):
            made.send(attempt(b"x" * 1_000_000, number))
        for _ in range(16):
            assert (await received.next()).outcome is DeliveryOutcome.FAILED
        await asyncio.wait_for(made.close(0), PATIENCE)
    server.close()


async def test_a_server_that_was_away_gets_the_next_attempt() -> None:
    server = NatsServer()
    try:
        async with sink(server.port) as (made, received):
            made.send(attempt())
            assert (await received.next()).outcome is DeliveryOutcome.DONE
            server.kill()
            made.send(attempt())
            assert not (await received.next()).reached
            server.start()
            made.send(attempt())
            assert (await received.next()).outcome is DeliveryOutcome.DONE
    finally:
        server.stop()


@pytest.mark.row("CE-P-3", part="NATS")
async def test_nothing_is_connected_that_is_not_allowed(server: NatsServer) -> None:
    async with sink(server.port, allowed=lambda address: False) as (made, received):
        made.send(attempt())
        assert await received.next() == Answer(DeliveryOutcome.SINK_FAILED, NOT_ALLOWED, reached=False)
    async with sink(free_port()) as (made, received):
        made.send(attempt())
        assert await received.next() == Answer(DeliveryOutcome.SINK_FAILED, "connection refused", reached=False)


async def test_tls_checks_the_name_of_the_sink_and_is_never_given_up(tmp_path: Path, server: NatsServer) -> None:
    authority = Authority(tmp_path)
    pair = authority.server("nats.example")
    secured = NatsServer(f'tls {{ cert_file: "{pair.cert}", key_file: "{pair.key}" }}')
    context = ssl.create_default_context(cafile=str(authority.ca))
    try:
        async with sink(secured.port, host="nats.example", tls=context) as (made, received):
            made.send(attempt())
            assert (await received.next()).outcome is DeliveryOutcome.DONE
        async with sink(secured.port, host="other.example", tls=context) as (made, received):
            made.send(attempt())
            answer = await received.next()
            assert answer.outcome is DeliveryOutcome.SINK_FAILED
            assert "certificate" in answer.reason
        async with sink(server.port, host="nats.example", tls=context, login=PlainCredential("a", "b")) as (
            made,
            received,
        ):
            made.send(attempt())
            assert await received.next() == Answer(
                DeliveryOutcome.SINK_FAILED, "the server does not offer TLS", reached=False
            )
    finally:
        secured.stop()
