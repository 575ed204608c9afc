"""Histograms as plain integers, like the counters; they become metrics only at a scrape. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

from gateway.observability.counters import Labels


class Histogram:
    """Counts observations by bucket; a bucket includes its upper bound."""

    __slots__ = ("_bounds", "_counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        """`bounds` are the upper bounds, ascending; larger observations are counted above the last one."""
        self._bounds: Final = tuple(bounds)
        self._counts: Final = [0] * (len(self._bounds) + 1)
        self.total = 0.0
        """The sum of the observations."""

    def observe(self, value: float) -> None:
        """Count one observation."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self.total += value

    def buckets(self) -> Iterator[tuple[str, int]]:
        """The bounds as texts, each with the number of observations up to it; the last one is `+Inf`."""
        names = (*(f"{bound:g}" for bound in self._bounds), "+Inf")
        return zip(names, accumulate(self._counts), strict=True)


class HistogramSample(NamedTuple):
    """A histogram at scrape time: its metric without `scopegate_`, and its labels."""

    metric: str
    labels: Labels
    value: Histogram
