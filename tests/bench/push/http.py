"""Events pushed to HTTP sinks: by the gateway, and by what a competent Python service does (`load.stock_push`)."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, NamedTuple

from confluent_kafka import Producer

from tests.bench.effort import Effort
from tests.bench.figures import Figure, Sample, interleaved
from tests.bench.push.gateway import (
    PATIENCE,
    Certificate,
    CountingSink,
    PushGateway,
    certificate,
    fill,
    gateway_of,
    produce,
)
from tests.bench.running import Watch, background, module
from tests.support.servers.kafka import FastKafka, KafkaBroker

EIGHT: Final[dict[str, Any]] = {"x-order": "none", "x-connections": 8}
BATCHED: Final = {**EIGHT, "x-mode": "batched", "x-batch": {"events": 100, "bytes": 1_000_000, "wait": "10ms"}}
RATE: Final = 1000
"""Events a second of the case that measures latency."""
_AWAY: Final = 3.0
"""Seconds for which nobody listens before a subscription catches up: its breaker is open then."""


class Topics(NamedTuple):
    """Of one run, by their use."""

    plain: str
    catch_up: str
    warm_up: str
    paced: str


class HttpCases:
    """The cases of one gateway; most push the same `count` events."""

    def __init__(
        self, broker: KafkaBroker, gateway: PushGateway, topics: Topics, tls: Certificate, effort: Effort
    ) -> None:
        self._broker, self._gateway, self._topics = broker, gateway, topics
        self._tls, self._effort = tls, effort
        self._topic, self._count = topics.plain, max(200, effort.records // 20)
        fill(broker, self._topic, self._count)

    def figures(self) -> Iterator[Figure]:
        """All of them; most are compared with `push_http` of the same run."""
        plain, stock = interleaved(self._pushed, self._stock, self._effort.long_rounds)
        details: dict[str, Any] = {**plain, "stock": stock}
        yield Figure("push_http", plain["rate"], "ev/s", stock["rate"], "stock_push", 1.2, details=details)
        yield self._compared("push_http_key", lambda: self._pushed({**EIGHT, "x-order": "key"}), plain, 0.8)
        yield self._compared("push_http_batched", lambda: self._pushed(BATCHED, "batched"), plain, 4.0)
        yield self._compared("push_https", lambda: self._pushed(tls=self._tls), plain, 0.7, self._stock(self._tls))
        yield self._compared("push_fanout", self._fanned, plain, 0.9)
        yield self._compared("push_catch_up", self._caught_up, plain, 0.8)
        yield from self._latency()

    def _compared(
        self, name: str, measure: Callable[[], Sample], plain: Sample, target: float, stock: Sample | None = None
    ) -> Figure:
        rounds = self._effort.long_rounds if name.startswith("push_http") else 1
        found = sorted((measure() for _ in range(rounds)), key=lambda each: each["rate"])[rounds // 2]
        details: dict[str, Any] = found if stock is None else {**found, "stock": stock}
        return Figure(name, found["rate"], "ev/s", plain["rate"], "push_http", target, details=details)

    def _pushed(
        self, settings: dict[str, Any] = EIGHT, mode: str = "each", tls: Certificate | None = None
    ) -> Sample:
        sink = CountingSink(self._gateway.sink, self._count, mode, tls)
        url = "" if tls is None else f"https://localhost:{self._gateway.sink}/in"
        return self._gateway.measured(self._count, sink, [self._gateway.create(self._topic, settings, sink=url)])

    def _stock(self, tls: Certificate | None = None) -> Sample:
        return stock_push(self._broker, self._gateway.sink, self._topic, self._count, tls)

    def _fanned(self) -> Sample:
        """A hundred subscriptions of all events, each to a sink of its own connections."""
        count = max(20, self._count // 100) * 100
        sink = CountingSink(self._gateway.sink, count)
        return self._gateway.measured(count, sink, [self._gateway.create(self._topic, EIGHT) for _ in range(100)])

    def _caught_up(self) -> Sample:
        """A sink that was away while many more events came: four topics' worth, from disk."""
        count = self._count * 4
        fill(self._broker, self._topics.catch_up, count)
        id = self._gateway.create(self._topics.catch_up, {**EIGHT, "x-retry": {"max": "1s"}})
        time.sleep(_AWAY)
        return self._gateway.measured(count, CountingSink(self._gateway.sink, count), [id])

    def _latency(self) -> Iterator[Figure]:
        """One event at a time, 1,000 a second: from `produce` to the sink."""
        seconds = max(1.0, 2 * self._effort.seconds)
        self._paced(RATE, self._topics.warm_up)  # a broker that has just started compiles its code while it answers
        ours = self._paced(int(RATE * seconds), self._topics.paced)
        stock = self._paced_stock(int(RATE * seconds))
        for name, most in (("p50", 6000.0), ("p99", 25_000.0)):
            details: dict[str, Any] = {**ours, "stock": stock}
            yield Figure(f"push_latency_{name}", ours[f"{name}_us"], "us", None, "", most, True, details)

    def _paced(self, count: int, topic: str) -> Sample:
        sink, id = CountingSink(self._gateway.sink, count, "latency"), self._gateway.create(topic, EIGHT)
        with ThreadPoolExecutor(1) as pool:
            pool.submit(produce_paced, self._broker, topic, count)
            return self._gateway.measured(count, sink, [id])

    def _paced_stock(self, count: int) -> Sample:
        topic = self._broker.create_topic()
        sink, watch = CountingSink(self._gateway.sink, count, "latency"), Watch()
        command = [self._broker.bootstrap, topic, f"http://127.0.0.1:{self._gateway.sink}/in", str(count), "0.002"]
        with background("load.stock_push", *command):
            produce_paced(self._broker, topic, count)
            taken, _, p50, p99 = sink.finished()
        return {"rate": count / taken, "p50_us": p50, "p99_us": p99, "others_cores": watch.others_cores()}


def push(effort: Effort) -> Iterator[Figure]:
    """One subscription in each mode and order, many at once, over TLS, behind, and one event at a time."""
    broker = FastKafka()
    try:
        with tempfile.TemporaryDirectory() as folder:
            tls = certificate(Path(folder))
            topics = Topics(*(broker.create_topic() for _ in Topics._fields))
            with gateway_of(broker, topics, tls.ca) as gateway:
                yield from HttpCases(broker, gateway, topics, tls, effort).figures()
    finally:
        broker.stop()


def produce_paced(broker: KafkaBroker, topic: str, count: int, rate: int = RATE) -> None:
    """Events with the time at which each was made, in nanoseconds of the machine's monotonic clock."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0})
    producer.list_topics(topic, timeout=10)
    time.sleep(1.0)  # whoever reads the topic has found it
    start = time.perf_counter()
    for number in range(count):
        while (early := start + number / rate - time.perf_counter()) > 0:
            producer.poll(early)
        produce(producer, topic, number, b'{"stamp":%020d,"text":"%s"}' % (time.perf_counter_ns(), b"x" * 950))
    producer.flush(10)


def stock_push(broker: KafkaBroker, port: int, topic: str, count: int, tls: Certificate | None = None) -> Sample:
    """The peer."""
    sink, watch = CountingSink(port, count, tls=tls), Watch()
    url = f"http://127.0.0.1:{port}/in" if tls is None else f"https://localhost:{port}/in"
    trusted = [] if tls is None else [str(tls.ca)]
    printed = module("load.stock_push", broker.bootstrap, topic, url, str(count), "1", *trusted, seconds=PATIENCE)
    seconds, cpu = sink.finished()
    return {
        "rate": count / seconds,
        "cpu_us": float(printed) * 1e6 / count,
        "sink_cpu_us": cpu * 1e6 / count,
        "others_cores": watch.others_cores(),
    }
