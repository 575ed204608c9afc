"""Helpers for the chapters: the tables' rows, the settings, and numbered plots (pure except for drawing)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import count
from typing import Final, NamedTuple, TypeAlias, TypeVar

from bridges.spark.report.page import format as words
from bridges.spark.report.page import plots
from bridges.spark.report.page.format import Row
from bridges.spark.report.page.html import PageTable
from bridges.spark.report.page.plots import SERIES, Bar, PlotSeries

Tables: TypeAlias = Mapping[str, Sequence[Row]]
"""The rows of the report's tables, by the table's name."""
K = TypeVar("K")
SHOWN: Final = 10
"""Maximum number of rows of a table or plot on the page; the files have all rows."""
DIRECTIONS: Final = {"send": "in", "receive": "out"}


class ReportTerms(NamedTuple):
    """Settings of the page: seconds of a time bucket, whether keys are shown, available data, whether to compare."""

    seconds: int
    keys: bool
    archive: bool
    journal: bool
    compared: bool = False


class ChapterBuilder:
    """The tables and plots of one page; plots are numbered, so that their element ids are unique."""

    def __init__(self, tables: Tables, terms: ReportTerms) -> None:
        self.tables: Final = tables
        self.terms: Final = terms
        self._numbers: Final = count(1)

    @property
    def bucket(self) -> str:
        """The length of a time bucket: 10 s."""
        return words.width(self.terms.seconds)

    def number(self) -> int:
        """The number of the next plot."""
        return next(self._numbers)

    def bars(self, rows: Sequence[Bar], parts: Sequence[str], axis: str, title: str) -> str:
        """A plot of the first rows; empty without rows."""
        if not rows:
            return ""
        shown = rows[:SHOWN]
        return plots.bars(self.number(), shown, parts, axis, describe(title, shown))

    def over_time(
        self, rows: Sequence[Row], name: Callable[[Row], str], value: str, axis: str, title: str, *, gaps: bool = False,
        written: Callable[[float], str] | None = None,
    ) -> str:  # fmt: skip
        """A plot of the largest series and the sum of the others; a missing bucket is zero, or a gap with `gaps`."""
        timed = [row for row in rows if row["time"] is not None]
        totals = {key: total for key, (total,) in sums(timed, name, value).items()}
        named = sorted(totals, key=lambda key: (-totals[key], key))[: SERIES if len(totals) <= SERIES else SERIES - 1]
        times = _times(timed, self.terms.seconds)
        found: dict[str, dict[datetime, float]] = {each: {} for each in named}
        for row in timed:
            points = found.setdefault(name(row) if name(row) in named else f"{len(totals) - len(named)} others", {})
            points[row["time"]] = points.get(row["time"], 0) + (row[value] or 0)
        if not times:
            return ""
        series = []
        for key, points in found.items():
            used = [each for each in times if not gaps or each in points]
            series.append(PlotSeries(key, used, [points.get(each, 0) for each in used]))
        most = (f"{each.name}: {(written or words.count)(max(each.values))} at most" for each in series)
        return plots.lines(self.number(), series, axis, f"{title}. {'; '.join(most)}.", written)


def sums(rows: Iterable[Row], key: Callable[[Row], K], *names: str) -> dict[K, list[int]]:
    """The sums of these columns by key."""
    found: dict[K, list[int]] = {}
    for row in rows:
        totals = found.setdefault(key(row), [0] * len(names))
        for place, name in enumerate(names):
            totals[place] += row[name] or 0
    return found


def ranked(found: Mapping[K, list[int]]) -> list[tuple[K, list[int]]]:
    """The rows, sorted by their first sum, largest first."""
    return sorted(found.items(), key=lambda item: (-item[1][0], str(item[0])))


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], name: str) -> PageTable | None:
    """The first rows for the page; `None` without rows."""
    left = len(rows) - SHOWN
    return PageTable(columns, rows[:SHOWN], max(left, 0), f"tables/{name}.parquet") if rows else None


def more(found: Sequence[object], name: str) -> str:
    """The remark under a plot that shows only the first rows; empty if it shows all."""
    left = len(found) - SHOWN
    return f"The first {SHOWN}; {left:,} more are in tables/{name}.parquet." if left > 0 else ""


def sentences(*texts: str) -> str:
    """The non-empty texts, joined."""
    return " ".join(text for text in texts if text)


def describe(title: str, bars: Sequence[Bar]) -> str:
    """A text description of a plot, for screen readers."""
    return f"{title}: " + "; ".join(f"{bar.label} {bar.description}" for bar in bars)


def _times(rows: Sequence[Row], seconds: int) -> list[datetime]:
    """All time buckets from the first row's to the last row's."""
    found = {row["time"] for row in rows}
    if not found:
        return []
    pieces = int((max(found) - min(found)).total_seconds()) // seconds
    return [min(found) + timedelta(seconds=seconds * number) for number in range(pieces + 1)]
