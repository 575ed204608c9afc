"""The metrics of a running manager at a scrape; every series exists from the start (docs/subscriptions.md).

Labels are names of the policy, of protocols and of the kinds listed there, never of subscriptions, users or sinks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from bridges.cloudevents.delivery.counts import DeliveryCounts
from bridges.cloudevents.delivery.metrics import ManagerMetrics
from bridges.cloudevents.delivery.state import DeliveryState, Reason
from bridges.cloudevents.dispatch.observer import DeliveryObserver
from bridges.cloudevents.model.values import SinkProtocol
from gateway.observability.counters import Sample
from gateway.observability.histogram import HistogramSample
from policies.subscriptions import ManagerRules

_SUSPENDED: Final = [reason for reason in Reason if reason.state is DeliveryState.SUSPENDED]


def protocols_of(rules: ManagerRules) -> list[SinkProtocol]:
    """The protocols that an entry of `sinks` allows."""
    allowed = {kind.upper() for rule in rules.sinks for kind in rule.protocols}
    return [protocol for protocol in SinkProtocol if protocol.value in allowed]


def gauges(
    manager: str,
    protocols: Collection[SinkProtocol],
    observer: DeliveryObserver,
    keys: Mapping[str, int],
    now_ms: int,
) -> Iterator[Sample]:
    """States, filters, readers, keys, and events in memory; `protocols` are shown at 0, too.

    `keys`: the number of subscriptions whose secrets each encrypts.
    """
    label = ("manager", manager)
    states = observer.states()
    for protocol in dict.fromkeys([*protocols, *(protocol for protocol, _ in states)]):
        for state in DeliveryState:
            labels = (label, ("protocol", protocol.value), ("state", state.value))
            yield Sample("subscriptions", labels, states[protocol, state])
    suspended = observer.suspended()
    for reason in _SUSPENDED:
        yield Sample("subscriptions_suspended", (label, ("reason", reason.value)), suspended[reason])
    for kind, number in observer.filters().items():
        yield Sample("subscription_filters", (label, ("kind", kind)), number)
    for kind, number in observer.readers().items():
        yield Sample("subscription_readers", (label, ("kind", kind)), number)
    for key, number in keys.items():
        yield Sample("subscription_sealed", (label, ("key", key)), number)
    yield Sample("subscription_held_bytes", (label,), observer.buffered_bytes)
    oldest = observer.oldest_timestamp
    age = 0.0 if oldest is None else max(0.0, (now_ms - oldest) / 1000)
    yield Sample("subscription_oldest_seconds", (label,), age)


def counters(
    manager: str, protocols: Collection[SinkProtocol], observer: DeliveryObserver, metrics: ManagerMetrics
) -> Iterator[Sample]:
    """Events, attempts, handshakes and denials since the process started."""
    label = ("manager", manager)
    events = {(protocol, outcome): number for protocol, outcome, number in observer.events()}
    for protocol in dict.fromkeys([*protocols, *(protocol for protocol, _ in events)]):
        named = ("protocol", protocol.value)
        for outcome in DeliveryCounts.__slots__:
            labels = (label, named, ("outcome", outcome))
            yield Sample("subscription_events", labels, events.get((protocol, outcome), 0))
        for result, number in metrics.of(protocol).attempts.items():
            yield Sample("subscription_attempts", (label, named, ("class", result.label)), number)
    for handshake, number in metrics.handshakes.items():
        yield Sample("subscription_handshakes", (label, ("result", handshake.value)), number)
    for reason, number in metrics.denials.items():
        yield Sample("subscription_egress_refused", (label, ("reason", reason.value)), number)


def histograms(manager: str, protocols: Collection[SinkProtocol], metrics: ManagerMetrics) -> Iterator[HistogramSample]:
    """Durations of attempts and of deliveries."""
    for protocol in dict.fromkeys([*protocols, *metrics.protocols]):
        labels, found = (("manager", manager), ("protocol", protocol.value)), metrics.of(protocol)
        yield HistogramSample("subscription_attempt_seconds", labels, found.attempt_seconds)
        yield HistogramSample("subscription_delivery_seconds", labels, found.delivery_seconds)
