"""The chapter about archived events: addresses, traffic over time, partitions, keys, and the archive's files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bridges.spark.report.chapters.builder import ChapterBuilder, more, ranked, sentences, sums, table
from bridges.spark.report.page import format as words
from bridges.spark.report.page.format import Row
from bridges.spark.report.page.html import Card, Chapter
from bridges.spark.report.page.plots import Bar


def archived(builder: ChapterBuilder) -> Chapter:
    """The events of the archive."""
    text = "No archived event was selected."
    if any(row["events"] for row in builder.tables["archive_addresses"]):
        text = f"Archived events by the time of their log; each point of a plot is {builder.bucket}."
    return Chapter("flow", "What flowed", text, tuple(_cards(builder)))


def _cards(builder: ChapterBuilder) -> Iterator[Card]:
    addresses = builder.tables["archive_addresses"]
    if addresses:
        yield _addresses(builder, addresses)
    if files := _files(builder):
        yield files
    traffic = [row for row in builder.tables["archive_traffic"] if row["time"] is not None]
    if traffic:
        for title, unit, written in (("Events over time", "events", None), ("Bytes over time", "bytes", words.size)):
            axis = f"{unit} in {builder.bucket}"
            plot = builder.over_time(
                traffic, lambda row: words.name(row["address"]), unit, axis, title, written=written
            )
            yield Card(title, plot)
    if builder.tables["archive_traffic"]:
        yield _partitions(builder)
    if builder.tables["archive_keys"]:
        yield _keys(builder)


def _addresses(builder: ChapterBuilder, addresses: Sequence[Row]) -> Card:
    columns = [
        "Address", "#Events", "#Bytes", "#Half up to", "#99 % up to", "#Largest", "#Partitions", "#Keys, about",
        "#Without key", "Last event, UTC",
    ]  # fmt: skip
    rows = []
    for row in addresses:
        sizes = [words.size(row[name]) for name in ("bytes", "bytes_p50", "bytes_p99", "bytes_max")]
        counts = [words.count(row[name]) for name in ("partitions", "keys", "without_key")]
        last = f"{row['last']:%Y-%m-%d %H:%M:%S}" if row["last"] is not None else "–"
        change = [words.change(row["events"], row["events_before"])] if builder.terms.compared else []
        rows.append([words.name(row["address"]), words.count(row["events"]), *change, *sizes, *counts, last])
    if builder.terms.compared:
        columns.insert(2, "#Change")
    return Card("Addresses", "", table(columns, rows, "archive_addresses"), wide=True)


def _files(builder: ChapterBuilder) -> Card | None:
    health = builder.tables["archive_files"]
    known = any(row["behind"] is not None for row in health)
    columns = ["Address", "#Files", "#On disk", "#Mean file", "#Below 1 MiB", "#Events, all times", "#Lost offsets"]
    rows = [
        [
            words.name(row["address"]), words.count(row["files"]), words.size(row["bytes"]),
            words.size(row["bytes"] / row["files"] if row["files"] else None), words.count(row["small_files"]),
            words.count(row["events"]), words.count(row["lost_offsets"]),
            *([words.count(row["behind"])] if known else []),
        ]
        for row in health
    ]  # fmt: skip
    if known:
        columns.append("#Behind its topic")
    note = (
        "Behind its topic: events up to the end of the log that a reader saw last."
        if known
        else "How far the archive is behind its topics is not known: the journal has no reader of them."
    )
    lost = any(row["lost_offsets"] for row in health)
    gaps = "Lost offsets were deleted from the topic before they were archived." if lost else ""
    found = table(columns, rows, "archive_files")
    return None if found is None else Card("Files of the archive", "", found, sentences(gaps, note), wide=True)


def _partitions(builder: ChapterBuilder) -> Card:
    traffic = builder.tables["archive_traffic"]
    found = ranked(sums(traffic, lambda row: (row["address"], row["partition"]), "events", "bytes"))
    bars = [
        Bar(f"{words.name(address)}, partition {number}", (events,), f"{words.count(events)}, {words.size(size)}")
        for (address, number), (events, size) in found
    ]
    title = "Events by partition"
    return Card(title, builder.bars(bars, ("events",), "events", title), note=more(bars, "archive_traffic"))


def _keys(builder: ChapterBuilder) -> Card:
    rows = sorted(builder.tables["archive_keys"], key=lambda row: (-row["events"], row["address"], row["rank"]))
    named = builder.terms.keys
    bars = [
        Bar(
            f"{words.name(row['address'])}: {words.key(row['key']) if named else 'key no. ' + str(row['rank'])}",
            (row["events"],), f"{words.count(row['events'])}, {words.share(row['share'])}",
        )
        for row in rows
    ]  # fmt: skip
    hidden = "" if named else "Keys are data of the clients: --show-keys names them."
    note = sentences("Shares are of the events of the address that have a key.", hidden, more(bars, "archive_keys"))
    return Card("Most frequent keys", builder.bars(bars, ("events",), "events", "Events by key"), note=note)
