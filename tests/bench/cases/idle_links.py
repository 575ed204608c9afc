"""Latency, one message at a time, with 10,000 idle links beside and without."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import partial
from typing import Any, Final

from tests.bench.bench_gateway import BenchGateway
from tests.bench.effort import Effort
from tests.bench.figures import Figure, Sample, medians, shaped
from tests.bench.running import idle, load
from tests.support.servers.kafka import FastKafka

LINKS: Final = 500
"""Idle links of a connection."""
_TARGET: Final = 1.2
_names = itertools.count(1)
_PATHS: Final = {
    "direct": ("direct", "edge", "direct"),
    "crossing": ("cookie", "core", "services"),
    "kafka": ("events", "edge", "events"),
}


def idle_links(effort: Effort) -> Iterator[Figure]:
    """Through a direct node, to another scope and through a topic; the medians and p99 of all messages of a run."""
    connections = max(1, 4 * effort.connections // 1000)
    with ExitStack() as stack:
        broker = FastKafka()
        stack.callback(broker.stop)
        crowded, empty = (stack.enter_context(closing(BenchGateway(broker.bootstrap))) for _ in range(2))
        stack.enter_context(idle(crowded.edge[1], connections, "direct/idle", LINKS))
        for (path, ways), shape in itertools.product(_PATHS.items(), effort.shapes):
            one = partial(_one_at_a_time, ways, broker.create_topic, effort, shape)
            yield from _figures(path, shape, one, crowded, empty, effort.rounds)


def _figures(
    path: str,
    shape: str,
    one: Callable[[BenchGateway], Sample],
    crowded: BenchGateway,
    empty: BenchGateway,
    rounds: int,
) -> Iterator[Figure]:
    one(crowded), one(empty)  # what the first messages make a process load is theirs
    ours, theirs = [], []
    for _ in range(rounds):
        ours.append(one(crowded))
        theirs.append(one(empty))
    value, alone = medians(ours), medians(theirs)
    for name in ("p50", "p99"):
        mine, other = value[f"{name}_us"], alone[f"{name}_us"]
        figure, details = shaped(f"idle_{path}_{name}", shape), {**value, "empty": alone}
        yield Figure(figure, mine, "us", other, "without idle links", _TARGET, at_most=True, details=details)


def _one_at_a_time(
    ways: tuple[str, str, str], topic: Callable[[], str], effort: Effort, shape: str, gateway: BenchGateway
) -> Sample:
    sends, scope, receives = ways
    name = topic() if sends == "events" else f"i{next(_names)}"
    plan: dict[str, Any] = effort.plan(
        send_to=gateway.edge, receive_from=gateway.places(False)[scope], in_flight=1, shape=shape, supported=True
    )
    return load({**plan, "send_address": f"{sends}/{name}", "receive_address": f"{receives}/{name}"}, gateway.pid)
