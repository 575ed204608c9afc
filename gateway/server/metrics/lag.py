"""How far links and consumer groups are behind the ends of their partitions, by address rule.

Kafka is asked for the ends every 15 s, once for each topic that somebody reads, up to `MOST_TOPICS`. The names of
groups come from peers, so a rule shows its slowest group and no names.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from gateway.errors import AmqpError
from gateway.observability.counters import Labels, Reading
from gateway.observability.link_events import rule_of
from policies.model.scopes.addresses import KafkaRule
from policies.rules import KafkaRoute

if TYPE_CHECKING:
    from gateway.amqp.link.link import Link
    from gateway.server.metrics.source import MeasuredGateway

INTERVAL: Final = 15.0
"""Seconds between two measurements."""
MOST_TOPICS: Final = 200
MOST_LINKS: Final = 10_000
_STEP: Final = 200
"""Links that are looked at in one turn of the loop."""
_GROUP: Final = "event-streams-consumer-group"
Log = tuple[str, str]
"""A cluster and a topic."""
RuleKey = tuple[str, str]
"""A scope and the pattern of a rule."""


class Reader(NamedTuple):
    """What is known of a link that reads a log: its rule, its group (None: none) and the offsets that it reads next."""

    rule: RuleKey
    log: Log
    group: str | None
    positions: Mapping[int, int]


class LagMeter:
    """The lag of each rule that leads to Kafka."""

    def __init__(self, gateway: MeasuredGateway) -> None:
        self._gateway: Final = gateway
        self._links: dict[RuleKey, float] = {}
        self._groups: dict[RuleKey, float] = {}

    async def run(self) -> None:
        """Measure until cancelled."""
        while True:
            await self.measure()
            await asyncio.sleep(INTERVAL)

    async def measure(self) -> None:
        """Measure once."""
        readers = [reader async for reader in self._readers()]
        logs = dict.fromkeys(reader.log for reader in readers)
        ends = {log: await self._ends(*log) for log in islice(logs, MOST_TOPICS)}
        self._links, self._groups = slowest(readers, ends)

    async def _readers(self) -> AsyncIterator[Reader]:
        for number, link in enumerate(islice([*self._gateway.links()], MOST_LINKS)):
            if number % _STEP == 0:
                await asyncio.sleep(0)
            if (reader := reader_of(link)) is not None:
                yield reader

    async def _ends(self, cluster: str, topic: str) -> Mapping[int, int] | None:
        try:
            return await self._gateway.clusters[cluster].ends(topic)
        except (AmqpError, KeyError):
            return None

    def samples(self) -> Iterator[Reading]:
        """The gauges, for metrics; a rule without readers has no lag."""
        rules = {
            (scope, rule.match.text): None
            for scope, section in self._gateway.policy.model.scopes.items()
            for rule in section.addresses
            if isinstance(rule, KafkaRule)
        }
        for key in {**rules, **dict.fromkeys(self._links)}:
            labels: Labels = ("scope", key[0]), ("rule", key[1])
            yield "link_lag", labels, self._links.get(key, 0.0)
            yield "group_lag", labels, self._groups.get(key, 0.0)


def reader_of(link: Link) -> Reader | None:
    """The log that a link reads; None: it reads none."""
    if link.incoming or not link.open or link.decision is None:
        return None
    route = link.decision.routes[-1]
    if not isinstance(route, KafkaRoute) or not (positions := link.handler.positions()):
        return None
    group = link.properties.get(_GROUP)
    return Reader((link.scope, rule_of(link)), (route.cluster, route.topic), group and str(group), positions)


def slowest(
    readers: list[Reader], ends: Mapping[Log, Mapping[int, int] | None]
) -> tuple[dict[RuleKey, float], dict[RuleKey, float]]:
    """The largest lag of a link, and of a group, by rule; NaN if it is unknown. Pure."""
    links: dict[RuleKey, float] = {}
    sums: dict[tuple[RuleKey, Log, str], float] = {}
    for reader in readers:
        lag = _behind(reader.positions, ends.get(reader.log))
        links[reader.rule] = _larger(links.get(reader.rule, 0.0), lag)
        if reader.group is not None:
            key = reader.rule, reader.log, reader.group
            sums[key] = sums.get(key, 0.0) + lag
    groups: dict[RuleKey, float] = {}
    for (rule, _, _), lag in sums.items():
        groups[rule] = _larger(groups.get(rule, 0.0), lag)
    return links, groups


def _behind(positions: Mapping[int, int], ends: Mapping[int, int] | None) -> float:
    if ends is None:
        return math.nan
    return float(sum(max(0, ends.get(partition, at) - at) for partition, at in positions.items()))


def _larger(one: float, other: float) -> float:
    """The larger number; what is unknown is larger than any."""
    return one if math.isnan(one) or one >= other else other
