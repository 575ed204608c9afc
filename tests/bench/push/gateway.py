"""A gateway that pushes the events of a topic to a sink on this machine, and the processes at both ends."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from confluent_kafka import Producer

from tests.bench.figures import Sample
from tests.bench.running import NotMeasured, Watch, cpu_seconds
from tests.support.gateway.gateway import Gateway, written
from tests.support.gateway.process import ports
from tests.support.project.parts import ROOT
from tests.support.servers.certs import Authority, Pair
from tests.support.servers.kafka import KafkaBroker
from tests.support.servers.servers import Artemis

POLICY: Final = """\
gateway: {{id: bench-push, http: "127.0.0.1:{http}", state: "{state}"}}
kafka: {{main: {{bootstrap: "{bootstrap}"}}}}
scopes:
  edge:
    connect: [{connect}]
    addresses: [{{match: "events/{{topic}}", kafka: main, topic: "{{topic}}"}}]
    access: [{{who: "*", may: subscribe, on: "**"}}]
    api: [{{bind: "127.0.0.1:{api}", auth: anonymous, limits: {{user_requests: "100000/s"}}}}]
    subscriptions:
      - name: push
        events: [{events}]
        limits: {{user: 20000, subscriptions: 20000}}
        sinks: [{sinks}]
"""
CONNECTOR: Final = (
    '{{name: broker, to: "{url}", allow_plain_without_tls: true,'
    " sasl: {{mechanism: plain, user: admin, password: {{env: BROKER_PASSWORD}}}}}}"
)
PATIENCE: Final = 300.0
KEYS: Final = 1000
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
_HEADERS: Final = [(f"ce_{name}", value.encode()) for name, value in ATTRIBUTES.items()]


class Certificate(NamedTuple):
    """What a sink with TLS has, and the file that its clients trust."""

    pair: Pair
    ca: Path


def certificate(folder: Path) -> Certificate:
    """For `localhost`."""
    authority = Authority(folder)
    return Certificate(authority.server(), authority.ca)


class CountingSink:
    """The lean sink as a process; `mode`: `each` counts requests, `batched` events, `latency` times them."""

    def __init__(self, port: int, count: int, mode: str = "each", tls: Certificate | None = None) -> None:
        files = [] if tls is None else [str(tls.pair.cert), str(tls.pair.key)]
        command = [sys.executable, "-m", "tests.bench.load.http_sink", str(port), str(count), mode, *files]
        self._process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self._process.stdout.readline()

    def finished(self) -> list[float]:
        """Seconds from the first event to the last, the sink's processor time, and with `latency` p50 and p99 in us."""
        try:
            text, _ = self._process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise NotMeasured(f"not all events arrived in {PATIENCE:g} s") from None
        return [float(word) for word in text.split()]

    def __del__(self) -> None:
        self._process.kill()


class PushGateway(Gateway):
    """A gateway whose policy allows sinks at ports of this machine."""

    api: str
    sink: int

    def close(self) -> None:
        """End at once, whatever the last case left behind."""
        self.process.discard()

    def measured(self, count: int, sink: CountingSink, ids: Sequence[str]) -> Sample:
        """Events a second at a sink until it has seen so many, pushed by these subscriptions, which are deleted."""
        watch, before = Watch(), cpu_seconds(self.process.pid)
        try:
            seconds, cpu, *latency = sink.finished()
        finally:
            for id in ids:
                self.ask("DELETE", f"/{id}")
        sample = {
            "rate": count / seconds,
            "cpu_us": (cpu_seconds(self.process.pid) - before) * 1e6 / count,
            "sink_cpu_us": cpu * 1e6 / count,
            "others_cores": watch.others_cores(),
        }
        return {**sample, **dict(zip(("p50_us", "p99_us"), latency, strict=False))}

    def create(self, topic: str, settings: dict[str, Any], sink: str = "", protocol: str = "HTTP") -> str:
        """A subscription from the beginning of a topic, and its id."""
        body = {
            "protocol": protocol,
            "sink": sink or f"http://127.0.0.1:{self.sink}/in",
            "protocolsettings": settings,
            "config": {"address": f"events/{topic}", "start": "earliest"},
        }
        return str(self.ask("POST", "", body)["id"])

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """One request to the API."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"{self.api}/subscriptions{path}", data, {"content-type": "application/json"}, method=method
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)


@contextmanager
def gateway_of(
    broker: KafkaBroker,
    topics: Sequence[str],
    ca: Path | None = None,
    *,
    rules: Sequence[str] = (),
    connect: Artemis | None = None,
    state: str = "memory",
) -> Iterator[PushGateway]:
    """A gateway for subscriptions to these topics; its sink may have TLS with a certificate of `ca`.

    `rules` are more entries of `sinks`; `connect` is the broker of the connector `broker`; `state` is memory or the URL
    of a Redis.
    """
    http, api, sink = ports(3)
    allowed = [f'{{protocol: http, to: "http://127.0.0.1:{sink}", networks: "127.0.0.0/8", handshake: off}}']
    if ca is not None:
        tls = f'networks: "127.0.0.0/8", handshake: off, tls: {{ca: "{ca}"}}'
        allowed.append(f'{{protocol: http, to: "https://localhost:{sink}", {tls}}}')
    text = POLICY.format(
        http=http,
        state=state,
        api=api,
        bootstrap=broker.bootstrap,
        events=", ".join(f"events/{topic}" for topic in topics),
        sinks=", ".join([*allowed, *rules]),
        connect="" if connect is None else CONNECTOR.format(url=connect.url),
    )
    with closing(PushGateway(written(text), env={"BROKER_PASSWORD": Artemis.password})) as gateway:
        gateway.api, gateway.sink = f"http://127.0.0.1:{api}", sink
        yield gateway


def fill(broker: KafkaBroker, topic: str, count: int) -> None:
    """Write so many events of 1 kB with ten attributes."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 50})
    body = json.dumps({"text": "x" * 986}).encode()
    for number in range(count):
        produce(producer, topic, number, body)
        if number % 500 == 0:
            producer.poll(0)
    if left := producer.flush(120):
        raise NotMeasured(f"{left} of {count} records were not written")


def produce(producer: Producer, topic: str, number: int, body: bytes) -> None:
    """One event."""
    headers = [("ce_id", f"event-{number:08}".encode()), *_HEADERS, ("content-type", b"application/json")]
    producer.produce(topic, body, key=f"key-{number % KEYS}", headers=headers)
