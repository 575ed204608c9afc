"""Events pushed to AMQP, Kafka, MQTT 5 and NATS: by the gateway, and by the clients of each (`load.forwarder`)."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, Final, NamedTuple

from tests.bench.effort import Effort
from tests.bench.figures import Figure, Sample, interleaved
from tests.bench.push.gateway import PATIENCE, PushGateway, fill, gateway_of
from tests.bench.running import NotMeasured, Watch, cpu_seconds, module
from tests.support.servers.kafka import FastKafka, KafkaBroker
from tests.support.servers.servers import Artemis
from tests.support.servers.sink_servers import Mosquitto, NatsServer

_LOOK: Final = 0.05
"""Seconds between two looks at how many are delivered."""


class Target(NamedTuple):
    """Where events of a protocol go, and the rate that is asked for, compared with the client of the protocol."""

    protocol: str
    sink: str
    settings: dict[str, Any]
    name: str
    port: int
    ratio: float


class ProtocolCases:
    """The cases of one gateway; each pushes the same events."""

    def __init__(self, broker: KafkaBroker, gateway: PushGateway, topic: str, effort: Effort) -> None:
        self._broker, self._gateway, self._topic, self._effort = broker, gateway, topic, effort
        self._count = max(2_000, effort.records // 40)
        fill(broker, topic, self._count)

    def figure(self, target: Target) -> Figure:
        """Both sides."""
        pushed, stock = partial(self._pushed, target), partial(self._stock, target)
        ours, theirs = interleaved(pushed, stock, self._effort.long_rounds)
        name = f"push_{target.protocol.lower()}"
        details: dict[str, Any] = {**ours, "stock": theirs}
        return Figure(name, ours["rate"], "ev/s", theirs["rate"], "its own client", target.ratio, details=details)

    def _pushed(self, target: Target) -> Sample:
        watch, before = Watch(), cpu_seconds(self._gateway.process.pid)
        begun = time.perf_counter()
        settings = {"x-order": "none", **target.settings}
        id = self._gateway.create(self._topic, settings, sink=target.sink, protocol=target.protocol)
        try:
            while (done := self._delivered(id)) < self._count:
                if time.perf_counter() - begun > PATIENCE:
                    raise NotMeasured(f"{target.protocol}: {done} of {self._count} events in {PATIENCE:g} s")
                time.sleep(_LOOK)
            seconds = time.perf_counter() - begun
        finally:
            self._gateway.ask("DELETE", f"/{id}")
        cpu = (cpu_seconds(self._gateway.process.pid) - before) * 1e6 / self._count
        return {"rate": self._count / seconds, "cpu_us": cpu, "others_cores": watch.others_cores()}

    def _delivered(self, id: str) -> int:
        return int(self._gateway.ask("GET", f"/{id}/status")["events"]["delivered"])

    def _stock(self, target: Target) -> Sample:
        watch = Watch()
        where = [self._broker.bootstrap, self._topic, str(self._count), target.name, str(target.port)]
        seconds, cpu = map(float, module("load.forwarder", target.protocol, *where, seconds=PATIENCE).split())
        return {
            "rate": self._count / seconds,
            "cpu_us": cpu * 1e6 / self._count,
            "others_cores": watch.others_cores(),
        }


def targets(mosquitto: Mosquitto, server: NatsServer, artemis: Artemis, topic: str) -> Sequence[Target]:
    """One of each protocol."""
    mqtt = f"mqtt://127.0.0.1:{mosquitto.port}"
    return (
        Target("KAFKA", "kafka:///", {"topicname": topic}, topic, 0, 0.5),
        Target("MQTT5", mqtt, {"topicname": "bench", "qos": 1}, "bench", mosquitto.port, 1),
        Target("NATS", f"nats://127.0.0.1:{server.port}", {"subject": "bench"}, "bench", server.port, 1),
        Target("AMQP", artemis.url, {"address": "push/bench"}, "push/bench", artemis.port, 0.7),
    )


def push_protocols(effort: Effort) -> Iterator[Figure]:
    """A topic's events to each protocol, in any order."""
    with ExitStack() as stack:
        broker = FastKafka()
        stack.callback(broker.stop)
        mosquitto, server, artemis = Mosquitto("max_queued_messages 0"), NatsServer(), Artemis()
        for each in (mosquitto, server, artemis):
            stack.callback(each.kill)
        topic, out = broker.create_topic(), broker.create_topic()
        rules = [
            f'{{protocol: kafka, cluster: main, topics: "{out}"}}',
            f'{{protocol: mqtt5, to: "mqtt://127.0.0.1:{mosquitto.port}", networks: "127.0.0.0/8"}}',
            f'{{protocol: nats, to: "nats://127.0.0.1:{server.port}", networks: "127.0.0.0/8"}}',
            '{protocol: amqp, connector: broker, address: "push/**"}',
        ]
        gateway = stack.enter_context(gateway_of(broker, [topic], rules=rules, connect=artemis))
        cases = ProtocolCases(broker, gateway, topic, effort)
        for target in targets(mosquitto, server, artemis, out):
            yield cases.figure(target)
