"""The MQTT sink against mosquitto, in both versions and all qualities of service."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from paho.mqtt.enums import MQTTProtocolVersion

from bridges.cloudevents.delivery.answers import Answer, DeliveryOutcome
from bridges.cloudevents.delivery.sink import SendAttempt
from bridges.cloudevents.events.bindings.mqtt import MqttMessage, mqtt5_binary
from bridges.cloudevents.events.event import CloudEvent
from bridges.cloudevents.model.values import PlainCredential
from bridges.cloudevents.sinks.common.dialer import NOT_ALLOWED
from bridges.cloudevents.sinks.mqtt.login import MqttTarget
from bridges.cloudevents.sinks.mqtt.sink import MqttSink
from gateway.tasks import until
from tests.support.cloudevents.answer_recorder import AnswerRecorder, attempt, event, local_dialer, strict_supervisor
from tests.support.cloudevents.mqtt_reader import MqttReader
from tests.support.gateway.process import PATIENCE, free_port, hold
from tests.support.servers.certs import Authority
from tests.support.servers.flooding import flooding
from tests.support.servers.sink_servers import Mosquitto

MUCH = 256 * 1024 * 1024
"""Bytes: more than the sockets on the way hold."""
FIVE, THREE = MQTTProtocolVersion.MQTTv5, MQTTProtocolVersion.MQTTv311


def encode(each: CloudEvent) -> MqttMessage:
    return mqtt5_binary(each, (("tenant", "7"), ("id", "mine")))


@asynccontextmanager
async def sink(
    port: int, allowed: Callable[[str], bool] = lambda address: True, **fields: object
) -> AsyncIterator[tuple[MqttSink, AnswerRecorder]]:
    values: dict[str, object] = {
        "host": "127.0.0.1", "port": port, "version": FIVE, "topic": "out/orders", "qos": 1, "retain": False,
        "expiry": None, "tls": None, "login": None, "timeout": PATIENCE / 2,
    }  # fmt: skip
    received, supervisor = AnswerRecorder(), strict_supervisor()
    target = MqttTarget(**{**values, **fields})  # type: ignore[arg-type]
    made = MqttSink(local_dialer(allowed), target, encode, 16, received, supervisor)
    try:
        yield made, received
    finally:
        await made.close(0)
        await supervisor.close()


@pytest.fixture(scope="module")
def broker() -> Iterator[Mosquitto]:
    server = Mosquitto("max_packet_size 20000", "max_queued_messages 0")
    yield server
    server.stop()


@pytest.fixture
def subscriber(broker: Mosquitto) -> Iterator[MqttReader]:
    made = MqttReader(broker.port)
    yield made
    made.close()


@pytest.mark.row("CE-3.2.2.2-2", "CE-3.2.2.2-3", part="the packet")
@pytest.mark.parametrize("version", [FIVE, THREE])
@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_an_event_arrives_with_its_quality_of_service(
    broker: Mosquitto, subscriber: MqttReader, version: MQTTProtocolVersion, qos: int
) -> None:
    async with sink(broker.port, version=version, qos=qos) as (made, received):
        made.send(attempt())
        assert (await received.next()).outcome is DeliveryOutcome.DONE
    message = await asyncio.to_thread(subscriber.next)
    assert (message.topic, message.payload, message.qos, message.retain) == ("out/orders", b"data", qos, False)


@pytest.mark.row("CE-3.2.2.2-5", "CE-3.2.2.2-6", part="the packet")
async def test_version_5_carries_properties_and_expiry(broker: Mosquitto, subscriber: MqttReader) -> None:
    async with sink(broker.port, expiry=77) as (made, received):
        made.send(attempt())
        assert (await received.next()).outcome is DeliveryOutcome.DONE
    properties = (await asyncio.to_thread(subscriber.next)).properties
    assert properties.ContentType == "text/plain"
    assert 0 < properties.MessageExpiryInterval <= 77
    assert dict(properties.UserProperty) == {**event().attributes, "tenant": "7"}


@pytest.mark.row("CE-3.2.2.2-4", part="the packet")
async def test_a_retained_event_waits_for_later_subscribers(broker: Mosquitto) -> None:
    async with sink(broker.port, retain=True, topic="kept/1") as (made, received):
        made.send(attempt())
        assert (await received.next()).outcome is DeliveryOutcome.DONE
    later = MqttReader(broker.port, "kept/#")
    message = await asyncio.to_thread(later.next)
    later.close()
    assert message.retain
    assert message.payload == b"data"


async def test_many_events_share_a_connection_and_keep_their_order(broker: Mosquitto, subscriber: MqttReader) -> None:
    async with sink(broker.port) as (made, received):
        sent = 0
        for _ in range(200):
            while made.free_slots and sent < 200:
                made.send(attempt(str(sent).encode(), sent))
                sent += 1
            assert (await received.next()).outcome is DeliveryOutcome.DONE
    got = [await asyncio.to_thread(subscriber.next) for _ in range(200)]
    assert [message.payload for message in got] == [str(number).encode() for number in range(200)]


async def test_the_server_takes_every_character_that_is_sent(broker: Mosquitto) -> None:
    around = " ~\xa0\ud7ff\ue000\ufdcf\ufdf0\ufffd\U00010000\U0001fffd\U0010fffd"
    async with sink(broker.port) as (made, received):
        for number, character in enumerate(around):
            each = event(number=number)
            each.attributes["subject"] = character  # type: ignore[index]
            made.send(SendAttempt(number, (each,), 0))
            assert (await received.next()).outcome is DeliveryOutcome.DONE, hex(ord(character))


async def test_what_is_larger_than_the_servers_largest_packet_is_refused(broker: Mosquitto) -> None:
    async with sink(broker.port) as (made, received):
        made.send(attempt())
        assert (await received.next()).outcome is DeliveryOutcome.DONE
        made.send(attempt(b"x" * 30_000))
        reason = "larger than the server's largest packet of 20000 bytes"
        assert await received.next() == Answer(DeliveryOutcome.REFUSED, reason)
        made.send(attempt())
        assert (await received.next()).outcome is DeliveryOutcome.DONE


@pytest.mark.parametrize("version", [FIVE, THREE])
async def test_a_wrong_password_is_a_matter_of_the_credential(version: MQTTProtocolVersion) -> None:
    server = Mosquitto(user="gw", password="right")
    try:
        async with sink(server.port, version=version, login=PlainCredential("gw", "wrong")) as (made, received):
            made.send(attempt())
            assert (await received.next()).outcome is DeliveryOutcome.CREDENTIAL
        async with sink(server.port, version=version, login=PlainCredential("gw", "right")) as (made, received):
            made.send(attempt())
            assert (await received.next()).outcome is DeliveryOutcome.DONE
    finally:
        server.stop()


async def test_a_server_that_was_away_gets_the_next_attempt() -> None:
    server = Mosquitto()
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


@pytest.mark.parametrize("version", [FIVE, THREE])
async def test_events_under_way_on_a_lost_connection_fail_at_once(version: MQTTProtocolVersion) -> None:
    server, failures = Mosquitto(), []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: failures.append(context))
    try:
        async with sink(server.port, version=version, timeout=10 * PATIENCE) as (made, received):
            made.send(attempt())
            assert (await received.next()).outcome is DeliveryOutcome.DONE
            assert server.process is not None
            hold(server.process.pid)
            for number in range(3):
                made.send(attempt(b"x" * 5_000_000, number))  # more than the sockets hold
            connection = made._connection
            assert connection is not None
            await until(lambda: len(connection._unacknowledged) == 3, PATIENCE)
            server.kill()
            for _ in range(3):
                assert await received.next() == Answer(DeliveryOutcome.FAILED, "the connection was lost", reached=False)
    finally:
        server.stop()
    assert not failures


@pytest.mark.parametrize("endless", [b"\x30\xff\xff\xff\x7f" + b"x" * 60_000, b"\xd0\x00", b"\x40\x02\x00\x01"])
async def test_a_server_that_sends_without_end_is_left(endless: bytes) -> None:
    """One packet of 256 MB, or many small ones: neither memory nor time of the loop is the server's."""
    port = free_port()
    async with flooding(port, b"", b"\x20\x03\x00\x00\x00", endless, MUCH) as flood, sink(
        port, timeout=10 * PATIENCE
    ) as (made, received):
        made.send(attempt())
        answer = await received.next()
        assert answer.outcome in (DeliveryOutcome.FAILED, DeliveryOutcome.SINK_FAILED, DeliveryOutcome.DONE)
        await until(lambda: made._connection is None or made._connection.lost, PATIENCE)
        assert (flood.connections, flood.sent < MUCH) == (1, True)


@pytest.mark.row("CE-P-3", part="MQTT")
async def test_nothing_is_connected_that_is_not_allowed(broker: Mosquitto) -> None:
    async with sink(broker.port, allowed=lambda address: False) as (made, received):
        made.send(attempt())
        assert await received.next() == Answer(DeliveryOutcome.SINK_FAILED, NOT_ALLOWED, reached=False)


async def test_nobody_there_is_the_sinks_fault() -> None:
    async with sink(free_port()) as (made, received):
        made.send(attempt())
        assert await received.next() == Answer(DeliveryOutcome.SINK_FAILED, "connection refused", reached=False)


async def test_tls_checks_the_name_of_the_sink_not_its_address(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    server = Mosquitto(pair=authority.server("mqtt.example"))
    context = ssl.create_default_context(cafile=str(authority.ca))
    try:
        async with sink(server.tls_port, host="mqtt.example", tls=context) as (made, received):
            made.send(attempt())
            assert (await received.next()).outcome is DeliveryOutcome.DONE
        async with sink(server.tls_port, host="other.example", tls=context) as (made, received):
            made.send(attempt())
            answer = await received.next()
            assert answer.outcome is DeliveryOutcome.SINK_FAILED
            assert "certificate" in answer.reason
    finally:
        server.stop()


async def test_much_goes_over_tls_in_pieces(tmp_path: Path) -> None:
    """More than the sockets hold: what OpenSSL could not write is offered again, and nothing before it."""
    authority = Authority(tmp_path)
    server = Mosquitto("max_queued_messages 0", pair=authority.server("mqtt.example"))
    context = ssl.create_default_context(cafile=str(authority.ca))
    reader = MqttReader(server.port)
    try:
        async with sink(server.tls_port, host="mqtt.example", tls=context) as (made, received):
            for number in range(16):
                made.send(attempt(bytes((number,)) * 500_000, number))
            for _ in range(16):
                assert (await received.next()).outcome is DeliveryOutcome.DONE
        got = [await asyncio.to_thread(reader.next) for _ in range(16)]
        assert [message.payload for message in got] == [bytes((number,)) * 500_000 for number in range(16)]
    finally:
        reader.close()
        server.stop()


async def test_events_that_were_not_sent_when_the_connection_ends_are_not_at_fault() -> None:
    """A server that takes one at a time and closes would otherwise make dead letters of events that it never got."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1000)
        writer.write(bytes([0x20, 6, 0, 0, 3, 0x21, 0, 1]))  # CONNACK with a Receive Maximum of 1
        await reader.read(1000)  # a PUBLISH
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server, sink(server.sockets[0].getsockname()[1]) as (made, received):
        for number in range(4):
            made.send(attempt(number=number))
        outcomes = [(await received.next()).outcome for _ in range(4)]
    assert sorted(each.name for each in outcomes) == ["FAILED", *["SINK_FAILED"] * 3]
