"""Sessions with an MQTT server that answers by script: what no broker of the suite does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from paho.mqtt.enums import MQTTProtocolVersion

from bridges.cloudevents.delivery.answers import Answer, DeliveryOutcome
from bridges.cloudevents.events.bindings.mqtt import mqtt5_binary
from bridges.cloudevents.sinks.mqtt import connection
from bridges.cloudevents.sinks.mqtt.login import MqttLogin, MqttTarget, Session
from bridges.cloudevents.sinks.mqtt.sink import MqttSink
from tests.support.cloudevents.answer_recorder import AnswerRecorder, attempt, local_dialer, strict_supervisor
from tests.support.cloudevents.delivery import until
from tests.support.gateway.process import PATIENCE
from tests.support.project.loops import on_both_loops

ACCEPTED = b"\x20\x03\x00\x00\x00"
LIMIT = 2.5
"""Seconds that a publication may take: more than a busy machine stands still, and no whole number."""
TWO_IN_FLIGHT = b"\x20\x06\x00\x00\x03\x21\x00\x02"
"""CONNACK with Receive Maximum 2."""


class Packet:
    """A packet of the client."""

    def __init__(self, first: int, body: bytes) -> None:
        self.kind, self.qos, self.body = first >> 4, first >> 1 & 3, body

    @property
    def id(self) -> bytes:
        """Of a PUBLISH, behind its topic, or of a PUBREL."""
        at = 2 + int.from_bytes(self.body[:2]) if self.kind == 3 else 0
        return self.body[at : at + 2]


Script = Callable[[Packet], bytes]


class ScriptedMqtt:
    """A server; `script` says what it answers to each packet."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.packets: list[Packet] = []
        self.connections = 0
        self.writer: asyncio.StreamWriter | None = None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        self.connections += 1
        try:
            while True:
                packet = await _packet(reader)
                self.packets.append(packet)
                writer.write(self.script(packet))
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    def of(self, kind: int) -> list[Packet]:
        """The packets of a kind."""
        return [each for each in self.packets if each.kind == kind]


async def _packet(reader: asyncio.StreamReader) -> Packet:
    first = (await reader.readexactly(1))[0]
    size = shift = 0
    while True:
        byte = (await reader.readexactly(1))[0]
        size, shift = size | (byte & 0x7F) << shift, shift + 7
        if byte < 0x80:
            return Packet(first, await reader.readexactly(size))


@asynccontextmanager
async def session(
    script: Script, qos: int = 1, seconds: float = PATIENCE / 2, *, retain: bool = False
) -> AsyncIterator[tuple[ScriptedMqtt, MqttSink, AnswerRecorder]]:
    made = ScriptedMqtt(script)
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    received, supervisor = AnswerRecorder(), strict_supervisor()
    target = MqttTarget("127.0.0.1", port, MQTTProtocolVersion.MQTTv5, "t", qos, retain, None, None, None, seconds)
    sink = MqttSink(local_dialer(), target, mqtt5_binary, 16, received, supervisor)
    try:
        yield made, sink, received
    finally:
        await sink.close(0)
        server.close()
        await supervisor.close()


def accepting(answer: Script = lambda packet: b"", connack: bytes = ACCEPTED) -> Script:
    """CONNACK, and what `answer` says."""
    return lambda packet: connack if packet.kind == 1 else answer(packet)


def puback(packet: Packet, code: bytes = b"") -> bytes:
    return b"\x40" + bytes((2 + len(code),)) + packet.id + code if packet.kind == 3 else b""


async def outcomes(received: AnswerRecorder, count: int) -> list[DeliveryOutcome]:
    return [(await received.next()).outcome for _ in range(count)]


@on_both_loops
async def test_no_more_are_under_way_than_the_server_takes() -> None:
    """Receive Maximum (MQTT 5, 3.3.4): a server may close the connection otherwise."""
    async with session(accepting(connack=TWO_IN_FLIGHT)) as (server, sink, received):
        for number in range(5):
            sink.send(attempt(number=number))
        for count in (2, 4):
            await until(lambda count=count: len(server.of(3)) == count)  # type: ignore[misc]
            await asyncio.sleep(0.02)
            assert len(server.of(3)) == count
            assert server.writer is not None
            server.writer.write(b"".join(map(puback, server.of(3)[-2:])))
            assert await outcomes(received, 2) == [DeliveryOutcome.DONE] * 2
        await until(lambda: len(server.of(3)) == 5)
        assert server.writer is not None
        server.writer.write(puback(server.of(3)[-1]))
        assert await outcomes(received, 1) == [DeliveryOutcome.DONE]
        assert len({each.id for each in server.of(3)}) == 5


@on_both_loops
async def test_quality_of_service_2_is_done_when_it_is_complete() -> None:
    def answer(packet: Packet) -> bytes:
        return b"\x50\x02" + packet.id if packet.kind == 3 else b""

    async with session(accepting(answer), qos=2) as (server, sink, received):
        sink.send(attempt())
        await until(lambda: len(server.of(6)) == 1)
        assert received.nothing
        assert server.writer is not None
        server.writer.write(b"\x70\x02" + server.of(6)[0].id)
        assert await outcomes(received, 1) == [DeliveryOutcome.DONE]
        assert (server.of(3)[0].qos, server.of(6)[0].id) == (2, server.of(3)[0].id)


@on_both_loops
async def test_a_refusal_at_quality_of_service_2_ends_the_exchange() -> None:
    def answer(packet: Packet) -> bytes:
        return b"\x50\x03" + packet.id + b"\x99" if packet.kind == 3 else b""

    async with session(accepting(answer), qos=2) as (server, sink, received):
        sink.send(attempt())
        assert await received.next() == Answer(DeliveryOutcome.REFUSED, "the server answered 0x99", 0x99)
        assert not server.of(6)


@on_both_loops
async def test_one_answer_that_does_not_come_ends_the_connection_in_time() -> None:
    def answer(packet: Packet) -> bytes:
        return b"" if b"never" in packet.body else puback(packet)

    took = list[float]()
    async with session(accepting(answer), seconds=LIMIT) as (server, sink, received):
        while not took or (took[-1] >= LIMIT + 0.4 and len(took) < 5):  # a machine that is busy may be late once
            sink.send(attempt())
            assert await outcomes(received, 1) == [DeliveryOutcome.DONE]
            begun = asyncio.get_running_loop().time()
            sink.send(attempt(b"never", 2))
            late = Answer(DeliveryOutcome.FAILED, "no answer in time", reached=False)
            assert await received.next() == late
            took.append(asyncio.get_running_loop().time() - begun)
        assert LIMIT <= took[-1] < LIMIT + 0.4, "not with the next second"
        sink.send(attempt(number=3))
        assert await outcomes(received, 1) == [DeliveryOutcome.DONE]
        assert server.connections == len(took) + 1


@on_both_loops
async def test_a_quiet_connection_is_kept_and_one_that_is_dead_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    run = MqttLogin.run

    async def impatient(login: MqttLogin) -> Session:
        return (await run(login))._replace(keepalive=0.5)  # type: ignore[arg-type]

    monkeypatch.setattr(MqttLogin, "run", impatient)
    monkeypatch.setattr(connection, "_TICK", 0.02)
    alive = asyncio.Event()
    alive.set()

    def answer(packet: Packet) -> bytes:
        return (b"\xd0\x00" if alive.is_set() else b"") if packet.kind == 12 else puback(packet)

    async with session(accepting(answer)) as (server, sink, received):
        sink.send(attempt())
        assert await outcomes(received, 1) == [DeliveryOutcome.DONE]
        await until(lambda: len(server.of(12)) >= 3)
        made = sink._connection
        assert made is not None
        assert not made.lost
        alive.clear()
        await until(lambda: made.lost)


@on_both_loops
async def test_the_server_says_how_often_it_wants_to_hear_something() -> None:
    """Server Keep Alive (MQTT 5, 3.2.2.3.14)."""
    async with session(accepting(puback, b"\x20\x06\x00\x00\x03\x13\x00\x07")) as (_, sink, received):
        sink.send(attempt())
        assert await outcomes(received, 1) == [DeliveryOutcome.DONE]
        assert sink._connection is not None
        assert sink._connection._session.keepalive == 7


@pytest.mark.parametrize(
    ("offer", "reason"),
    [(b"\x24\x00", "the server does not take qos 1"), (b"\x25\x00", "the server does not retain messages")],
)
@on_both_loops
async def test_nothing_is_sent_to_a_server_that_does_not_take_it(offer: bytes, reason: str) -> None:
    """Maximum QoS and Retain Available (MQTT 5, 3.2.2.3.4 and 3.2.2.3.5)."""
    connack = b"\x20\x05\x00\x00\x02" + offer
    async with session(accepting(puback, connack), retain=True) as (server, sink, received):
        sink.send(attempt())
        assert await received.next() == Answer(DeliveryOutcome.SINK_FAILED, reason)
        assert not server.of(3)


@on_both_loops
async def test_what_the_server_sends_with_its_first_answer_is_read() -> None:
    """PINGRESP in the same segment as CONNACK."""
    async with session(accepting(puback, ACCEPTED + b"\xd0\x00")) as (_, sink, received):
        for number in range(3):
            sink.send(attempt(number=number))
        assert await outcomes(received, 3) == [DeliveryOutcome.DONE] * 3


@on_both_loops
async def test_a_server_that_says_good_bye_fails_what_is_under_way() -> None:
    async with session(accepting(lambda packet: b"\xe0\x02\x93\x00")) as (_, sink, received):
        for number in range(3):
            sink.send(attempt(number=number))
        assert await outcomes(received, 3) == [DeliveryOutcome.FAILED] * 3


