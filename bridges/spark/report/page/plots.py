"""The report's plots: SVG for a page, drawn by matplotlib without a screen, legible at the width of a phone.

They are drawn as wide as a phone, so that a point is about a pixel there, and enlarged by at most a third. Texts remain
text in the page's font, and colours are variables of the page's style sheet, for light and dark pages. Labels are data
of clients: they are never interpreted as markup of SVG or matplotlib's mathtext.
"""

from __future__ import annotations

import io
import math
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from bridges.spark.report.page.format import ISOLATE, POP, visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator
    from matplotlib.typing import RcKeyType

SERIES: Final = 6
"""Maximum number of series in a plot."""
_WIDTH: Final = 5.0
"""Inches of 72 points: 360 points, the width of a phone without margins."""
_MONTHS: Final = 60 * 86_400
"""Seconds above which ticks are at the beginnings of months."""
_STEPS: Final = (
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 172_800, 432_000,
    864_000, 1_296_000,
)  # fmt: skip
_INK, _MUTED, _GRID = "#0a0c00", "#0a0c01", "#0a0c02"
_COLOURS: Final = tuple(f"#0a0b0{number}" for number in range(SERIES + 1))
_NAMES: Final = {
    **{colour: f"var(--s{number})" for number, colour in enumerate(_COLOURS)},
    _INK: "var(--ink)", _MUTED: "var(--muted)", _GRID: "var(--grid)",
}  # fmt: skip
_SETTINGS: Final[dict[RcKeyType, object]] = {
    "svg.fonttype": "none", "svg.hashsalt": "scopegate", "text.parse_math": False, "font.size": 13,
    "font.family": "DejaVu Sans", "axes.edgecolor": _GRID, "axes.labelcolor": _MUTED, "text.color": _INK,
    "xtick.color": _GRID, "ytick.color": _GRID, "xtick.labelcolor": _MUTED, "ytick.labelcolor": _MUTED,
    "axes.facecolor": "none", "figure.facecolor": "none", "savefig.facecolor": "none", "axes.grid": True,
    "grid.color": _GRID, "grid.linewidth": 0.6, "axes.spines.top": False, "axes.spines.right": False,
    "legend.frameon": False, "lines.linewidth": 1.8, "axes.titlesize": 13, "axes.formatter.useoffset": False,
}  # fmt: skip


class PlotSeries(NamedTuple):
    """A line: its name, and its points in the order of time."""

    name: str
    times: Sequence[datetime]
    values: Sequence[float]


class Bar(NamedTuple):
    """A bar: its label, its parts from left to right, and the text after it."""

    label: str
    values: Sequence[float]
    description: str


def lines(
    number: int, series: Sequence[PlotSeries], axis: str, description: str,
    written: Callable[[float], str] | None = None,
) -> str:  # fmt: skip
    """Values over time; `description` is the text for screen readers, `written` a value on the axis."""
    with _style():
        figure, axes = _blank(3.1 + 0.27 * len(series))
        for colour, each in zip(_COLOURS, series, strict=False):
            mark = "o" if len(each.times) < 3 else ""
            times: Any = each.times  # Any: matplotlib plots dates, but its stubs do not allow them
            axes.plot(times, each.values, label=each.name, color=colour, marker=mark, markersize=4)
        axes.margins(x=0.01)
        _time_axis(axes, [time for each in series for time in each.times])
        axes.set_ylim(bottom=0, top=None if any(max(each.values) for each in series) else 1)
        axes.yaxis.set_major_locator(_ticks() if written is None else _binary_ticks())
        axes.yaxis.set_major_formatter(lambda value, _: (written or short)(value))
        axes.set_title(axis, loc="left", color=_MUTED)
        _legend(figure, axes, len(series))
        return _svg(number, figure, description)


def bars(number: int, rows: Sequence[Bar], parts: Sequence[str], axis: str, description: str) -> str:
    """Horizontal bars, each under its label, since labels are long and phones narrow."""
    with _style():
        named = len(parts) > 1
        figure, axes = _blank(0.8 + 0.58 * len(rows) + (0.27 * len(parts) if named else 0))
        most = max((sum(row.values) for row in rows), default=0) or 1
        for place, row in enumerate(rows):
            left = 0.0
            for colour, value in zip(_COLOURS, row.values, strict=False):
                axes.barh(place, value, left=left, height=0.42, color=colour)
                left += value
            axes.annotate(
                cut(row.label), (0, place), (0, 10), textcoords="offset points", va="bottom", annotation_clip=False
            )
            axes.annotate(row.description, (left, place), (4, 0), textcoords="offset points", va="center", color=_MUTED)
        axes.set_ylim(len(rows) - 0.5, -0.95)
        axes.set_xlim(0, most * (1.12 + 0.03 * max((len(row.description) for row in rows), default=0)))
        axes.set_yticks([])
        axes.xaxis.set_major_locator(_ticks(4))
        axes.xaxis.set_major_formatter(lambda value, _: short(value))
        axes.spines.left.set_visible(False)
        axes.set_xlabel(axis)
        for colour, name in zip(_COLOURS, parts if named else (), strict=False):
            axes.barh(0, 0, color=colour, label=name)
        _legend(figure, axes, len(parts) if named else 0)
        return _svg(number, figure, description)


def columns(number: int, labels: Sequence[str], series: Sequence[PlotSeries], axis: str, description: str) -> str:
    """A distribution: one column per class, with stacked series."""
    with _style():
        figure, axes = _blank(3.4 + 0.27 * len(series))
        base = [0.0] * len(labels)
        for colour, each in zip(_COLOURS, series, strict=False):
            axes.bar(range(len(labels)), each.values, bottom=base, width=0.85, color=colour, label=each.name)
            base = [one + more for one, more in zip(base, each.values, strict=True)]
        axes.set_xticks(range(len(labels)), labels, rotation=60, ha="right", rotation_mode="anchor")
        axes.grid(visible=False, axis="x")
        axes.yaxis.set_major_locator(_ticks())
        axes.yaxis.set_major_formatter(lambda value, _: short(value))
        axes.set_title(axis, loc="left", color=_MUTED)
        _legend(figure, axes, len(series))
        return _svg(number, figure, description)


def short(value: float) -> str:
    """A number for an axis: 1.5 k, 20 M."""
    for step, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(value) >= step:
            return f"{value / step:g}{unit}"
    return f"{value:g}"


def cut(text: str, most: int = 40) -> str:
    """A label shortened in the middle, to fit a phone, without control characters."""
    text = visible(text)
    if len(text) <= most:
        return text
    begin, end = text[: most - 16], text[-15:]
    begin += POP * (begin.count(ISOLATE) - begin.count(POP))
    return f"{begin}…{ISOLATE * (end.count(POP) - end.count(ISOLATE))}{end}"


# -- drawing


@contextmanager
def _style() -> Iterator[None]:
    import matplotlib

    with matplotlib.rc_context(_SETTINGS), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")  # the page's font has it, not the measuring one
        yield


def _blank(height: float) -> tuple[Figure, Axes]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_WIDTH, height), layout="constrained")
    axes = figure.add_subplot()
    axes.set_axisbelow(True)
    return figure, axes


def _ticks(count: int = 5) -> MaxNLocator:
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(nbins=count, integer=True, min_n_ticks=1)


def _binary_ticks() -> MaxNLocator:
    """At most six ticks, whose distance is a power of two: 256 B, 512 B, 768 B, 1.0 KiB."""
    from matplotlib.ticker import MaxNLocator

    class Binary(MaxNLocator):
        def tick_values(self, vmin: float, vmax: float) -> Sequence[float]:
            step = 1 << max(math.ceil(math.log2(max(vmax, 1) / 5)), 0)
            return [tick * step for tick in range(math.ceil(vmax / step) + 1)]

    return Binary(nbins=5, min_n_ticks=1)


def _time_axis(axes: Axes, times: Sequence[datetime]) -> None:
    """Times in full, such as 02:50:15, with the rest of the date below; a single point is centred."""
    from matplotlib import dates

    made: Any = dates  # Any: this module has no stubs
    first, last = min(times), max(times)
    if first == last:
        axes.set_xlim(made.date2num(first - timedelta(seconds=1)), made.date2num(last + timedelta(seconds=1)))
    axes.set_xticks(made.date2num(time_ticks(first, last)))
    ticks, label = time_format(first, last)
    axes.xaxis.set_major_formatter(made.DateFormatter(ticks))
    axes.set_xlabel(label)


def time_ticks(first: datetime, last: datetime, most: int = 4) -> list[datetime]:
    """Round times between these two, with a time zone; the first time if there are none."""
    span = (last - first).total_seconds()
    if span > _MONTHS:
        return _month_ticks(first, last, most)
    step = next((step for step in _STEPS if span // step < most), _STEPS[-1])
    begin = -(-first.timestamp() // step) * step
    count = int((last.timestamp() - begin) // step) + 1
    return [datetime.fromtimestamp(begin + number * step, UTC) for number in range(count)] or [first]


def _month_ticks(first: datetime, last: datetime, most: int) -> list[datetime]:
    months = range(first.year * 12 + first.month, last.year * 12 + last.month)  # starts with the next, which is whole
    rough = 12 * (len(months) // 12 // most + 1)
    step = next((step for step in (1, 2, 3, 4, 6, 12) if len(months) / step <= most), rough)
    return [datetime(each // 12, each % 12 + 1, 1, tzinfo=UTC) for each in months if each % step == 0] or [first]


def time_format(first: datetime, last: datetime) -> tuple[str, str]:
    """The format of the times at the axis from `first` to `last`, and the text below it."""
    span = last - first
    if span.total_seconds() > _MONTHS:
        return "%b %Y", "UTC"
    years = f"{first:%Y}" if first.year == last.year else f"{first:%Y} to {last:%Y}"
    if span > timedelta(days=4):
        return "%d %b", f"{years}, UTC"
    if first.date() == last.date():
        return "%H:%M:%S", f"{first:%Y-%m-%d}, UTC"
    return "%d %b\n%H:%M:%S", f"{years}, UTC"


def _legend(figure: Figure, axes: Axes, count: int) -> None:
    """A legend with one name per line, since names are long."""
    if count:
        handles, names = axes.get_legend_handles_labels()
        figure.legend(handles, [cut(name) for name in names], loc="outside lower left", fontsize=13, borderaxespad=0)


def _svg(number: int, figure: Figure, description: str) -> str:
    """The plot as an element of a page: with ids of its own, the page's colours and font, and flexible width."""
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    text = out.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"\s*<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r"<!--.*?-->\s*", "", text, flags=re.DOTALL)
    text = re.sub(r'\bid="', f'id="p{number}-', text)
    text = re.sub(r"url\(#", f"url(#p{number}-", text)
    text = re.sub(r'(xlink:href)="#', rf'\1="#p{number}-', text)
    text = re.sub(r"font: ([\d.]+px)[^;\"]*", r"font-size: \1", text)
    text = re.sub("|".join(_NAMES), lambda found: _NAMES[found[0]], text)
    head, _, rest = text.partition(">")
    box = re.search(r'viewBox="[^"]*"', head)
    assert box is not None  # matplotlib always writes one
    label = _escaped(description)
    space = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
    return f'<svg {box[0]} {space} role="img" aria-label="{label}">{rest.strip()}'


def _escaped(text: str) -> str:
    import html

    return html.escape(text)
