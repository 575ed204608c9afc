"""Events pushed to HTTP sinks: by the gateway, and by what a competent Python service does (`load.stock_push`)."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, Final

from confluent_kafka import Producer

from tests.bench.effort import Effort
from tests.bench.figures import Figure, Sample, interleaved
from tests.bench.running import NotMeasured, Watch, cpu_seconds, module
from tests.support.gateway.gateway import Gateway, written
from tests.support.gateway.process import ports
from tests.support.project.parts import ROOT
from tests.support.servers.kafka import FastKafka, KafkaBroker

POLICY: Final = """\
gateway: {{id: bench-push, http: "127.0.0.1:{http}"}}
kafka: {{main: {{bootstrap: "{bootstrap}"}}}}
scopes:
  edge:
    addresses: [{{match: "events/{{topic}}", kafka: main, topic: "{{topic}}"}}]
    access: [{{who: "*", may: subscribe, on: "**"}}]
    api: [{{bind: "127.0.0.1:{api}", auth: anonymous, limits: {{user_requests: "100000/s"}}}}]
    subscriptions:
      - name: push
        events: [{events}]
        limits: {{user: 10000}}
        sinks: [{sinks}]
"""
_PATIENCE: Final = 300.0
ATTRIBUTES: Final = {
    "specversion": "1.0",
    "source": "/shops/berlin/orders",
    "type": "com.example.order.created",
    "subject": "order/1234567",
    "time": "2026-11-23T10:00:00.123Z",
    "dataschema": "https://schemas.example/order/7",
    "region": "eu-central",
    "tenant": "t-000017",
    "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
}
KEYS: Final = 1000


def push(effort: Effort) -> Iterator[Figure]:
    """One subscription in each mode and order, and many at once."""
    broker = FastKafka()
    try:
        count = max(200, effort.records // 20)
        topic = _filled(broker, count)
        with _gateway(broker, topic) as gateway:
            yield from _figures(broker, gateway, topic, count, effort)
    finally:
        broker.stop()


def _figures(
    broker: KafkaBroker, gateway: PushGateway, topic: str, count: int, effort: Effort
) -> Iterator[Figure]:
    settings = {"x-order": "none", "x-connections": 8}
    ours, stock = interleaved(
        lambda: gateway.pushed(topic, count, settings),
        lambda: _stock(broker, gateway.sink, topic, count),
        effort.long_rounds,
    )
    details: dict[str, Any] = {**ours, "stock": stock}
    yield Figure("push_http", ours["rate"], "ev/s", stock["rate"], "stock_push", 1.2, details=details)
    keyed = _median(gateway, topic, count, {**settings, "x-order": "key"}, effort)
    yield Figure("push_http_key", keyed["rate"], "ev/s", ours["rate"], "push_http", 0.8, details=keyed)
    batched = {**settings, "x-mode": "batched", "x-batch": {"events": 100, "bytes": 1_000_000, "wait": "10ms"}}
    together = _median(gateway, topic, count, batched, effort, batched=True)
    yield Figure("push_http_batched", together["rate"], "ev/s", ours["rate"], "push_http", 4.0, details=together)
    fan = gateway.fanned(topic, max(20, count // 100), settings)
    yield Figure("push_fanout", fan["rate"], "ev/s", ours["rate"], "push_http", 0.9, details=fan)


def _median(
    gateway: PushGateway, topic: str, count: int, settings: dict[str, Any], effort: Effort, *, batched: bool = False
) -> Sample:
    found = [gateway.pushed(topic, count, settings, batched=batched) for _ in range(effort.long_rounds)]
    return sorted(found, key=lambda each: each["rate"])[len(found) // 2]


class CountingSink:
    """The lean sink as a process."""

    def __init__(self, port: int, count: int, *, batched: bool = False) -> None:
        mode = ["batched"] if batched else []
        command = [sys.executable, "-m", "tests.bench.load.http_sink", str(port), str(count), *mode]
        self._process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self._process.stdout.readline()

    def finished(self) -> tuple[float, float]:
        """Seconds from the first event to the last, and processor time of the sink."""
        try:
            text, _ = self._process.communicate(timeout=_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise NotMeasured(f"not all events arrived in {_PATIENCE:g} s") from None
        seconds, cpu = text.split()
        return float(seconds), float(cpu)

    def __del__(self) -> None:
        self._process.kill()


class PushGateway(Gateway):
    """A gateway whose policy allows sinks at one port of this machine."""

    api: str
    sink: int

    def close(self) -> None:
        """End at once, whatever the last case left behind."""
        self.process.discard()

    def pushed(self, topic: str, count: int, settings: dict[str, Any], *, batched: bool = False) -> Sample:
        """One subscription from the beginning of the topic."""
        return self.all_pushed(topic, [count], settings, batched=batched)

    def fanned(self, topic: str, each: int, settings: dict[str, Any]) -> Sample:
        """A hundred subscriptions of all events, each to a sink of its own connections."""
        return self.all_pushed(topic, [each * 100], settings, subscriptions=100)

    def all_pushed(
        self, topic: str, counts: list[int], settings: dict[str, Any], *, subscriptions: int = 1, batched: bool = False
    ) -> Sample:
        """Events a second at one sink, until it has seen so many."""
        (count,) = counts
        sink, watch, before = CountingSink(self.sink, count, batched=batched), Watch(), cpu_seconds(self.process.pid)
        ids = [self._create(topic, settings) for _ in range(subscriptions)]
        try:
            seconds, cpu = sink.finished()
        finally:
            for id in ids:
                self._ask("DELETE", f"/{id}")
        used = cpu_seconds(self.process.pid) - before
        return {
            "rate": count / seconds,
            "cpu_us": used * 1e6 / count,
            "sink_cpu_us": cpu * 1e6 / count,
            "others_cores": watch.others_cores(),
        }

    def _create(self, topic: str, settings: dict[str, Any]) -> str:
        made = self._ask(
            "POST",
            "",
            {
                "protocol": "HTTP",
                "sink": f"http://127.0.0.1:{self.sink}/in",
                "protocolsettings": settings,
                "config": {"address": f"events/{topic}", "start": "earliest"},
            },
        )
        return str(made["id"])

    def _ask(self, method: str, path: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"{self.api}/subscriptions{path}", data, {"content-type": "application/json"}, method=method
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)


@contextmanager
def _gateway(broker: KafkaBroker, topic: str) -> Iterator[PushGateway]:
    http, api, sink = ports(3)
    sinks = f'{{protocol: http, to: "http://127.0.0.1:{sink}", networks: "127.0.0.0/8", handshake: off}}'
    text = POLICY.format(http=http, api=api, bootstrap=broker.bootstrap, events=f"events/{topic}", sinks=sinks)
    with closing(PushGateway(written(text))) as gateway:
        gateway.api, gateway.sink = f"http://127.0.0.1:{api}", sink
        yield gateway


def _filled(broker: KafkaBroker, count: int) -> str:
    topic = broker.create_topic()
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 50})
    named = [(f"ce_{name}", value.encode()) for name, value in ATTRIBUTES.items()]
    body = json.dumps({"text": "x" * 986}).encode()
    for number in range(count):
        headers = [("ce_id", f"event-{number:08}".encode()), *named, ("content-type", b"application/json")]
        producer.produce(topic, body, key=f"key-{number % KEYS}", headers=headers)
        if number % 500 == 0:
            producer.poll(0)
    if left := producer.flush(120):
        raise NotMeasured(f"{left} of {count} records were not written")
    return topic


def _stock(broker: KafkaBroker, port: int, topic: str, count: int) -> Sample:
    sink, watch = CountingSink(port, count), Watch()
    url = f"http://127.0.0.1:{port}/in"
    printed = module("load.stock_push", broker.bootstrap, topic, url, str(count), seconds=_PATIENCE)
    seconds, cpu = sink.finished()
    return {
        "rate": count / seconds,
        "cpu_us": float(printed) * 1e6 / count,
        "sink_cpu_us": cpu * 1e6 / count,
        "others_cores": watch.others_cores(),
    }
