"""Plain integers that the per-message path adds to; they become metrics only when somebody scrapes.

A field is bumped as `counters.deliveries_in += 1`: one attribute of a slotted object, no lock, no lookup.
The table in each class says what a field is called outside. The objects are kept by what the policy names
(scopes, listeners, rules, clusters); nothing a client says becomes a label.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar, Final, NamedTuple

Labels = tuple[tuple[str, str], ...]


class Series(NamedTuple):
    """Where a field goes: the metric without `scopegate_` and `_total`, and labels of its own."""

    metric: str
    labels: Labels = ()


class Sample(NamedTuple):
    """One value at scrape time."""

    metric: str
    labels: Labels
    value: float


class Counters:
    """Integers that share labels; subclasses name the fields."""

    __slots__ = ("labels",)
    SERIES: ClassVar[Mapping[str, Series]] = {}

    def __init__(self, labels: Labels) -> None:
        self.labels: Final = labels
        for field in self.SERIES:
            setattr(self, field, 0)

    def samples(self) -> Iterator[Sample]:
        """The present values."""
        for field, (metric, labels) in self.SERIES.items():
            yield Sample(metric, self.labels + labels, getattr(self, field))


def _one(name: str, label: str, *values: str) -> dict[str, Series]:
    return {value: Series(name, ((label, value),)) for value in values}


class ListenerCounters(Counters):
    """Per listener or connector: what happens on connections, whoever is on them."""

    __slots__ = ("bytes_in", "bytes_out", "connections_closed", "connections_opened", "opens_refused")
    SERIES = {  # noqa: RUF012 (declared in the base class)
        "connections_opened": Series("connections_opened"),
        "connections_closed": Series("connections_closed"),
        "opens_refused": Series("opens_refused"),
        "bytes_in": Series("socket_bytes", (("direction", "in"),)),
        "bytes_out": Series("socket_bytes", (("direction", "out"),)),
    }
    connections_opened: int
    connections_closed: int
    opens_refused: int
    bytes_in: int
    bytes_out: int


class LinkCounters(Counters):
    """Per scope and address rule: what happens on links and to messages."""

    __slots__ = (
        "accepted", "bytes_in", "bytes_out", "deliveries_in", "deliveries_out", "dropped", "links_closed",
        "links_opened", "links_refused", "modified", "presettled_in", "presettled_out", "rejected", "released",
        "settled",
    )  # fmt: skip
    SERIES = {  # noqa: RUF012 (declared in the base class)
        "links_opened": Series("links_opened"),
        "links_closed": Series("links_closed"),
        "links_refused": Series("links_refused"),
        "deliveries_in": Series("deliveries", (("direction", "in"),)),
        "deliveries_out": Series("deliveries", (("direction", "out"),)),
        "presettled_in": Series("presettled", (("direction", "in"),)),
        "presettled_out": Series("presettled", (("direction", "out"),)),
        "bytes_in": Series("delivery_bytes", (("direction", "in"),)),
        "bytes_out": Series("delivery_bytes", (("direction", "out"),)),
        "dropped": Series("dropped"),
        **_one("outcomes", "outcome", "accepted", "released", "rejected", "modified", "settled"),
    }
    links_opened: int
    links_closed: int
    links_refused: int
    deliveries_in: int
    deliveries_out: int
    presettled_in: int
    presettled_out: int
    bytes_in: int
    bytes_out: int
    dropped: int
    accepted: int
    released: int
    rejected: int
    modified: int
    settled: int


class KafkaCounters(Counters):
    """Per Kafka cluster: records, by what became of them."""

    __slots__ = ("consumed", "failed", "produced")
    SERIES = _one("kafka_records", "result", "produced", "failed", "consumed")
    produced: int
    failed: int
    consumed: int
