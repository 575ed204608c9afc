"""Plots: times in full, sizes in their units, names of any script."""

from __future__ import annotations

import warnings
from datetime import UTC, datetime, timedelta

import pytest

from bridges.spark.report.page import format as words
from bridges.spark.report.page.plots import Bar, PlotSeries, bars, cut, lines, time_format, time_ticks

BEGIN = datetime(2026, 11, 21, 2, 50, tzinfo=UTC)


def series(step: timedelta, count: int = 60) -> PlotSeries:
    return PlotSeries("orders", [BEGIN + number * step for number in range(count)], [1024.0 * n for n in range(count)])


def test_times_and_sizes_have_units() -> None:
    svg = lines(1, [series(timedelta(seconds=1), 50)], "bytes in 1 s", "Bytes", words.size)
    for text in (">02:50:15<", ">02:50:30<", ">2026-11-21, UTC<", ">bytes in 1 s<", ">16.0 KiB<", ">48.0 KiB<"):
        assert text in svg, text


@pytest.mark.parametrize(
    ("days", "ticks", "label"),
    [(0.01, "%H:%M:%S", "2026-11-21, UTC"), (2, "%d %b\n%H:%M:%S", "2026, UTC"), (40, "%d %b", "2026, UTC"),
     (50, "%d %b", "2026 to 2027, UTC"), (400, "%b %Y", "UTC")],
)  # fmt: skip
def test_the_format_of_times(days: float, ticks: str, label: str) -> None:
    assert time_format(BEGIN, BEGIN + timedelta(days=days)) == (ticks, label)


@pytest.mark.parametrize("seconds", [0, 1, 3, 59, 600, 7201, 86_399, 259_200, 5_100_000, 5_300_000, 10**8, 3 * 10**9])
def test_ticks_are_few_and_round(seconds: int) -> None:
    end = BEGIN + timedelta(seconds=seconds)
    found = time_ticks(BEGIN, end)
    assert 1 <= len(found) <= 4
    assert seconds < 2 or len(found) >= 2
    assert all(BEGIN <= each <= end and each.second % 5 == 0 for each in found) or seconds < 5


@pytest.mark.parametrize("count", [1, 2])
def test_few_points_are_marked(count: int) -> None:
    svg = lines(1, [series(timedelta(seconds=10), count)], "events", "Events")
    assert svg.count("<use") >= count
    assert ">02:50:00<" in svg


def test_any_script_without_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        svg = bars(1, [Bar(words.name("أحداث/注文") + ", partition 1", (0,), "0")], ("events",), "events", "x")
    assert "أحداث/注文" in svg


def test_long_labels_are_cut_within_their_direction() -> None:
    label = cut(f"{words.name('طلب' * 30)} at {words.name('طلب' * 9)}")
    assert len(label) <= 42
    assert label.count("\u2068") == label.count("\u2069")
    assert cut("a" * 50) == "a" * 24 + "…" + "a" * 15
