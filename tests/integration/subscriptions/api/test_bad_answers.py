"""Sinks that answer badly, and events that no sink likes, at a real process: each is repeated, refused or passed on.

A bad answer costs its own event one attempt, and no more of the gateway than its limits say.
"""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple

import pytest
from confluent_kafka import Producer

from tests.bench.running import resident_kib
from tests.support.gateway.gateway import Gateway, Gateways
from tests.support.gateway.process import PATIENCE, free_port
from tests.support.servers.embedded_kafka import EmbeddedKafka
from tests.support.servers.http_sink import NO_CONTENT, HttpSinkServer, SunkRequest, http_sink, status
from tests.support.servers.kafka import new_producer
from tests.support.subscriptions.api import PATH, ApiClient, api_port, eventually, http_rule, subscription_policy

Badly = Callable[[asyncio.StreamWriter], Awaitable[None]]
_PIECE: Final = 65_536
TIMEOUT: Final = 4.0
"""Seconds that an attempt may take."""
ASKED_AT_MOST: Final = 1.0
"""Seconds that a sink may ask the gateway to wait."""
BUSY: Final = 10.0
"""Seconds that a busy machine may add to that; much less than the sinks ask for."""
CLOCK: Final = 0.01
"""Seconds by which the clock of a loop, which counts milliseconds, may be read too early."""


class Odd(NamedTuple):
    """A gateway, and the port at which its sinks are."""

    gateway: Gateway
    api: ApiClient
    producer: Producer
    port: int

    async def create(self, type: str, **members: Any) -> str:
        """A subscription of the events of a type; its id."""
        body = {"protocol": "HTTP", "sink": f"http://127.0.0.1:{self.port}/", "types": [type], **members}
        made = await self.api.ask("POST", PATH, body)
        assert made.status == 201, made.body
        return str(made.json["id"])

    def write(self, headers: list[tuple[str, bytes]], value: bytes = b"{}") -> None:
        """One record."""
        self.producer.produce("orders", value, key="k", headers=headers)
        assert self.producer.flush(PATIENCE) == 0

    async def events(self, id: str) -> dict[str, int]:
        """The counts of a subscription."""
        found: dict[str, int] = (await self.api.ask("GET", f"{PATH}/{id}/status")).json["events"]
        return found


def headers_of(type: str, id: str = "1", **more: bytes) -> list[tuple[str, bytes]]:
    named = {"specversion": b"1.0", "id": id.encode(), "source": b"/s", "type": type.encode(), **more}
    return [(f"ce_{name}", value) for name, value in named.items()]


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory, start_module_gateway: Gateways) -> Odd:
    port = free_port()
    delivery = {
        "retry": {"min": "20ms", "max": "50ms"}, "timeout": f"{round(1000 * TIMEOUT)}ms",
        "retry_after": f"{ASKED_AT_MOST:.0f}s",
    }  # fmt: skip
    document = subscription_policy(tmp_path_factory.mktemp("odd"), delivery=delivery)
    document.scope()["subscriptions"][0]["sinks"] = [http_rule(port)]
    gateway = start_module_gateway(document.text)
    kafka = EmbeddedKafka()
    kafka.found(gateway)
    producer = new_producer(kafka.bootstrap, **{"linger.ms": 0})
    return Odd(gateway, ApiClient(api_port(document)), producer, port)


# -- answers


async def drip(writer: asyncio.StreamWriter) -> None:
    for byte in b"HTTP/1.1 204 No Content\r\nx: " + b"a" * 1000:
        writer.write(bytes((byte,)))
        await writer.drain()
        await asyncio.sleep(0.1)


async def endless_header(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 204 No Content\r\nx: ")
    await without_end(writer, b"a" * _PIECE)


async def endless_body(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
    await without_end(writer, b"%x\r\n%b\r\n" % (_PIECE, b"a" * _PIECE))


async def informing(writer: asyncio.StreamWriter) -> None:
    await without_end(writer, b"HTTP/1.1 100 Continue\r\n\r\n")


async def without_end(writer: asyncio.StreamWriter, piece: bytes) -> None:
    while True:
        writer.write(piece)
        await writer.drain()


def saying(data: bytes) -> Badly:
    async def say(writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()

    return say


BOMB: Final = gzip.compress(bytes(60_000_000), 1)
REPEATED: Final[dict[str, Badly]] = {
    "garbage": saying(b"\x00\x01\x02 no HTTP\r\n\r\n"),
    "HTTP-0.9": saying(b"<html>hello</html>"),
    "close-without-answer": saying(b""),
    "one-byte-at-a-time": drip,
    "endless-header": endless_header,
    "informing-for-ever": informing,
}
TAKEN: Final[dict[str, Badly]] = {
    "endless-body": endless_body,
    "gzip-bomb": saying(status(200, "content-encoding: gzip", body=BOMB)),
}


@asynccontextmanager
async def bad_sink(port: int, answer: Badly) -> AsyncIterator[HttpSinkServer]:
    """A sink whose first connection is answered badly."""
    async with http_sink(port=port) as sink:
        usual = sink.serve

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if sink.connections:
                await usual(reader, writer)
                return
            sink.connections += 1
            try:
                await reader.readuntil(b"\r\n\r\n")
                await answer(writer)
            except ConnectionError:
                pass
            finally:
                writer.close()

        sink.serve = serve  # type: ignore[method-assign]
        yield sink


@pytest.mark.row("CE-3.2.2.1-4", part="bad answers")
@pytest.mark.parametrize("name", REPEATED)
async def test_what_is_no_answer_is_repeated(odd: Odd, name: str) -> None:
    async with bad_sink(odd.port, REPEATED[name]) as sink:
        id = await odd.create(f"t.{name}")
        await asyncio.to_thread(odd.write, headers_of(f"t.{name}"))
        (again,) = await sink.wait_for(1, PATIENCE)
        await odd.api.ask("DELETE", f"{PATH}/{id}")
    assert (again.header("ce-id"), again.header("scopegate-attempt")) == ("1", "2")


@pytest.mark.parametrize("name", TAKEN)
async def test_an_answer_counts_and_what_follows_is_given_up(odd: Odd, name: str) -> None:
    before = resident_kib(odd.gateway.process.pid)
    async with bad_sink(odd.port, TAKEN[name]) as sink:
        id = await odd.create(f"t.{name}")
        await asyncio.to_thread(odd.write, headers_of(f"t.{name}"))
        await asyncio.to_thread(odd.write, headers_of(f"t.{name}", "2"))
        (second,) = await sink.wait_for(1, PATIENCE)
        assert (await odd.events(id))["repeated"] == 0
        await odd.api.ask("DELETE", f"{PATH}/{id}")
    assert (second.header("ce-id"), second.connection) == ("2", 2), "on another connection"
    assert resident_kib(odd.gateway.process.pid) - before < 20_000


async def test_an_answer_before_the_request_counts(odd: Odd) -> None:
    """It refuses a large event after its head."""
    async with bad_sink(odd.port, saying(status(413))) as sink:
        id = await odd.create("t.early")
        await asyncio.to_thread(odd.write, headers_of("t.early"), b"x" * 900_000)
        await asyncio.to_thread(odd.write, headers_of("t.early", "2"))
        (second,) = await sink.wait_for(1, PATIENCE)
        assert (await odd.events(id))["refused"] == 1
        await odd.api.ask("DELETE", f"{PATH}/{id}")
    assert second.header("ce-id") == "2"


@pytest.mark.row("CE-W-3", part="odd pauses")
@pytest.mark.parametrize(("text", "least"), [("-1", 0.0), ("1000000000", ASKED_AT_MOST), ("soon", 0.0)])
async def test_a_pause_is_bounded_whatever_was_asked(odd: Odd, text: str, least: float) -> None:
    answers = iter([status(429, f"retry-after: {text}")])
    async with http_sink(lambda request: next(answers, NO_CONTENT), port=odd.port) as sink:
        id = await odd.create(f"t.{text}")
        await asyncio.to_thread(odd.write, headers_of(f"t.{text}"))
        first, second = await sink.wait_for(2, PATIENCE)
        await odd.api.ask("DELETE", f"{PATH}/{id}")
    assert least - CLOCK <= second.at - first.at < ASKED_AT_MOST + BUSY


# -- events


async def sent(odd: Odd, type: str, headers: list[tuple[str, bytes]], value: bytes = b"{}", **members: Any) -> Any:
    """What a sink gets of a record; None if nothing comes before the event behind it."""
    async with http_sink(port=odd.port) as sink:
        id = await odd.create(type, **members)
        await asyncio.to_thread(odd.write, headers, value)
        await asyncio.to_thread(odd.write, headers_of(type, "last"))

        def last(request: SunkRequest) -> bool:
            return request.header("ce-id") == "last" or b'"id":"last"' in request.body.replace(b" ", b"")

        async def came() -> bool:
            return any(map(last, sink.requests))

        await eventually(came)
        assert (await odd.events(id))["refused"] == 0
        await odd.api.ask("DELETE", f"{PATH}/{id}")
    return next((each for each in sink.requests if not last(each)), None)


async def test_an_attribute_with_crlf_is_percent_encoded(odd: Odd) -> None:
    found = await sent(odd, "t.crlf", headers_of("t.crlf", subject=b"a\r\nx-evil: 1"))
    assert found.header("ce-subject") == "a%0D%0Ax-evil:%201"
    assert found.header("x-evil") is None


async def test_an_attribute_of_64_kib_is_sent(odd: Odd) -> None:
    found = await sent(odd, "t.long", headers_of("t.long", subject=b"a" * 65_536))
    assert found.header("ce-subject") == "a" * 65_536


@pytest.mark.parametrize(
    "headers",
    [headers_of("t.none", subject=b"\xff"), [each for each in headers_of("t.none") if each[0] != "ce_id"]],
    ids=["invalid-utf-8", "no-id"],
)
async def test_what_is_no_event_is_passed_over(odd: Odd, headers: list[tuple[str, bytes]]) -> None:
    assert await sent(odd, "t.none", headers) is None


async def test_json_that_is_none_goes_as_base64_in_structured_mode(odd: Odd) -> None:
    headers = [*headers_of("t.json"), ("content-type", b"application/json")]
    found = await sent(odd, "t.json", headers, b"{no json", protocolsettings={"x-mode": "structured"})
    event = json.loads(found.body)
    assert "data" not in event
    assert base64.b64decode(event["data_base64"]) == b"{no json"
