"""The Kafka cases: rates in and out, many consumers of one partition, latency; each beside bare confluent-kafka."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from tests.bench.bench_gateway import BenchGateway
from tests.bench.effort import Effort
from tests.bench.figures import Figure, Sample, interleaved, medians, shaped
from tests.bench.kafka.baseline import APPLICATION
from tests.bench.running import bare, load
from tests.bench.shapes import shapes
from tests.support.servers.kafka import FastKafka, KafkaBroker

SIZES = 100, 1000, 10_000
"""Bytes of a body."""
CONSUMERS = 50
RATE = 5000
# An event log is read ahead of need: bare confluent-kafka keeps up to 100,000 records at hand.
CREDIT = 5000


@contextmanager
def running() -> Iterator[tuple[KafkaBroker, BenchGateway]]:
    """A broker to measure with, and the gateway in front of it."""
    broker = FastKafka()
    try:
        with closing(BenchGateway(broker.bootstrap)) as gateway:
            yield broker, gateway
    finally:
        broker.stop()


def rates(effort: Effort) -> Iterator[Figure]:
    """In and out of a topic of a real broker."""
    with running() as (broker, gateway):
        for shape in effort.shapes:
            for size in _sizes(shape):
                yield _produce(broker, gateway, effort, size, shape)
                yield from _consume(broker, gateway, effort, size, shape)
        yield from _consume(broker, gateway, effort, 100, APPLICATION)


def _sizes(shape: str) -> tuple[int, ...]:
    """The sizes of bodies that are measured: all of them with the mix."""
    return {shapes.MIX: SIZES, shapes.SYNTHETIC: SIZES[:2]}.get(shape, SIZES[:1])


_PRODUCE, _CONSUME, _CONSUME_PLAIN = 0.5, 0.35, 0.4
"""What the gateway is to reach of bare clients: with records of its own, and of applications of Kafka's.

A bare consumer reads key, value and headers of each record, as issue 19 asks of baselines.
"""


def _count(effort: Effort, size: int) -> int:
    """Records of a topic: a twentieth of large ones, so that it has less than half a gigabyte, but several batches."""
    return effort.records if size < SIZES[-1] else max(2000, effort.records // 20)


def _named(name: str, size: int, shape: str) -> str:
    return shaped(name if size == 100 else f"{name}_{size // 1000}k", shape)


def _produce(broker: KafkaBroker, gateway: BenchGateway, effort: Effort, size: int, shape: str) -> Figure:
    def ours() -> Sample:
        plan = effort.plan(kind="send", send_to=gateway.edge, size=size, shape=shape)
        return load({**plan, "send_address": f"events/{broker.create_topic()}"}, gateway.pid)

    def theirs() -> Sample:
        return _fill(broker, broker.create_topic(), _count(effort, size), size, shape)

    value, alone = interleaved(ours, theirs, effort.rounds)
    details, what, name = {**value, "bare": alone}, "bare producer, same acks", _named("kafka_produce", size, shape)
    return Figure(name, value["rate"], "rec/s", alone["rate"], what, _PRODUCE, details=details)


def _consume(broker: KafkaBroker, gateway: BenchGateway, effort: Effort, size: int, shape: str) -> Iterator[Figure]:
    topic, count = broker.create_topic(), _count(effort, size)
    _fill(broker, topic, count, size, shape)

    def theirs() -> Sample:
        return bare("consume", broker.bootstrap, topic, str(count), str(size), shape)

    target = _CONSUME_PLAIN if shape in (shapes.SYNTHETIC, APPLICATION) else _CONSUME
    both = (("kafka_consume", False), ("kafka_consume_settled", True))
    for name, settled in both if shape in shapes.USUAL and size < SIZES[-1] else both[:1]:
        plan = _reading(gateway, topic, count, settled=settled)
        value, alone = interleaved(lambda plan=plan: load(plan, gateway.pid), theirs, effort.rounds)  # type: ignore[misc]
        details, what = {**value, "bare": alone}, "bare consume(500), records read"
        name = _named(name, size, shape)
        yield Figure(name, value["rate"], "rec/s", alone["rate"], what, target, details=details)
    if shape == shapes.SYNTHETIC:
        yield _counted(broker, topic, count, _named("kafka_counted", size, shape), effort)


def _counted(broker: KafkaBroker, topic: str, count: int, name: str, effort: Effort) -> Figure:
    """What a consumer reaches that only counts records: no application does, but it is what librdkafka can deliver."""
    alone = medians([bare("consume", broker.bootstrap, topic, str(count)) for _ in range(effort.rounds)])
    return Figure(name, alone["rate"], "rec/s", details=alone)


def _reading(gateway: BenchGateway, topic: str, count: int, **more: Any) -> dict[str, Any]:
    plan = {"kind": "receive", "receive_from": gateway.edge, "earliest": True, "credit": CREDIT}
    return {**plan, "receive_address": f"events/{topic}", "count": count, **more}


def _fill(broker: KafkaBroker, topic: str, count: int, size: int, shape: str = shapes.SYNTHETIC) -> Sample:
    return bare("produce", broker.bootstrap, topic, str(count), str(size), shape)


def sharing(effort: Effort) -> Iterator[Figure]:
    """Deliveries to all consumers of one partition together, against as many to one consumer alone."""
    with running() as (broker, gateway):
        for shape in effort.shapes:
            yield _shared(broker, gateway, effort, shape)


def _shared(broker: KafkaBroker, gateway: BenchGateway, effort: Effort, shape: str) -> Figure:
    topic, deliveries = broker.create_topic(), 2 * effort.records
    _fill(broker, topic, deliveries, 100, shape)

    def read(consumers: int) -> Sample:
        return load(_reading(gateway, topic, deliveries, credit=1000, consumers=consumers), gateway.pid)

    value, one = interleaved(lambda: read(CONSUMERS), lambda: read(1), effort.rounds)
    details = {**value, "cpu_ratio": one["cpu_us"] / value["cpu_us"], "one": one}
    name = shaped(f"kafka_{CONSUMERS}_consumers", shape)
    return Figure(name, value["rate"], "msg/s", one["rate"], "one consumer", 1.5, details=details)


def latency(effort: Effort) -> Iterator[Figure]:
    """From one client through a topic to another at 5,000 events a second."""
    with running() as (broker, gateway):
        for shape in effort.shapes:
            yield _latency(broker, gateway, effort, shape)


def _latency(broker: KafkaBroker, gateway: BenchGateway, effort: Effort, shape: str) -> Figure:
    count = int(RATE * (effort.seconds + effort.warmup))

    def ours() -> Sample:
        address = f"events/{broker.create_topic()}"
        plan = effort.plan(kind="paced", send_to=gateway.edge, receive_from=gateway.edge, rate=RATE, shape=shape)
        return load({**plan, "send_address": address, "receive_address": address}, gateway.pid)

    def theirs() -> Sample:
        return bare("latency", broker.bootstrap, broker.create_topic(), str(count), str(RATE))

    for _ in range(effort.rounds - 1):  # a broker that has just started compiles its code while it answers
        ours(), theirs()
    value, alone = interleaved(ours, theirs, effort.rounds)
    details, what = {**value, "bare": alone}, f"bare, p99 {alone['p99_us']:,.0f} us"
    return Figure(shaped("kafka_latency", shape), value["p50_us"], "us", alone["p50_us"], what, details=details)
