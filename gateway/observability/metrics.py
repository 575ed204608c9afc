"""Prometheus metrics: a registry whose collector reads plain integers when it is scraped.

Counters of the per-message path are `CounterTable` objects; rare events go through `increment`; gauges (such as the
present number of links) are callables. Only the event loop uses them, scrapes included, so nothing is locked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Final, TypeVar

from prometheus_client import CollectorRegistry, Metric, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from gateway.observability.counters import CounterTable, Labels, LinkCounters, Reading, Sample, SocketCounters
from gateway.observability.histogram import HistogramSample

Source = Callable[[], Iterable[Reading]]
HistogramSource = Callable[[], Iterable[HistogramSample]]
Table = TypeVar("Table", bound=CounterTable)
Family = CounterMetricFamily | GaugeMetricFamily

PREFIX: Final = "scopegate_"
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
# Bounds the memory if a label has more values than expected: further values are counted as `other`.
MAX_SERIES: Final = 200
MAX_LABEL: Final = 128
OTHER: Final = "other"

RARE: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "bad_input": ("Peers that broke AMQP or a limit, by what they did.", ("reason",)),
    "sasl_failures": ("Failed authentication attempts.", ("reason",)),
    "logins_revoked": ("Connections closed because a reload took their login away.", ("scope",)),
    "tls_failures": ("Failed TLS handshakes.", ()),
    "connections_accepted": ("Connections accepted.", ("scope",)),
    "connections_closed": ("Accepted connections that have ended.", ("scope",)),
    "connector_opens": ("Connections a connector has opened.", ("connector",)),
    "bridge_failures": ("Times an end of a bridge was not there, or no more.", ("bridge",)),
    "pull_failures": ("Times a queue could not be pulled from, or no more.", ("connector",)),
    "connector_failures": ("Connections a connector has lost or could not make.", ("connector",)),
    "links_attached": ("Links asked for and not refused at once.", ("scope", "direction")),
    "links_refused": ("Links refused.", ("scope", "condition")),
    "links_ended": ("Links that have ended.", ("scope", "condition")),
    "messages_refused": ("Messages refused.", ("scope", "condition")),
    "cookie_failures": ("Response-address cookies and rewritten ids that did not verify.", ("reason",)),
    "held_back": ("Connections that hold too much, by what happens: read or sent less, refused, closed.", ("how",)),
    "reloads": ("Policy reloads.", ("result",)),
    "task_failures": ("Background tasks that ended with an error.", ("task",)),
    "task_restarts": ("Essential tasks begun again after an error.", ("task",)),
    "scrape_errors": ("Metrics left out because reading them failed.", ("metric",)),
}

HELP: Final = {
    "filter_texts_unsearched": "Texts that were too long for the LIKE of a filter, so that it was unknown.",
    "filter_sections_unread": "Sections too long to be searched for a filter, so that the message did not match.",
    "bridge_events": "Events of bridges: forwarded (moved), repeated, given up, skipped, of a wrong partition.",
    "bridge_up": "1: this gateway forwards the events of the bridge, and both ends are attached.",
    "bridge_held": "Unfinished events of the bridge in this gateway.",
    "bridge_delay_seconds": "From an event's timestamp in its log to its acceptance by the target; the last one.",
    "bridge_lag": "Unfinished records of the topic; NaN: unknown.",
    "held_bytes": "Bytes held for peers, by kind (docs/design.md).",
    "held_deliveries": "Messages held for peers, by kind.",
    "held_limit_bytes": "Limit of the bytes held for all peers.",
    "socket_bytes": "Bytes on sockets, before TLS.",
    "deliveries": "Messages on links.",
    "kafka_ahead_bytes": "Bytes read ahead of the links; about as much as the cache may hold at most.",
    "kafka_cached_bytes": "Bytes cached for links that are slightly behind.",
    "kafka_cached_chunks": "Batches of records in the cache or read ahead.",
    "kafka_client_bytes": "Limit of the bytes in queues and fetches of the Kafka clients that read.",
    "kafka_client_slow": "1: this version of confluent-kafka hands records over one by one, about half as fast.",
    "kafka_readers": "Kafka clients that read, each with a thread.",
    "kafka_streams": "Positions in partitions from which clients read; links at the same position share one.",
    "kafka_turns": "Partitions with more positions than readers, which therefore take turns.",
    "kafka_up": "1: the cluster answers.",
    "kafka_events": "Transfers into topics by outcome, deliveries from topics, and what went wrong.",
    "journal_rows": "Rows of the journal by result (docs/journal.md).",
    "subscriptions": "Subscriptions of a manager, by the protocol of their sinks and by state.",
    "subscription_events": "Events of subscriptions by what happened to them (docs/subscriptions.md).",
    "subscription_held_bytes": "Bytes of events in memory for the sinks of a manager.",
    "subscriptions_suspended": "Suspended subscriptions of a manager, by reason.",
    "subscription_attempts": "Attempts to send events to sinks, by the class of the answer (docs/subscriptions.md).",
    "subscription_attempt_seconds": "From sending events to a sink to its answer.",
    "subscription_delivery_seconds": "From an event's timestamp in its topic to its acceptance by the sink.",
    "subscription_handshakes": "Requests for the consent of HTTP sinks, by result.",
    "subscription_egress_refused": "Sinks that the gateway did not connect to, by reason.",
    "subscription_filters": "Different filters that are indexed, tried for every event, or true of every event.",
    "subscription_oldest_seconds": "Age of the oldest event that is read and not done with; 0: there is none.",
    "dropped": "Settled messages that no receiver could take.",
    "outcomes": "Outcomes of messages, as sent to their senders.",
    "state_events": "Requests to shared state without an answer, uses that could not be returned, a full memory.",
    **{name: text for name, (text, _) in RARE.items()},
}


class Metrics:
    """The metrics of the process; every part that counts gets this object."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_CounterCollector(self._read))
        ProcessCollector(registry=self._registry)
        self._counters: dict[tuple[type[CounterTable], Labels], CounterTable] = {}
        self._rare: dict[str, dict[tuple[str, ...], int]] = {name: {} for name in RARE}
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
        if len(labels) != len(RARE[name][1]):
            raise ValueError(f"{name} has the labels {RARE[name][1]}")
        series = self._rare[name]
        if labels not in series and (len(series) >= MAX_SERIES or max(map(len, labels), default=0) > MAX_LABEL):
            labels = (OTHER,) * len(labels)
        series[labels] = series.get(labels, 0) + by

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
        return generate_latest(self._registry)

    def _table(self, kind: type[Table], labels: Labels) -> Table:
        found = self._counters.get((kind, labels))
        if found is None:
            found = self._counters[kind, labels] = kind(labels)
        assert isinstance(found, kind)
        return found

    def _read(self) -> Iterator[Metric]:
        gauges = [*self._gauge_samples(), *(each for source in self._gauge_sources for each in self._samples(source))]
        sources = [sample for source in self._sources for sample in self._samples(source)]
        own = (sample for counters in self._counters.values() for sample in counters.samples())
        yield from _families(CounterMetricFamily, chain(own, sources, self._rare_samples()))
        yield from _families(GaugeMetricFamily, gauges)
        yield from _histograms(each for source in self._histogram_sources for each in source())

    def _samples(self, source: Source) -> list[Sample]:
        try:
            return [Sample(*sample) for sample in source()]
        except Exception:
            self.increment("scrape_errors", getattr(source, "__qualname__", "source"))
            return []

    def _gauge_samples(self) -> Iterator[Sample]:
        for (name, labels), read in self._gauges.items():
            try:
                yield Sample(name.removeprefix(PREFIX), labels, read())
            except Exception:
                self.increment("scrape_errors", name)

    def _rare_samples(self) -> Iterator[Sample]:
        for name, series in self._rare.items():
            names = RARE[name][1]
            for values, count in series.items() or (((), 0),) * (not names):
                yield Sample(name, tuple(zip(names, values, strict=True)), count)


class _CounterCollector(Collector):
    def __init__(self, read: Callable[[], Iterator[Metric]]) -> None:
        self._read = read

    def collect(self) -> Iterator[Metric]:
        return self._read()

    def describe(self) -> list[Metric]:
        """Nothing, because registration must not read the metrics."""
        return []


def _histograms(samples: Iterable[HistogramSample]) -> Iterator[HistogramMetricFamily]:
    """One family per metric, as `_families`."""
    families: dict[str, HistogramMetricFamily] = {}
    for name, labels, value in samples:
        family = families.get(name)
        if family is None:
            names = [label for label, _ in labels]
            family = families[name] = HistogramMetricFamily(PREFIX + name, HELP[name], labels=names)
        family.add_metric([text for _, text in labels], list(value.buckets()), value.total)
    return iter(families.values())


def _families(kind: Callable[..., Family], samples: Iterable[Sample]) -> Iterator[Family]:
    """One family per metric, because the text format has the samples of a metric together."""
    families: dict[str, Family] = {}
    for name, labels, value in samples:
        family = families.get(name)
        if family is None:
            text = HELP.get(name, name.replace("_", " "))
            family = families[name] = kind(PREFIX + name, text, labels=[label for label, _ in labels])
        family.add_metric([text for _, text in labels], value)
    return iter(families.values())
