"""Histograms of metrics."""

from __future__ import annotations

from gateway.observability.histogram import Histogram, HistogramSample
from gateway.observability.metrics import Metrics


def test_a_bucket_includes_its_bound_and_all_smaller_ones() -> None:
    found = Histogram((0.1, 1))
    for value in (0.05, 0.1, 0.2, 1, 7):
        found.observe(value)
    assert list(found.buckets()) == [("0.1", 2), ("1", 4), ("+Inf", 5)]
    assert found.total == 8.35


def test_a_scrape_shows_the_buckets_the_sum_and_the_number() -> None:
    metrics, found = Metrics(), Histogram((1, 5))
    metrics.histogram_source(
        lambda: [HistogramSample("subscription_attempt_seconds", (("manager", m),), found) for m in "ab"]
    )
    found.observe(3)
    lines = metrics.exposition().decode().splitlines()
    assert [line for line in lines if line.startswith("scopegate_subscription_attempt_seconds") and '"b"' in line] == [
        'scopegate_subscription_attempt_seconds_bucket{le="1",manager="b"} 0.0',
        'scopegate_subscription_attempt_seconds_bucket{le="5",manager="b"} 1.0',
        'scopegate_subscription_attempt_seconds_bucket{le="+Inf",manager="b"} 1.0',
        'scopegate_subscription_attempt_seconds_count{manager="b"} 1.0',
        'scopegate_subscription_attempt_seconds_sum{manager="b"} 3.0',
    ]
    assert sum(line.startswith("# TYPE scopegate_subscription_attempt_seconds ") for line in lines) == 1
