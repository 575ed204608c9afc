"""A gateway that metrics, event streams and lists of links watch each second, against one that nobody watches."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import ExitStack, closing
from functools import partial
from typing import Any, Final

from tests.bench.bench_gateway import BenchGateway
from tests.bench.effort import Effort
from tests.bench.figures import Figure, Sample, beside
from tests.bench.running import background, load
from tests.support.gateway.process import socket_folder
from tests.support.servers.kafka import FastKafka

_TARGET: Final = 0.97
_names = itertools.count(1)
_PATHS: Final = {
    "direct": ("direct", "edge", "direct"),
    "relay": ("relay", "core", "direct"),
    "kafka": ("events", "edge", "events"),
}


def watched(effort: Effort) -> Iterator[Figure]:
    """Through a direct node, to another scope, and through a topic."""
    with ExitStack() as stack:
        broker = FastKafka()
        stack.callback(broker.stop)
        socket = str(socket_folder("bench-admin") / "a.sock")
        seen = stack.enter_context(closing(BenchGateway(broker.bootstrap, admin=f"unix:{socket}")))
        alone = stack.enter_context(closing(BenchGateway(broker.bootstrap, admin="off")))
        stack.enter_context(background("load.watchers", str(seen.http), socket))
        for (path, ways), shape in itertools.product(_PATHS.items(), effort.shapes):
            ours, theirs = (partial(_pass, ways, broker, effort, shape, each) for each in (seen, alone))
            ours(), theirs()  # what the first messages make a process load is theirs
            yield from beside(f"watched_{path}", shape, ours, theirs, effort.rounds, "unwatched", _TARGET)


def _pass(
    ways: tuple[str, str, str], broker: FastKafka, effort: Effort, shape: str, gateway: BenchGateway
) -> Sample:
    sends, scope, receives = ways
    name = broker.create_topic() if sends == "events" else f"w{next(_names)}"
    plan: dict[str, Any] = effort.plan(
        send_to=gateway.edge, receive_from=gateway.places(False)[scope], shape=shape, supported=True
    )
    return load({**plan, "send_address": f"{sends}/{name}", "receive_address": f"{receives}/{name}"}, gateway.pid)
