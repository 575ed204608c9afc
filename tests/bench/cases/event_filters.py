"""The filters of many subscriptions on one stream of events: processor time of one core for each event."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import yaml

from bridges.cloudevents.events.dialects import draft, sql
from bridges.cloudevents.events.event import CloudEvent
from bridges.cloudevents.events.filter import EventFilter
from bridges.cloudevents.events.index import FilterIndex
from bridges.cloudevents.model.values import Json
from gateway.errors import AmqpError
from gateway.filters.cesql import compile_cesql, parse_cesql
from tests.bench.effort import Effort
from tests.bench.figures import Figure
from tests.support.cloudevents.records import event
from tests.support.project import parts

COUNT: Final = 10_000
EVENTS: Final = 500
ALONE: Final = 5
"""Events that each filter is asked about alone: it takes long."""


def filters_many(effort: Effort) -> Iterator[Figure]:
    """All filters in one index, against each alone; then all expressions of the test cases."""
    found = [_event(number * 37) for number in range(EVENTS)]
    for name, filters, most in (
        ("filters_10000_exact", list(map(_exact, range(COUNT))), 8.0),
        ("filters_10000_prefix", list(map(_prefix, range(COUNT))), 12.0),
        ("filters_10000_mixed", _mixed(), 40.0),
        ("filters_200_unindexed", [sql(f"subject LIKE '%x{number}%'") for number in range(200)], 120.0),
    ):
        yield _figure(name, filters, found, most, effort)
    yield _cesql(effort)


def _figure(name: str, filters: list[EventFilter], found: list[CloudEvent], most: float, effort: Effort) -> Figure:
    index, start = FilterIndex[int](), time.process_time()
    for key, wanted in enumerate(filters):
        index.add(key, wanted)
    added = (time.process_time() - start) / len(filters) * 1e6
    took = _least(lambda: [index.matching(each) for each in found], effort) / len(found) * 1e6
    alone = _least(lambda: [[one.matches(each) for one in filters] for each in found[:ALONE]], effort) / ALONE * 1e6
    details = {
        "matches": sum(len(index.matching(each)) for each in found) / len(found),
        "alone_us": alone,
        "add_us": added,
        "unindexed": index.unindexed,
    }
    return Figure(name, took, "µs", target=most, at_most=True, details=details)


def _least(work: Callable[[], Any], effort: Effort) -> float:
    """Processor seconds of the quickest round: others on the machine only make it slower."""
    taken = []
    for _ in range(effort.rounds):
        start = time.process_time()
        work()
        taken.append(time.process_time() - start)
    return min(taken)


def _event(number: int) -> CloudEvent:
    place = number % COUNT
    more = {f"extension{each}": f"value-{number}" for each in range(2)}
    return event(
        type=f"com.example.order.t{place}", source=f"/shop/{number % 100}", subject=f"orders/{place}/{number}.jpg",
        time="2026-11-23T10:00:00Z", partitionkey=f"k{number}", tenant=f"t{number % 50}", **more,
    )  # fmt: skip


def _exact(number: int) -> EventFilter:
    return draft([{"exact": {"type": f"com.example.order.t{number}"}}])


def _prefix(number: int) -> EventFilter:
    return draft([{"prefix": {"subject": f"orders/{number}/"}}])


def _mixed() -> list[EventFilter]:
    """70 % exact, 20 % prefix, 5 % suffix, 5 % any; ten of them want an event of the kind of which many come."""
    broad: list[EventFilter] = [draft(_broad(number)) for number in range(9)]
    return broad + [_of_share(number) for number in range(COUNT - len(broad))]


def _broad(number: int) -> list[Json]:
    return [{"prefix": {"subject": "orders/"}}, {"not": {"exact": {"tenant": f"none-{number}"}}}]


def _of_share(number: int) -> EventFilter:
    share = number % 100
    if share < 70:
        return _exact(number)
    if share < 90:
        return _prefix(number)
    if share < 95:
        return draft([{"suffix": {"subject": f"/{number}.png"}}])
    return draft([{"any": [{"exact": {"tenant": f"x{number}"}}, {"prefix": {"source": f"/other/{number}"}}]}])


def _cesql(effort: Effort) -> Figure:
    attributes = dict(_event(7).attributes)
    evaluate = []
    for file in sorted(parts.folder("cesql-tck").glob("*.yaml")):
        for case in yaml.load(file.read_text("utf-8"), yaml.BaseLoader)["tests"]:  # texts only
            try:
                evaluate.append(compile_cesql(parse_cesql(case["expression"])))
            except AmqpError:
                continue
    rounds = 50
    taken = _least(lambda: [[each(attributes) for each in evaluate] for _ in range(rounds)], effort)
    mean = taken / rounds / len(evaluate) * 1e6
    return Figure("cesql_tck", mean, "µs", target=3.0, at_most=True, details={"expressions": len(evaluate)})
