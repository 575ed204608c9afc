"""Prometheus metrics: a registry whose collector reads plain integers when it is scraped.

Counters of the per-message path are `CounterTable` objects; rare events go through `increment`; gauges (such as the
present number of links) are callables. Only the event loop uses them, scrapes included, so nothing is locked.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import chain
from typing import Final, TypeVar

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest

from gateway.observability.catalog import RARE, known_labels
from gateway.observability.counters import CounterTable, Labels, LinkCounters, Reading, Sample, SocketCounters
from gateway.observability.exposition import PREFIX, Pieces, written, written_histograms
from gateway.observability.histogram import HistogramSample

Source = Callable[[], Iterable[Reading | None]]
"""Gives what is read at a scrape; None where other work may be done before it goes on."""
HistogramSource = Callable[[], Iterable[HistogramSample | None]]
Table = TypeVar("Table", bound=CounterTable)
T = TypeVar("T")

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
# Bounds the memory if a label has more values than expected: further values are counted as `other`.
MAX_SERIES: Final = 200
MAX_LABEL: Final = 128
OTHER: Final = "other"


class Metrics:
    """The metrics of the process; every part that counts gets this object."""

    def __init__(self) -> None:
        self._process = CollectorRegistry()
        ProcessCollector(registry=self._process)
        self._counters: dict[tuple[type[CounterTable], Labels], CounterTable] = {}
        self._rare: dict[str, dict[tuple[str, ...], int]] = {
            name: dict.fromkeys(known_labels(each), 0) for name, each in RARE.items()
        }
        self._known: dict[str, int] = {name: len(series) for name, series in self._rare.items()}
        """The series that were shown before anything happened; `MAX_SERIES` limits the others."""
        self._gauges: dict[tuple[str, Labels], Callable[[], float]] = {}
        self._sources: list[Source] = []
        self._gauge_sources: list[Source] = []
        self._histogram_sources: list[HistogramSource] = []

    def sockets(self, scope: str, name: str) -> SocketCounters:
        """The counters of a listener or connector, by its name in the policy."""
        return self._table(SocketCounters, (("scope", scope), ("name", name)))

    def links(self, scope: str, rule: str) -> LinkCounters:
        """The counters of an address rule, by its pattern in the policy (never by an address)."""
        return self._table(LinkCounters, (("scope", scope), ("rule", rule)))

    def increment(self, name: str, *labels: str, by: int = 1) -> None:
        """Count a rare event: one of `RARE`, with its labels in order."""
        if len(labels) != len(RARE[name].labels):
            raise ValueError(f"{name} has the labels {RARE[name].labels}")
        series = self._rare[name]
        full = len(series) >= MAX_SERIES + self._known[name]
        if labels not in series and (full or max(map(len, labels), default=0) > MAX_LABEL):
            labels = (OTHER,) * len(labels)
        series[labels] = series.get(labels, 0) + by

    def expect(self, name: str, *labels: str) -> None:
        """Show a series of `RARE` at 0 from now on; its labels are names of the policy."""
        series = self._rare[name]
        if labels not in series:
            series[labels] = 0
            self._known[name] += 1

    def gauge(self, name: str, read: Callable[[], float], labels: Labels = ()) -> None:
        """Show `read()` as the gauge `name` (with its prefix) at every scrape; replaces an earlier one."""
        self._gauges[name, labels] = read

    def forget(self, name: str, labels: Labels) -> None:
        """Stop showing a gauge."""
        self._gauges.pop((name, labels), None)

    def count_source(self, source: Source) -> None:
        """Show the counters that `source()` yields (names without prefix and `_total`) at every scrape."""
        self._sources.append(source)

    def gauge_source(self, source: Source) -> None:
        """Show the gauges that `source()` yields (names without prefix) at every scrape."""
        self._gauge_sources.append(source)

    def histogram_source(self, source: HistogramSource) -> None:
        """Show the histograms that `source()` yields (names without prefix) at every scrape."""
        self._histogram_sources.append(source)

    def exposition(self) -> bytes:
        """The text that Prometheus reads."""
        return b"".join(piece for piece in self.pieces() if piece)

    def pieces(self) -> Pieces:
        """The same in pieces: with thousands of rules it is long."""
        gauges: list[Reading] = [*self._gauge_samples()]
        counts, histograms = list[Reading](), list[HistogramSample]()
        for source in self._gauge_sources:
            gauges += yield from self._collected(source)
        for source in self._sources:
            counts += yield from self._collected(source)
        own = (sample for counters in [*self._counters.values()] for sample in counters.samples())
        yield from written("counter", chain(own, counts, [*self._rare_samples()]))
        yield from written("gauge", gauges)
        for measured in self._histogram_sources:
            histograms += yield from self._collected(measured)
        yield from written_histograms(histograms)
        yield generate_latest(self._process)

    def _table(self, kind: type[Table], labels: Labels) -> Table:
        found = self._counters.get((kind, labels))
        if found is None:
            found = self._counters[kind, labels] = kind(labels)
        assert isinstance(found, kind)
        return found

    def _collected(self, source: Callable[[], Iterable[T | None]]) -> Generator[None, None, list[T]]:
        found = []
        try:
            for each in source():
                if each is None:
                    yield
                else:
                    found.append(each)
        except Exception:
            self.increment("scrape_errors", getattr(source, "__qualname__", "source"))
            return []
        return found

    def _gauge_samples(self) -> Iterator[Sample]:
        for (name, labels), read in self._gauges.items():
            try:
                yield Sample(name.removeprefix(PREFIX), labels, read())
            except Exception:
                self.increment("scrape_errors", name)

    def _rare_samples(self) -> Iterator[Sample]:
        for name, series in self._rare.items():
            names = RARE[name].labels
            for values, count in series.items():
                yield Sample(name, tuple(zip(names, values, strict=True)), count)
