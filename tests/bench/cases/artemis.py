"""A crossing that goes on through a connector to Artemis, beside Artemis alone: which of both is the limit."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from typing import Any, Final

from tests.bench.bench_gateway import BenchGateway
from tests.bench.effort import Effort
from tests.bench.figures import Figure, Sample, interleaved, shaped
from tests.bench.running import cpu_seconds, load
from tests.bench.shapes import shapes
from tests.support.servers.servers import OPTIONS, Artemis

_names = itertools.count(1)
_TARGET: Final = 1.0
_OF_JMS: Final = "jms"
"""In place of the mix: Artemis fails at annotations with strings as keys, which one of Event Hubs' clients sends."""


class OpenArtemis(Artemis):
    """An Artemis for everybody: the load generator does not log in."""

    options = OPTIONS.replace("--require-login", "--allow-anonymous")


def artemis(effort: Effort) -> Iterator[Figure]:
    """To a queue of Artemis, from which a client receives: through two scopes and a connector, and directly."""
    broker = OpenArtemis()
    try:
        with closing(BenchGateway(remote=broker.address)) as gateway:
            for shape in effort.shapes:
                yield from _artemis(broker, gateway, effort, _OF_JMS if shape == shapes.MIX else shape)
    finally:
        broker.stop()


def _artemis(broker: OpenArtemis, gateway: BenchGateway, effort: Effort, shape: str) -> Iterator[Figure]:
    where = ("127.0.0.1", broker.port)

    def stream(send_to: tuple[str, int], prefix: str) -> Sample:
        name = f"q{next(_names)}"
        plan: dict[str, Any] = effort.plan(send_to=send_to, receive_from=where, shape=shape)
        before = cpu_seconds(broker.process.pid)
        sample = load({**plan, "send_address": f"{prefix}{name}", "receive_address": name}, gateway.pid)
        return {**sample, "broker_us": (cpu_seconds(broker.process.pid) - before) * 1e6 / sample["total"]}

    ours, theirs = interleaved(partial(stream, gateway.edge, "broker/"), partial(stream, where, ""), effort.rounds)
    details: dict[str, Any] = {**ours, "alone": theirs}
    yield Figure(shaped("artemis_rate", shape), ours["rate"], "msg/s", theirs["rate"], "Artemis alone", details=details)
    what, name = "Artemis for the same message", shaped("artemis_cpu", shape)
    details = {"others_cores": ours["others_cores"]}
    yield Figure(name, ours["cpu_us"], "us", ours["broker_us"], what, _TARGET, at_most=True, details=details)
