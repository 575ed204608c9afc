"""The gauges and histograms of the gateway, and the series that exist as soon as a policy is in force."""

from __future__ import annotations

import asyncio
import math
import platform
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from gateway import __version__
from gateway.amqp.proton._batch import SECOND_BOUNDS
from gateway.errors import STANDARD
from gateway.observability.counters import Labels, Reading
from gateway.observability.histogram import CountedHistogram, HistogramSample
from gateway.observability.link_events import NO_RULE, rule_of
from gateway.routing.response_times import ResponseTimes
from gateway.server.metrics.expiry import CertificateExpiries
from gateway.server.metrics.lag import LagMeter
from gateway.server.metrics.loop_lag import LoopLag
from gateway.server.metrics.starving import StarvingSenders

if TYPE_CHECKING:
    from gateway.server.metrics.source import MeasuredGateway
    from gateway.tasks import Supervisor
    from policies.rules import CompiledPolicy

_DIRECTIONS: Final = ("in", "out")
_STEP: Final = 50
"""Links, or rules, that are read before other work may be done."""


class GatewayMetrics:
    """The metrics of one gateway; everything is read when it is scraped, except what needs a while."""

    def __init__(self, gateway: MeasuredGateway, loop: asyncio.AbstractEventLoop) -> None:
        self._gateway: Final = gateway
        self.times: Final = ResponseTimes(loop.call_later)
        self._lag: Final = LagMeter(gateway)
        self._starving: Final = StarvingSenders(gateway.report)
        self._loop_lag: Final = LoopLag()
        self._expiries: Final = CertificateExpiries()
        metrics = gateway.report.metrics
        for gauges in (self._process, self._policy, self._backends, self._connections, self._links):
            metrics.gauge_source(gauges)
        for more in (self._expiries.samples, self._lag.samples):
            metrics.gauge_source(more)
        for histograms in (self.times.samples, self._loop_lag.samples, self._produced):
            metrics.histogram_source(histograms)

    def start(self, supervisor: Supervisor) -> None:
        """Measure what is not there at a scrape."""
        supervisor.keep(self._lag.run, "lag")
        supervisor.keep(self._starving.run, "starving")
        supervisor.keep(self._loop_lag.run, "loop-lag")

    def policy_in_force(self, policy: CompiledPolicy, supervisor: Supervisor) -> None:
        """Show the series of this policy at 0, and read when its certificates end."""
        for scope, rules in policy.scopes.items():
            self._expect_scope(scope, [*rules.patterns, *NO_RULE])
        for section in policy.model.scopes.values():
            for connector in section.connect:
                for name in ("connector_opens", "connector_failures", "pull_failures"):
                    self._gateway.report.metrics.expect(name, connector.name)
            for bridge in section.bridge:
                self._gateway.report.metrics.expect("bridge_failures", bridge.name)
        self._expect_crossings(policy)
        supervisor.start(self._expiries.read(policy), "certificates")

    def _expect_scope(self, scope: str, rules: list[str]) -> None:
        report = self._gateway.report
        for name in ("connections_accepted", "connections_closed", "idle_timeouts", "logins_revoked"):
            report.metrics.expect(name, scope)
        for direction in _DIRECTIONS:
            report.metrics.expect("links_attached", scope, direction)
        for condition in (*sorted(STANDARD), "other"):
            for name in ("links_refused", "links_ended", "messages_refused"):
                report.metrics.expect(name, scope, condition)
        report.metrics.expect("links_ended", scope, "none")
        for rule in rules:
            report.metrics.links(scope, rule)
            report.measures.of(scope, rule)

    def _expect_crossings(self, policy: CompiledPolicy) -> None:
        for origin, section in policy.model.scopes.items():
            for rule in section.addresses:
                target = getattr(rule, "relay", None)
                if target is not None:
                    self.times.expect(origin, target if target in policy.model.scopes else origin)

    # -- gauges

    def _process(self) -> Iterator[Reading]:
        yield "build_info", (("version", __version__), ("python", platform.python_version())), 1.0
        ready, report = self._gateway.readiness.report()
        yield "ready", (("part", "gateway"),), float(ready)
        for name, part in report["parts"].items():
            yield "ready", (("part", name),), float(part["ready"])

    def _policy(self) -> Iterator[Reading]:
        policy, state = self._gateway.policy, self._gateway.policy_state
        yield "policy_info", (("digest", policy.digest),), 1.0
        yield "policy_loaded_timestamp_seconds", (), state.since.get(policy.digest, 0.0)
        last = state.outcome
        yield "reload_timestamp_seconds", (), 0.0 if last is None else last.at
        yield "reload_ok", (), float(last is None or last.result == "ok")
        if policy.signing is not None:
            for name, key in policy.signing.keys.items():
                until = math.inf if key.until_ms is None else key.until_ms / 1000
                yield "signing_key_expiry_timestamp_seconds", (("key", name),), until

    def _backends(self) -> Iterator[Reading]:
        for (scope, name), connector in self._gateway.connectors.items():
            yield "connector_up", (("scope", scope), ("connector", name)), float(connector.engine is not None)

    def _connections(self) -> Iterator[Reading]:
        found: Counter[tuple[str, str]] = Counter()
        for listener in self._gateway.listening:
            found[listener.settings.scope, str(listener.settings.model.bind)] += len(listener.connections)
        for (scope, bind), count in found.items():
            yield "listener_connections", (("scope", scope), ("listener", bind)), float(count)

    def _links(self) -> Iterator[Reading | None]:
        """Links by rule; one pass over all of them."""
        rules = {(scope, rule): None for scope, rules in self._gateway.policy.scopes.items() for rule in rules.patterns}
        present: Counter[tuple[str, str, bool]] = Counter()
        dry: Counter[tuple[str, str, bool]] = Counter()
        for number, link in enumerate([*self._gateway.links()]):
            if number % _STEP == 0:
                yield None
            key = link.scope, rule_of(link), link.incoming
            rules[key[:2]] = None
            present[key] += 1
            dry[key] += link.open and (link.granted if link.incoming else link.window) <= 0
        starved = self._starving.counts()
        for number, (scope, rule) in enumerate(rules):
            if number % _STEP == 0:
                yield None
            yield "links_starved", (("scope", scope), ("rule", rule)), float(starved[scope, rule])
            for direction in _DIRECTIONS:
                counted = scope, rule, direction == "in"
                labels: Labels = ("scope", scope), ("rule", rule), ("direction", direction)
                yield "rule_links", labels, float(present[counted])
                yield "links_without_credit", labels, float(dry[counted])

    def _produced(self) -> Iterator[HistogramSample]:
        for name, cluster in self._gateway.clusters.items():
            value = CountedHistogram(SECOND_BOUNDS, cluster.written)
            yield HistogramSample("kafka_produce_seconds", (("cluster", name),), value)
