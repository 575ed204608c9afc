"""Many links on one topic: `python -m tests.bench.cases.many [CONNECTIONS LINKS PARTITIONS] [--agnostic]`.

Opens the links through a real gateway on a real broker, each with credit, then produces events and waits until
every link has had every one of its events. Prints the costs: memory and processor time of the gateway, and the time of
a scrape of its metrics while the links are attached.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
import urllib.request
from contextlib import closing
from typing import Any

import uvloop
from confluent_kafka import Producer
from cproton_ffi import lib

from tests.bench.bench_gateway import BenchGateway
from tests.bench.load import messages
from tests.bench.load.peer import BUFFER, BUFFER_SIZE, Peer
from tests.bench.load.roles import Base, BenchError
from tests.bench.running import Watch, cpu_seconds, resident_kib
from tests.support.servers.kafka import FastKafka, KafkaBroker

LIMIT = 1200.0
"""Seconds that one step may take."""
CREDIT = 100


class ManyLinks(Base):
    """A connection with many receiving links, attached a hundred at a time."""

    def __init__(self, address: str, bindings: list[bytes]) -> None:
        super().__init__(self._failed)
        self.address, self.bindings = address, bindings
        self.asked = self.there = self.received = 0
        self.trouble = ""

    def _failed(self, reason: str) -> None:
        self.trouble = self.trouble or reason

    def attach(self) -> None:
        for binding in self.bindings[self.asked : self.asked + 100]:
            self.peer.receiver(self.address, filters=messages.EARLIEST, settled=True, binding=binding)
        self.asked = min(self.asked + 100, len(self.bindings))
        self.peer.flush_soon()

    def attached(self, link: Any) -> None:
        lib.pn_link_flow(link, CREDIT)
        self.there += 1
        if self.there == self.asked < len(self.bindings):
            self.attach()

    def delivery(self, delivery: Any) -> None:
        if not lib.pn_delivery_partial(delivery):
            link = lib.pn_delivery_link(delivery)
            lib.pn_link_recv(link, BUFFER, BUFFER_SIZE)
            lib.pn_link_advance(link)
            lib.pn_delivery_settle(delivery)
            self.received += 1
            lib.pn_link_flow(link, 1)


async def _until(crowds: list[ManyLinks], have: Any, what: str, limit: float = LIMIT) -> None:
    deadline = time.monotonic() + limit
    while not all(have(crowd) for crowd in crowds):
        await asyncio.sleep(0.02)
        trouble = next((crowd.trouble for crowd in crowds if crowd.trouble), "")
        if trouble or time.monotonic() > deadline:
            raise BenchError(f"{what}: {trouble or f'not within {limit:g} s'}")


class Account:
    """What a process takes between two looks."""

    def __init__(self, pid: int) -> None:
        self.pid, self.cpu, self.at, self.watch = pid, cpu_seconds(pid), time.perf_counter(), Watch()

    def measure(self) -> dict[str, float]:
        """Seconds gone and processor seconds spent since the last look, and memory now."""
        cpu, now = cpu_seconds(self.pid), time.perf_counter()
        found = {"seconds": now - self.at, "cpu_seconds": cpu - self.cpu, "resident_mib": resident_kib(self.pid) / 1024}
        self.cpu, self.at = cpu, now
        return {key: round(value, 2) for key, value in found.items()}


def _scraped(server: str) -> tuple[float, dict[str, float]]:
    start = time.perf_counter()
    with urllib.request.urlopen(f"http://{server}/metrics", timeout=60) as answer:
        text = answer.read().decode()
    lines = [line for line in text.splitlines() if line.startswith("scopegate_kafka_") and "events" not in line]
    return time.perf_counter() - start, {name: float(value) for name, value in (line.split(" ") for line in lines)}


async def measure(gateway: BenchGateway, broker: KafkaBroker, options: argparse.Namespace) -> dict[str, Any]:
    """One run."""
    topic = broker.create_topic(partitions=options.partitions)
    numbers = [str(number % options.partitions) for number in range(options.links)]
    bindings = [b"" if options.agnostic else messages.bound_to(number) for number in numbers]
    crowds = [ManyLinks(f"events/{topic}", bindings) for _ in range(options.connections)]
    account = Account(gateway.pid)
    report: dict[str, Any] = {"before": account.measure()}
    for crowd in crowds:
        await asyncio.get_running_loop().create_connection(lambda crowd=crowd: Peer(crowd), *gateway.edge)  # type: ignore[misc]
    await _until(crowds, lambda crowd: crowd.there == options.links, "attach")
    report["attached"] = account.measure()
    await asyncio.sleep(5)
    report["idle"] = account.measure()
    producer, body = Producer({"bootstrap.servers": broker.bootstrap}), messages.data_section(100)[-91:].rjust(100)
    for number in range(options.events * options.partitions):
        producer.produce(topic, body, partition=number % options.partitions)
    producer.flush(30)
    each = options.events * (options.partitions if options.agnostic else 1)
    await _until(crowds, lambda crowd: crowd.received == each * options.links, "events")
    report["delivered"] = {**account.measure(), "deliveries": each * options.links * options.connections}
    seconds, states = await asyncio.to_thread(_scraped, str(gateway.http))
    report["scrape"] = {"seconds": round(seconds, 3), **account.measure(), "states": states}
    report["others_cores"] = round(account.watch.others_cores(), 2)
    return report


def main() -> int:
    """Runs one case and prints what it cost."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.cases.many", description=__doc__)
    for name, default in (("connections", 24), ("links", 1000), ("partitions", 64)):
        parser.add_argument(name, nargs="?", type=int, default=default)
    parser.add_argument("--agnostic", action="store_true", help="each link reads all partitions")
    parser.add_argument("--events", type=int, default=20, help="how many are added to each partition")
    options = parser.parse_args()
    broker = FastKafka()
    try:
        with closing(BenchGateway(broker.bootstrap)) as gateway:
            report = uvloop.run(measure(gateway, broker, options))
    except BenchError as error:
        print(f"not measured: {error}", file=sys.stderr)
        return 1
    finally:
        broker.stop()
    for step, found in report.items():
        print(f"{step:12} {json.dumps(found)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
