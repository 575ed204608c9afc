"""Scanning a real topic with a filter that matches one record in a thousand, against bare `consume(500)` (issue 5)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

from tests.bench.bench_gateway import BenchGateway
from tests.bench.effort import Effort
from tests.bench.figures import Figure, Sample, interleaved, shaped
from tests.bench.running import bare, load, module
from tests.bench.shapes.shapes import SYNTHETIC
from tests.support.servers.kafka import FastKafka, KafkaBroker

EVERY = 1000
FILTER = "a.color = 'red' AND a.region LIKE 'eu-%'"
_FIGURES = (("kafka_scan_100", 100, "plain"), ("kafka_scan_1k", 1000, "plain"), ("kafka_scan_sealed", 100, "sealed"))


def scan(effort: Effort) -> Iterator[Figure]:
    """From the first match, which is the first record, to the last, which is the last record."""
    broker = FastKafka()
    records, every = effort.scanned, min(EVERY, effort.scanned // 5)
    try:
        with closing(BenchGateway(broker.bootstrap)) as gateway:
            mixes = [(shaped("kafka_scan_100", shape), 100, shape) for shape in effort.shapes if shape != SYNTHETIC]
            for name, size, form in (*_FIGURES, *mixes):
                topic = broker.create_topic()
                module("kafka.fill", broker.bootstrap, topic, *map(str, (records, size, every)), form, seconds=400.0)
                yield _figure(name, broker, gateway, topic, effort, every)
    finally:
        broker.stop()


def _figure(
    name: str, broker: KafkaBroker, gateway: BenchGateway, topic: str, effort: Effort, every: int
) -> Figure:
    records = effort.scanned
    matches = len({*range(0, records, every), records - 1})

    def ours() -> Sample:
        plan: dict[str, Any] = {"kind": "receive", "receive_from": gateway.edge, "sql": FILTER}
        sample = load(plan | {"receive_address": f"events/{topic}", "count": matches}, gateway.pid)
        return {**sample, "rate": sample["rate"] * every, "cpu_us": sample["cpu_us"] * matches / records}

    def theirs() -> Sample:
        return bare("consume", broker.bootstrap, topic, str(records))

    value, alone = interleaved(ours, theirs, effort.long_rounds)
    details = {**value, "bare": alone}
    return Figure(name, value["rate"], "rec/s", alone["rate"], "bare consume(500)", 0.5, details=details)
