"""The chapter about readers of event logs: groups, filters, latency and lag, from the gateway's journal."""

from __future__ import annotations

from collections.abc import Iterator

from bridges.spark.report.chapters.builder import ChapterBuilder, more, ranked, sums, table
from bridges.spark.report.page import format as words
from bridges.spark.report.page import plots
from bridges.spark.report.page.html import Card, Chapter
from bridges.spark.report.page.plots import SERIES, Bar, PlotSeries
from bridges.spark.report.page.tables import MORE
from gateway.journal.readings import BOUNDS


def reading(builder: ChapterBuilder) -> Chapter:
    """Readers of event logs."""
    text = (
        "Links that read event logs. Latency is from the time an event has in its log to the moment it is handed "
        "to the link, of events that came while the link was open; older ones are counted apart."
        if builder.tables["latency"]
        else "No link read an event log, or the gateway that wrote the journal did not record it."
    )
    cards = tuple(_cards(builder)) if builder.tables["latency"] else ()
    return Chapter("read", "Readers", text, cards)


def _cards(builder: ChapterBuilder) -> Iterator[Card]:
    for make in (_groups, _filters, _latency, _lag):
        if (found := make(builder)) is not None:
            yield found


def _groups(builder: ChapterBuilder) -> Card | None:
    rows = [row for row in builder.tables["links"] if row["action"] == "receive" and row["decision"] == "allow"]
    rows = [row for row in rows if row["group"] or row["route"] == "kafka" or row["to_topic"]]
    bars = [
        Bar(name, (delivered,), f"{words.count(delivered)}, {words.share(accepted, delivered)} accepted")
        for name, (delivered, accepted) in ranked(sums(rows, words.reader, "messages", "accepted"))
    ]
    plot = builder.bars(bars, ("delivered",), "events delivered", "By group or user")
    return Card("Events by group or user", plot, note=more(bars, "links")) if bars else None


def _filters(builder: ChapterBuilder) -> Card | None:
    """Readers with the same filter texts are combined; filters that only set the start position are left out."""
    rows = [row for row in builder.tables["filters"] if row["scanned"]]
    found = sums(rows, lambda row: (words.reader(row), words.filters(row["filters"])), "scanned", "matched")
    bars = [
        Bar(
            f"{reader}: {filters or 'no filter'}", (matched, scanned - matched),
            f"{words.count(matched)} of {words.count(scanned)}, {words.share(matched, scanned)}",
        )
        for (reader, filters), (scanned, matched) in ranked(found)
    ]  # fmt: skip
    title = "Share of events that filters select"
    plot = builder.bars(bars, ("matched", "not matched"), "events read", title)
    return Card("Selectivity of filters", plot, note=more(bars, "filters")) if bars else None


def _latency(builder: ChapterBuilder) -> Card | None:
    rows = builder.tables["latency"]
    timed = [row for row in rows if row["classes"]]
    found = [{each["upto_ms"]: each["events"] for each in row["classes"]} for row in timed]
    used = {bound for each in found for bound in each}
    bounds = [bound for bound in (*BOUNDS, MORE) if used and min(used) <= bound <= max(used)]
    labels = ["more" if bound == MORE else f"≤ {words.duration(bound)}" for bound in bounds]
    series = [
        PlotSeries(words.reader(row), (), [each.get(bound, 0) for bound in bounds])
        for row, each in list(zip(timed, found, strict=True))[:SERIES]
    ]
    found_table = table(
        ("Reader", "#Half within", "#99 % within", "#Slowest", "#Older events"),
        [
            (words.reader(row), *(words.duration(row[name]) for name in ("p50_ms", "p99_ms", "slowest_ms")),
             words.count(row["older"]))
            for row in rows
        ],
        "latency",
    )  # fmt: skip
    description = "Latency: " + "; ".join(
        f"{words.reader(row)} half within {words.duration(row['p50_ms'])}, 99 % within {words.duration(row['p99_ms'])}"
        for row in timed[:SERIES]
    )
    plot = plots.columns(builder.number(), labels, series, "events", description) if series else ""
    note = "" if plot else "No event was new while a link was open, so there is no latency to show."
    return Card("From append to delivery", plot, found_table, note)


def _lag(builder: ChapterBuilder) -> Card | None:
    rows = builder.tables["lag"]
    if not rows:
        return None
    plot = builder.over_time(rows, words.reader, "lag", "events behind the end of the log", "Lag over time", gaps=True)
    most: dict[str, int] = {}
    last: dict[str, dict[int, int]] = {}
    for row in rows:  # in the order of time
        name = words.reader(row)
        most[name] = max(most.get(name, 0), row["lag"])
        last.setdefault(name, {})[row["partition"]] = row["end"] - row["position"]
    lines = [
        (name, words.count(most[name]), words.count(sum(last[name].values())))
        for name in sorted(most, key=lambda name: (-most[name], name))
    ]
    note = "Behind: events from a reader's position to the end of its log."
    found = table(("Reader", "#Most, one partition", "#At the end, all"), lines, "lag")
    return Card("Lag over time", plot, found, note)
