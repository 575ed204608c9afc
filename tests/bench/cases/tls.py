"""What TLS costs: each path with TLS on both sides, beside itself without."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any, Final

from tests.bench.bench_gateway import BenchGateway
from tests.bench.effort import Effort
from tests.bench.figures import Figure, Sample, beside
from tests.bench.kafka.cases import CREDIT
from tests.bench.running import bare, load
from tests.support.servers.certs import Authority
from tests.support.servers.kafka import FastKafka, KafkaBroker

PATHS: Final = {
    "direct": ("direct", "edge", "direct", {}),
    "relay": ("relay", "core", "direct", {}),
    "cookie": ("cookie", "core", "services", {"supported": True, "reply_to": "direct/answers"}),
    "rewrite": ("rewrite", "core", "services", {"reply_to": "direct/answers"}),
}
"""Where messages are sent, the scope and node that they are received from, and what the plan has more."""
_ONLY_REQUESTS: Final = ("cookie", "rewrite")
_TARGET: Final = 0.6
_names = itertools.count(1)


def tls(effort: Effort) -> Iterator[Figure]:
    """Between scopes, and over AMQP to and from a topic; connections of the load generator with TLS and without."""
    with ExitStack() as stack:
        authority = Authority(Path(stack.enter_context(tempfile.TemporaryDirectory())))
        broker = FastKafka()
        stack.callback(broker.stop)
        gateway = stack.enter_context(closing(BenchGateway(broker.bootstrap, tls=authority.server())))
        for shape in effort.shapes:
            for name, stream in _streams(gateway, effort, shape).items():
                ours = partial(stream, secured=str(authority.ca))
                yield from beside(f"tls_{name}", shape, ours, stream, effort.rounds, "without TLS", _TARGET)
            topic = broker.create_topic()
            bare("produce", broker.bootstrap, topic, str(effort.records), "100", shape)
            for name, run in {
                "produce": partial(_produce, gateway, broker, effort, shape),
                "consume": partial(_consume, gateway, topic, effort),
            }.items():
                ours = partial(run, secured=str(authority.ca))
                yield from beside(f"tls_{name}", shape, ours, run, effort.rounds, "without TLS", _TARGET)


def _streams(gateway: BenchGateway, effort: Effort, shape: str) -> dict[str, Any]:
    """By path; synthetic messages have no properties, and are no requests."""
    synthetic = shape == "synthetic"
    chosen = {name: path for name, path in PATHS.items() if not (synthetic and name in _ONLY_REQUESTS)}
    return {name: partial(_stream, gateway, path, effort, shape) for name, path in chosen.items()}


def _stream(
    gateway: BenchGateway, path: tuple[str, str, str, dict[str, Any]], effort: Effort, shape: str, secured: str = ""
) -> Sample:
    sends, scope, receives, more = path
    name, where = f"t{next(_names)}", gateway.places(bool(secured))
    plan = effort.plan(send_to=where["edge"], receive_from=where[scope], shape=shape, tls=secured, **more)
    return load({**plan, "send_address": f"{sends}/{name}", "receive_address": f"{receives}/{name}"}, gateway.pid)


def _produce(gateway: BenchGateway, broker: KafkaBroker, effort: Effort, shape: str, secured: str = "") -> Sample:
    plan = effort.plan(kind="send", send_to=gateway.places(bool(secured))["edge"], shape=shape, tls=secured)
    return load({**plan, "send_address": f"events/{broker.create_topic()}"}, gateway.pid)


def _consume(gateway: BenchGateway, topic: str, effort: Effort, secured: str = "") -> Sample:
    plan = {"kind": "receive", "receive_from": gateway.places(bool(secured))["edge"], "tls": secured, "credit": CREDIT}
    return load({**plan, "receive_address": f"events/{topic}", "earliest": True, "count": effort.records}, gateway.pid)
