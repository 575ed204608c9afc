"""Transactions on a topic of a real broker beside a bare transactional producer with transactions of the same sizes."""

from __future__ import annotations

from collections.abc import Iterator

from tests.bench.bench_gateway import BenchGateway
from tests.bench.effort import Effort
from tests.bench.figures import Figure, Sample, interleaved
from tests.bench.kafka.cases import running
from tests.bench.running import Watch, cpu_seconds, module
from tests.support.servers.kafka import KafkaBroker

SIZES = {1: 1000, 100: 20, 10_000: 3}
"""Messages in a transaction, and which part of an effort's records is sent in such ones: each commit takes its time."""
_TARGET = 0.5


def transactions(effort: Effort) -> Iterator[Figure]:
    """Messages or records in transactions of several sizes, each committed before the next one begins."""
    with running() as (broker, gateway):
        for size in SIZES:
            yield from _transactions(broker, gateway, effort, size)


def _transactions(broker: KafkaBroker, gateway: BenchGateway, effort: Effort, size: int) -> Iterator[Figure]:
    count = max(size, effort.records // SIZES[size])

    def ours() -> Sample:
        watch, before = Watch(), cpu_seconds(gateway.pid)
        arguments = str(gateway.edge[1]), f"events/{broker.create_topic()}", str(count), str(size)
        rate = float(module("kafka.transacting", *arguments))
        used = (cpu_seconds(gateway.pid) - before) * 1e6 / (count + size)
        return {"rate": rate, "cpu_us": used, "others_cores": watch.others_cores()}

    def theirs() -> Sample:
        watch = Watch()
        arguments = "bare", broker.bootstrap, broker.create_topic(), str(count), str(size)
        rate, used = map(float, module("kafka.transacting", *arguments).split())
        return {"rate": rate, "cpu_us": used, "others_cores": watch.others_cores()}

    value, alone = interleaved(ours, theirs, effort.long_rounds)
    details, what, name = {**value, "bare": alone}, "bare transactional producer", f"transactions_{size}"
    yield Figure(name, value["rate"], "rec/s", alone["rate"], what, _TARGET, details=details)
    yield Figure(f"{name}_cpu", value["cpu_us"], "us", alone["cpu_us"], what, details=details)
