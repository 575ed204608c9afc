"""Plain integers that the per-message path adds to; they become metrics only when somebody scrapes.

A field is bumped as `counters.deliveries_in += 1`: one attribute of a slotted object, no lock, no lookup.
The table in each class says what a field is called outside. The objects are kept by what the policy names
(scopes, listeners, rules, clusters); nothing a client says becomes a label.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar, Final, NamedTuple

Labels = tuple[tuple[str, str], ...]
Reading = tuple[str, Labels, float]
"""A value at scrape time: the metric without `scopegate_` and `_total`, its labels, and the value."""


class Series(NamedTuple):
    """Where a field goes: the metric without `scopegate_` and `_total`, and labels of its own."""

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
    """Per listener or connector: bytes on its connections."""

    __slots__ = ("bytes_in", "bytes_out")
    SERIES = {  # noqa: RUF012 (declared in the base class)
        "bytes_in": Series("socket_bytes", (("direction", "in"),)),
        "bytes_out": Series("socket_bytes", (("direction", "out"),)),
    }
    bytes_in: int
    bytes_out: int


class LinkCounters(CounterTable):
    """Per scope and address rule: messages on its links, and what became of them."""

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
