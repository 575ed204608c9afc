"""Histograms as plain integers, like the counters; they become metrics only at a scrape. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final, NamedTuple, Protocol

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
        return _buckets(self._bounds, self._counts)


class ReadableHistogram(Protocol):
    """A histogram, as a scrape reads it."""

    @property
    def total(self) -> float: ...
    def buckets(self) -> Iterator[tuple[str, int]]: ...


class CountedHistogram:
    """A histogram that C code has counted: the counts by bucket and the sum, which it gives as `reading`."""

    def __init__(self, bounds: Sequence[float], reading: tuple[Sequence[int], float]) -> None:
        self._bounds: Final = bounds
        self._counts, self.total = reading

    def buckets(self) -> Iterator[tuple[str, int]]:
        """As `Histogram.buckets`."""
        return _buckets(self._bounds, self._counts)


def _buckets(bounds: Sequence[float], counts: Sequence[int]) -> Iterator[tuple[str, int]]:
    names = (*(f"{bound:g}" for bound in bounds), "+Inf")
    return zip(names, accumulate(counts), strict=True)


class HistogramSample(NamedTuple):
    """A histogram at scrape time: its metric without `scopegate_`, and its labels."""

    metric: str
    labels: Labels
    value: ReadableHistogram
