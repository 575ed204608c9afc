"""What peers see while Kafka is away: released or modified, never a hang, never accepted (KM-15)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import NamedTuple

import pytest
from structlog.testing import capture_logs

from bridges.kafka.admin.embedded import EmbeddedKafka
from bridges.kafka.clusters.cluster import ClusterConfig
from gateway.amqp.link.outcomes import ACCEPTED, RELEASED, Modified
from gateway.errors import INTERNAL_ERROR, AmqpError
from tests.support.amqp.messages import message
from tests.support.gateway.process import PATIENCE
from tests.support.kafka.streams import Streams

TOPIC = "orders"
SHORT, LONG = 0.7, 10.0
"""Seconds that a Kafka has to answer: one that is away, and one that is there on a machine that may stand still."""


class Outage(NamedTuple):
    """A bridge, and its Kafka."""

    streams: Streams
    kafka: EmbeddedKafka

    def reach(self, reachable: bool) -> None:
        """End the outage, or begin another one."""
        waits_for(self.streams, LONG if reachable else SHORT)
        self.kafka.set_reachable(reachable)


def waits_for(streams: Streams, seconds: float) -> None:
    """How long the bridge waits for an answer from now on."""
    streams.bridge.cluster._admin._timeout = seconds  # type: ignore[misc]


@pytest.fixture
async def outage() -> AsyncIterator[Outage]:
    """A bridge whose Kafka is unreachable from the start."""
    kafka = EmbeddedKafka()
    kafka.create_topic(TOPIC, 1)
    kafka.set_reachable(False)
    streams = Streams(ClusterConfig(kafka.bootstrap, refresh=0.2, retry=0.1, timeout=SHORT, plain=True))
    yield Outage(streams, kafka)
    await streams.close()
    kafka.close()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_who_attaches_while_kafka_is_silent_is_refused() -> None:
    """Connections stay, and no request is answered: what librdkafka makes of that is not where the log begins."""
    kafka = EmbeddedKafka()
    kafka.create_topic(TOPIC, 2)
    streams = Streams(ClusterConfig(kafka.bootstrap, refresh=60, retry=0.1, timeout=LONG, plain=True))
    try:
        await streams.receiver(TOPIC, after="@earliest")
        waits_for(streams, SHORT)
        kafka.be_silent()
        for after in ("@earliest", "@latest", "000000000000000001"):
            with pytest.raises(AmqpError) as refused:
                await streams.receiver(TOPIC, after=after)
            assert refused.value.condition == INTERNAL_ERROR
    finally:
        await streams.close()
        kafka.close()


async def test_kafka_down_at_start(outage: Outage) -> None:
    streams, _ = outage
    sender = await streams.sender(TOPIC)
    unknown = await streams.sender("nowhere")
    for _ in range(3):
        assert await sender.send(message()) is RELEASED
    up, text = streams.bridge.ready()
    assert not up
    assert "not reachable" in text
    with pytest.raises(AmqpError) as refused:
        await streams.receiver(TOPIC)
    assert refused.value.condition == INTERNAL_ERROR
    outage.reach(True)
    await until(lambda: streams.bridge.ready()[0])
    while (outcome := await sender.send(message(b"now"))) is not ACCEPTED:
        assert outcome is RELEASED
    outcome = await unknown.send(message())
    assert outcome is RELEASED
    assert (await unknown.end()).condition == "amqp:not-found"
    receiver = await streams.receiver(TOPIC, after="@earliest", credit=10)
    assert [event.body for event in await receiver.drain()] == [b"now"]


async def test_kafka_going_down_releases_what_comes_then(outage: Outage) -> None:
    streams, _ = outage
    outage.reach(True)
    await until(lambda: streams.bridge.ready()[0])
    sender = await streams.sender(TOPIC)
    assert await sender.send(message(b"0")) is ACCEPTED
    outage.reach(False)
    in_flight = await sender.post(message(b"1"))
    await until(lambda: not streams.bridge.ready()[0])
    assert await sender.send(message(b"2")) is RELEASED
    assert not in_flight.done()
    outage.reach(True)
    assert await asyncio.wait_for(in_flight, PATIENCE) is ACCEPTED


@pytest.mark.row("ES-6-1")
async def test_info_answers_with_nulls_and_last_known_offsets(outage: Outage) -> None:
    streams, _ = outage
    receiver = await streams.receiver(f"{TOPIC}/$info", credit=1)
    (event,) = await receiver.receive()
    assert event.body["partitions"] == [{"partition": "0", "earliest-offset": None, "latest-offset": None}]
    assert event.body["current"] is False
    outage.reach(True)
    await until(lambda: streams.bridge.ready()[0])
    receiver = await streams.receiver(f"{TOPIC}/$info", credit=1)
    (event,) = await receiver.receive()
    assert "current" not in event.body


async def test_pre_settled_messages_that_are_lost_do_not_flood_the_log(outage: Outage) -> None:
    streams, _ = outage
    sender = await streams.sender(TOPIC)
    with capture_logs() as logs:
        for _ in range(20):
            await sender.send(message(), settled=True)
        await until(lambda: streams.bridge.counters.presettled_failed == 20)
    lost = [line["lost"] for line in logs if line["event"] == "pre-settled message not written to Kafka"]
    assert lost == [1, 2, 4, 8, 16]


async def test_a_record_that_nobody_acknowledges_ends_as_modified() -> None:
    kafka = EmbeddedKafka()
    kafka.create_topic(TOPIC, 1)
    client = {"message.timeout.ms": "6000"}
    streams = Streams(ClusterConfig(kafka.bootstrap, client, refresh=60, retry=0.1, timeout=LONG, plain=True))
    await until(lambda: streams.bridge.ready()[0])
    sender = await streams.sender(TOPIC)
    assert await sender.send(message(b"0")) is ACCEPTED
    waits_for(streams, SHORT)
    kafka.set_reachable(False)
    outcome = await sender.send(message(b"1"))
    assert isinstance(outcome, Modified)  # it was handed over: nobody knows
    assert (outcome.failed, outcome.undeliverable) == (True, False)
    assert streams.bridge.counters.accepted == 1
    await streams.close()
    kafka.close()
