"""The Kafka sink against a real broker."""

from __future__ import annotations

import asyncio
import itertools
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from bridges.cloudevents.delivery.answers import Answer, DeliveryOutcome
from bridges.cloudevents.events.bindings.kafka import kafka_binary, record_key
from bridges.cloudevents.events.event import CloudEvent
from bridges.cloudevents.sinks.kafka import KafkaClients, KafkaSink
from bridges.kafka.records.envelope import Header
from tests.support.cloudevents.answer_recorder import AnswerRecorder, attempt, event
from tests.support.gateway.process import PATIENCE, free_port
from tests.support.kafka.records import copies
from tests.support.servers.certs import Authority, Pair
from tests.support.servers.kafka import KafkaBroker

_numbers = itertools.count()


def encode(each: CloudEvent) -> tuple[bytes | None, list[Header], bytes | None]:
    return record_key(each, "type"), *kafka_binary(each)


@pytest.fixture
def topic(kafka_broker: KafkaBroker) -> str:
    name = f"push-{next(_numbers)}-{free_port()}"
    kafka_broker.create_topic(name, 1, config={"max.message.bytes": "20000"})
    return name


@asynccontextmanager
async def sink(
    bootstrap: str, topic: str, window: int = 16, **settings: object
) -> AsyncIterator[tuple[KafkaSink, AnswerRecorder]]:
    received = AnswerRecorder()
    every = {"bootstrap.servers": bootstrap, "acks": "all", "message.timeout.ms": round(500 * PATIENCE), **settings}
    made = KafkaSink(KafkaClients(), every, topic, encode, window, received)
    try:
        yield made, received
    finally:
        await made.close(0)


@pytest.mark.row("CE-3.2.2.4-2", "CE-3.2.2.4-3", part="the record")
async def test_an_event_becomes_a_record_of_the_topic(kafka_broker: KafkaBroker, topic: str) -> None:
    async with sink(kafka_broker.bootstrap, topic) as (made, received):
        made.send(attempt())
        assert (await received.next()).outcome is DeliveryOutcome.DONE
        made.send(attempt(None, number=2))
        assert (await received.next()).outcome is DeliveryOutcome.DONE
    first, second = copies(kafka_broker, topic, 2)
    assert (first.key(), first.value()) == (b"t", b"data")
    named = [(f"ce_{name}", value.encode()) for name, value in event().attributes.items()]
    assert first.headers() == [*named, ("content-type", b"text/plain")]
    assert second.value() is None, "an event without data"


@pytest.mark.row("CE-3.2.2.4-5", part="the record")
@pytest.mark.parametrize("acks", ["0", "1", "all"])
async def test_events_keep_their_order_with_any_acks(kafka_broker: KafkaBroker, topic: str, acks: str) -> None:
    async with sink(kafka_broker.bootstrap, topic, acks=acks) as (made, received):
        sent = 0
        for _ in range(100):
            while made.free_slots and sent < 100:
                made.send(attempt(str(sent).encode(), sent))
                sent += 1
            assert (await received.next()).outcome is DeliveryOutcome.DONE
    values = [record.value() for record in copies(kafka_broker, topic, 100)]
    assert values == [str(number).encode() for number in range(100)]


async def test_one_record_that_is_too_large_takes_no_others_with_it(kafka_broker: KafkaBroker, topic: str) -> None:
    async with sink(kafka_broker.bootstrap, topic, **{"linger.ms": 200}) as (made, received):
        for number, size in enumerate([100, 30_000, 100]):
            made.send(attempt(b"x" * size, number))
        answers = [await received.next() for _ in range(3)]
    verdicts = sorted(answer.outcome.name for answer in answers)
    assert verdicts == ["DONE", "DONE", "REFUSED"]
    assert len(copies(kafka_broker, topic, 2)) == 2


async def test_a_missing_topic_is_the_sinks_fault(kafka_broker: KafkaBroker) -> None:
    async with sink(kafka_broker.bootstrap, "no-such-topic", **{"message.timeout.ms": 500}) as (made, received):
        made.send(attempt())
        answer = await received.next()
    assert answer.outcome in (DeliveryOutcome.SINK_FAILED, DeliveryOutcome.FAILED)


async def test_a_cluster_that_is_away_is_repeated() -> None:
    async with sink(f"127.0.0.1:{free_port()}", "t", **{"message.timeout.ms": 300}) as (made, received):
        made.send(attempt())
        assert await received.next() == Answer(
            DeliveryOutcome.FAILED, "not written in time (_MSG_TIMED_OUT)", reached=False
        )


@asynccontextmanager
async def tls_server(pair: Pair) -> AsyncIterator[int]:
    """A server that does TLS, and reads; yields its port."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*pair)

    async def read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            await reader.read()

    async with await asyncio.start_server(read, "127.0.0.1", 0, ssl=context) as server:
        yield server.sockets[0].getsockname()[1]


async def test_a_certificate_that_is_not_accepted_is_the_reason(tmp_path: Path) -> None:
    trusted = {"security.protocol": "ssl", "ssl.ca.location": str(Authority(tmp_path, "other-ca").ca)}
    async with (
        tls_server(Authority(tmp_path).server()) as port,
        sink(f"localhost:{port}", "t", **{**trusted, "message.timeout.ms": 4000}) as (made, received),
    ):
        made.send(attempt())
        text = "TLS with the cluster failed, or its certificate is not accepted (_MSG_TIMED_OUT)"
        assert await received.next() == Answer(DeliveryOutcome.SINK_FAILED, text, reached=False)


async def test_clients_are_shared_and_bounded() -> None:
    clients = KafkaClients()
    first = clients.acquire({"bootstrap.servers": "127.0.0.1:1"})
    assert clients.acquire({"bootstrap.servers": "127.0.0.1:1"}) is first
    for number in range(2, 65):
        assert clients.acquire({"bootstrap.servers": f"127.0.0.1:{number}"}) is not None
    assert clients.acquire({"bootstrap.servers": "127.0.0.1:99"}) is None
    for number in (1, *range(1, 65)):
        clients.release({"bootstrap.servers": f"127.0.0.1:{number}"})
    assert clients.acquire({"bootstrap.servers": "127.0.0.1:99"}) is not None
    clients.release({"bootstrap.servers": "127.0.0.1:99"})
