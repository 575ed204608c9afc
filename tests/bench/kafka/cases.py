"""The Kafka cases: rates in and out, many consumers of one partition, latency; each beside bare confluent-kafka."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from tests.bench.bench_gateway import BenchGateway
from tests.bench.effort import Effort
from tests.bench.figures import Figure, Sample, interleaved
from tests.bench.running import bare, load
from tests.support.servers.kafka import FastKafka, KafkaBroker

CONSUMERS = 50
RATE = 5000
# An event log is read ahead of need: bare confluent-kafka keeps up to 100,000 records at hand.
CREDIT = 5000


@contextmanager
def _running() -> Iterator[tuple[KafkaBroker, BenchGateway]]:
    broker = FastKafka()
    try:
        with closing(BenchGateway(broker.bootstrap)) as gateway:
            yield broker, gateway
    finally:
        broker.stop()


def rates(effort: Effort) -> Iterator[Figure]:
    """In and out of a topic of a real broker."""
    with _running() as (broker, gateway):
        for size in (100, 1000):
            yield _produce(broker, gateway, effort, size)
            yield from _consume(broker, gateway, effort, size)


def _named(name: str, size: int) -> str:
    return name if size == 100 else f"{name}_{size // 1000}k"


def _produce(broker: KafkaBroker, gateway: BenchGateway, effort: Effort, size: int) -> Figure:
    def ours() -> Sample:
        address = f"events/{broker.create_topic()}"
        return load(effort.plan(kind="send", send_to=gateway.edge, send_address=address, size=size), gateway.pid)

    value, alone = interleaved(ours, lambda: _fill(broker, broker.create_topic(), effort.records, size), effort.rounds)
    details = {**value, "bare": alone}
    what = "bare producer, same acks"
    return Figure(_named("kafka_produce", size), value["rate"], "rec/s", alone["rate"], what, 0.3, details=details)


def _consume(broker: KafkaBroker, gateway: BenchGateway, effort: Effort, size: int) -> Iterator[Figure]:
    topic = broker.create_topic()
    _fill(broker, topic, effort.records, size)

    def theirs() -> Sample:
        return bare("consume", broker.bootstrap, topic, str(effort.records))

    for name, settled in (("kafka_consume", False), ("kafka_consume_settled", True)):
        plan = _reading(gateway, topic, effort.records, settled=settled)
        value, alone = interleaved(lambda plan=plan: load(plan, gateway.pid), theirs, effort.rounds)  # type: ignore[misc]
        details, what = {**value, "bare": alone}, "bare consume(500)"
        yield Figure(_named(name, size), value["rate"], "rec/s", alone["rate"], what, 0.2, details=details)


def _reading(gateway: BenchGateway, topic: str, count: int, **more: Any) -> dict[str, Any]:
    plan = {"kind": "receive", "receive_from": gateway.edge, "earliest": True, "credit": CREDIT}
    return {**plan, "receive_address": f"events/{topic}", "count": count, **more}


def _fill(broker: KafkaBroker, topic: str, count: int, size: int) -> Sample:
    return bare("produce", broker.bootstrap, topic, str(count), str(size))


def sharing(effort: Effort) -> Iterator[Figure]:
    """Deliveries to all consumers of one partition together, against as many to one consumer alone."""
    with _running() as (broker, gateway):
        topic, deliveries = broker.create_topic(), 2 * effort.records
        _fill(broker, topic, deliveries, 100)

        def read(consumers: int) -> Sample:
            return load(_reading(gateway, topic, deliveries, credit=1000, consumers=consumers), gateway.pid)

        value, one = interleaved(lambda: read(CONSUMERS), lambda: read(1), effort.rounds)
        details = {**value, "cpu_ratio": one["cpu_us"] / value["cpu_us"], "one": one}
        yield Figure(
            f"kafka_{CONSUMERS}_consumers", value["rate"], "msg/s", one["rate"], "one consumer", 1.5, details=details
        )


def latency(effort: Effort) -> Iterator[Figure]:
    """From one client through a topic to another at 5,000 events a second."""
    with _running() as (broker, gateway):
        count = int(RATE * (effort.seconds + effort.warmup))

        def ours() -> Sample:
            address = f"events/{broker.create_topic()}"
            plan = effort.plan(kind="paced", send_to=gateway.edge, receive_from=gateway.edge, rate=RATE)
            return load({**plan, "send_address": address, "receive_address": address}, gateway.pid)

        def theirs() -> Sample:
            return bare("latency", broker.bootstrap, broker.create_topic(), str(count), str(RATE))

        for _ in range(effort.rounds - 1):  # a broker that has just started compiles its code while it answers
            ours(), theirs()
        value, alone = interleaved(ours, theirs, effort.rounds)
        details, what = {**value, "bare": alone}, f"bare, p99 {alone['p99_us']:,.0f} us"
        yield Figure("kafka_latency", value["p50_us"], "us", alone["p50_us"], what, details=details)
