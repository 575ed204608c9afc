"""Metrics: plain integers in, Prometheus text out, with labels that stay few."""

from __future__ import annotations

import ast
from collections.abc import Iterable

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gateway.observability.catalog import RARE, markdown
from gateway.observability.metrics import MAX_SERIES, OTHER, Metrics
from tests.support.project.parts import ROOT


def scrape(metrics: Metrics) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Every sample by name and labels, read by Prometheus' own parser."""
    families = list(text_string_to_metric_families(metrics.exposition().decode()))
    assert len({family.name for family in families}) == len(families)
    found = {}
    for family in families:
        for sample in family.samples:
            key = sample.name, frozenset(sample.labels.items())
            assert key not in found
            found[key] = sample.value
    return found


def labels(**pairs: str) -> frozenset[tuple[str, str]]:
    return frozenset(pairs.items())


def test_hot_counters_are_read_when_scraped() -> None:
    metrics = Metrics()
    counters = metrics.links("edge", "events/{topic}")
    counters.deliveries_in += 3
    counters.accepted += 2
    found = scrape(metrics)
    rule = {"scope": "edge", "rule": "events/{topic}"}
    assert found["scopegate_deliveries_total", labels(**rule, direction="in")] == 3
    assert found["scopegate_outcomes_total", labels(**rule, outcome="accepted")] == 2
    assert found["scopegate_outcomes_total", labels(**rule, outcome="rejected")] == 0
    counters.deliveries_in += 1
    assert scrape(metrics)["scopegate_deliveries_total", labels(**rule, direction="in")] == 4


def test_the_same_labels_are_the_same_counters() -> None:
    metrics = Metrics()
    assert metrics.links("edge", "a") is metrics.links("edge", "a")
    assert metrics.links("edge", "a") is not metrics.links("core", "a")
    metrics.sockets("edge", "a").bytes_in += 7
    assert scrape(metrics)["scopegate_socket_bytes_total", labels(scope="edge", name="a", direction="in")] == 7


def test_counters_have_no_room_for_mistakes() -> None:
    with pytest.raises(AttributeError):
        Metrics().links("edge", "a").acepted = 1  # type: ignore[attr-defined]


def test_rare_events() -> None:
    metrics = Metrics()
    metrics.increment("bad_input", "http")
    metrics.increment("bad_input", "http", by=2)
    metrics.increment("links_refused", "edge", "amqp:not-found")
    found = scrape(metrics)
    assert found["scopegate_bad_input_total", labels(reason="http")] == 3
    assert found["scopegate_links_refused_total", labels(scope="edge", condition="amqp:not-found")] == 1
    assert found["scopegate_tls_failures_total", labels()] == 0
    with pytest.raises(KeyError):
        metrics.increment("bad_inptu", "http")
    with pytest.raises(ValueError, match="reason"):
        metrics.increment("bad_input")


def test_labels_stay_few_and_short_whatever_peers_send() -> None:
    metrics = Metrics()
    for number in range(10 * MAX_SERIES):
        metrics.increment("links_ended", "edge", f"made-up:{number}")
    metrics.increment("bad_input", "x" * 1000)
    found = scrape(metrics)
    ended = [key for key, _ in found.items() if key[0] == "scopegate_links_ended_total"]
    assert len(ended) == MAX_SERIES + 1
    assert found["scopegate_links_ended_total", labels(scope=OTHER, condition=OTHER)] == 9 * MAX_SERIES
    assert found["scopegate_bad_input_total", labels(reason=OTHER)] == 1


def test_label_values_are_escaped() -> None:
    metrics = Metrics()
    metrics.increment("bad_input", 'a"b\\c\nd')
    assert scrape(metrics)["scopegate_bad_input_total", labels(reason='a"b\\c\nd')] == 1


def test_gauges_show_the_present() -> None:
    metrics = Metrics()
    links = [1, 2]
    metrics.gauge("scopegate_links", lambda: len(links))
    metrics.gauge("scopegate_lag", lambda: 5, labels=(("topic", "orders"),))
    assert scrape(metrics)["scopegate_links", labels()] == 2
    links.clear()
    found = scrape(metrics)
    assert (found["scopegate_links", labels()], found["scopegate_lag", labels(topic="orders")]) == (0, 5)


def test_count_sources_join_the_families_that_exist() -> None:
    def source() -> Iterable[tuple[str, tuple[tuple[str, str], ...], float]]:
        yield "kafka_records", (("cluster", "main"), ("result", "produced")), 9
        yield "kafka_records", (("cluster", "main"), ("result", "failed")), 1

    metrics = Metrics()
    metrics.count_source(source)
    found = scrape(metrics)
    assert found["scopegate_kafka_records_total", labels(cluster="main", result="produced")] == 9
    assert found["scopegate_kafka_records_total", labels(cluster="main", result="failed")] == 1


def test_what_cannot_be_read_is_left_out_and_counted() -> None:
    def broken() -> float:
        raise RuntimeError("gone")

    metrics = Metrics()
    metrics.gauge("scopegate_broken", broken)
    metrics.count_source(lambda: (_ for _ in [1 / 0]))  # type: ignore[misc]
    found = scrape(metrics)
    assert ("scopegate_broken", labels()) not in found
    assert found["scopegate_scrape_errors_total", labels(metric="scopegate_broken")] == 1
    assert sum(value for (name, _), value in found.items() if name == "scopegate_scrape_errors_total") == 2


def test_every_name_is_explained() -> None:
    metrics = Metrics()
    for name, described in RARE.items():
        metrics.increment(name, *described.labels)
    text = metrics.exposition().decode()
    for name, described in RARE.items():
        assert f"# HELP scopegate_{name}_total {described.text}\n" in text
    assert "process_resident_memory_bytes" in text


def bumped() -> Iterable[tuple[str, int]]:
    """Every `….increment("name", label, …)` of the product: the name and how many labels it gives."""
    for path in (file for part in ("gateway", "bridges") for file in (ROOT / part).rglob("*.py")):
        text = path.read_text()
        for node in ast.walk(ast.parse(text)) if "increment" in text else ():
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "increment":
                name, *given = node.args
                if isinstance(name, ast.Constant):
                    yield name.value, len(given)


def test_what_the_gateway_counts_is_declared() -> None:
    # An undeclared name would raise on the day the rare event happens, and not before.
    calls = set(bumped())
    assert calls
    assert {(name, size) for name, size in calls if name not in RARE or len(RARE[name].labels) != size} == set()


def test_the_page_about_metrics_is_the_catalogue() -> None:
    again = "run `scopegate schema --metrics > docs/metrics.md`"
    assert (ROOT / "docs" / "metrics.md").read_text() == markdown(), again


def test_expected_series_are_shown_at_zero_and_do_not_use_up_the_room() -> None:
    metrics = Metrics()
    for number in range(2 * MAX_SERIES):
        metrics.expect("connections_accepted", f"scope-{number}")
    metrics.increment("connections_accepted", "new")
    found = scrape(metrics)
    assert found["scopegate_connections_accepted_total", labels(scope="scope-0")] == 0
    assert found["scopegate_connections_accepted_total", labels(scope="new")] == 1
    assert found["scopegate_reloads_total", labels(result="failed")] == 0
