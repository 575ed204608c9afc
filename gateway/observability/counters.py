"""Plain integers that the per-message path increments; they become metrics only at a scrape.

`counters.deliveries_in += 1` is one attribute of an object with slots: no lock, no lookup. `SERIES` of each class names
the metric of a field. Labels are names of the policy (scopes, listeners, rules, clusters), never text of a client.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar, Final, NamedTuple

Labels = tuple[tuple[str, str], ...]
Reading = tuple[str, Labels, float]
"""A value at scrape time: the metric without `scopegate_` and `_total`, its labels, and the value."""


class Series(NamedTuple):
    """The metric of a field, without `scopegate_` and `_total`, and the field's own labels."""

    metric: str
    labels: Labels = ()


class Sample(NamedTuple):
    """One value at scrape time."""

    metric: str
    labels: Labels
    value: float


class CounterTable:
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


class SocketCounters(CounterTable):
    """Bytes on the connections of a listener or connector."""

    __slots__ = ("bytes_in", "bytes_out")
    SERIES = {  # noqa: RUF012 (declared in the base class)
        "bytes_in": Series("socket_bytes", (("direction", "in"),)),
        "bytes_out": Series("socket_bytes", (("direction", "out"),)),
    }
    bytes_in: int
    bytes_out: int


class LinkCounters(CounterTable):
    """Messages on the links of an address rule, and their outcomes."""

    __slots__ = (
        "accepted", "deliveries_in", "deliveries_out", "dropped", "modified", "rejected", "released", "settled",
    )  # fmt: skip
    SERIES = {  # noqa: RUF012 (declared in the base class)
        "deliveries_in": Series("deliveries", (("direction", "in"),)),
        "deliveries_out": Series("deliveries", (("direction", "out"),)),
        "dropped": Series("dropped"),
        **_one("outcomes", "outcome", "accepted", "released", "rejected", "modified", "settled"),
    }
    deliveries_in: int
    deliveries_out: int
    dropped: int
    accepted: int
    released: int
    rejected: int
    modified: int
    settled: int
