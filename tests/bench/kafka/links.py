"""Links that do more than read: groups, durable termini, shared members, filters; each beside a plain link."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from typing import Any, Final

from tests.bench.bench_gateway import BenchGateway
from tests.bench.effort import Effort
from tests.bench.figures import Figure, Sample, beside
from tests.bench.kafka.cases import CREDIT
from tests.bench.running import load, module
from tests.bench.shapes import shapes
from tests.support.servers.kafka import FastKafka, KafkaBroker

SHARERS: Final = 4
KINDS: Final[dict[str, dict[str, Any]]] = {
    "group": {"group": "g"},
    "durable": {"durable": "d"},
    "shared": {"group": "s", "consumers": SHARERS, "node": "shared"},
    "filter": {"sql": "a.color = 'red' AND a.region LIKE 'eu-%'"},
}
"""What a plan has more than that of a plain link. Every record matches the filter."""
_TARGET: Final = 0.85
_names = itertools.count(1)


def links(effort: Effort) -> Iterator[Figure]:
    """From `@earliest` to the end of a topic, accepted, by links of each kind and by a plain one.

    The topic has one partition, and for members that share it as many as there are members.
    """
    broker = FastKafka()
    try:
        with closing(BenchGateway(broker.bootstrap)) as gateway:
            for shape in effort.shapes:
                topics = {count: _filled(broker, count, effort.records, shape) for count in (1, SHARERS)}
                for kind, more in KINDS.items():
                    topic = topics[more.get("consumers", 1)]
                    plain = partial(_read, gateway, topic, effort.records)
                    ours = partial(_read, gateway, topic, effort.records, **more)
                    yield from beside(f"link_{kind}", shape, ours, plain, effort.rounds, "a plain link", _TARGET)
    finally:
        broker.stop()


def _filled(broker: KafkaBroker, partitions: int, count: int, shape: str) -> str:
    """A topic of records with six headers, all of which match the filter."""
    form = "plain" if shape == shapes.SYNTHETIC else shape
    topic = broker.create_topic(partitions=partitions)
    module("kafka.fill", broker.bootstrap, topic, str(count), "100", "1", form, seconds=400.0)
    return topic


def _read(gateway: BenchGateway, topic: str, count: int, node: str = "events", **more: Any) -> Sample:
    """Groups and termini are new ones each time, or they would continue at the end."""
    named = {key: f"{value}-{next(_names)}" for key, value in more.items() if key in ("group", "durable")}
    plan = {"kind": "receive", "receive_from": gateway.edge, "receive_address": f"{node}/{topic}", "count": count}
    return load({**plan, "earliest": True, "credit": CREDIT, **more, **named}, gateway.pid)
