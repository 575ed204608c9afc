"""The chapters of the report's page: plots, tables and the sentences between them (pure but for drawing).

Rows are those of `tables`, as dicts. A chapter without data says why, and how to get data for the next report.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import count
from typing import Final, NamedTuple, TypeAlias, TypeVar

from bridges.spark.report import format as words
from bridges.spark.report import plots
from bridges.spark.report.format import Row
from bridges.spark.report.html import Card, Chapter, PageTable
from bridges.spark.report.plots import SERIES, Bar, PlotSeries
from bridges.spark.report.tables import MORE
from gateway.journal.readings import BOUNDS

Tables: TypeAlias = Mapping[str, Sequence[Row]]
K = TypeVar("K")
SHOWN: Final = 10
"""Rows of a table on the page; the files have all rows."""
_OUTCOMES: Final = ("accepted", "rejected", "released", "modified", "settled", "dropped")


class ReportTerms(NamedTuple):
    """Settings of the page: seconds of a time bucket, whether keys are named, whether there are archive and journal."""

    seconds: int
    keys: bool
    archive: bool
    journal: bool


class Chapters:
    """Makes the chapters; plots are numbered, so that their element ids differ."""

    def __init__(self, tables: Tables, terms: ReportTerms) -> None:
        self._tables: Final = tables
        self._terms: Final = terms
        self._numbers: Final = count(1)

    def chapters(self) -> Iterator[Chapter]:
        """The chapters in the order of the page."""
        if self._terms.archive:
            yield Chapter("flow", "What flowed", self._flow_text(), tuple(self._flow()))
        if not self._terms.journal:
            text = (
                "There is no journal in what this report was made of. A gateway writes one when its policy has "
                "gateway.journal (docs/journal.md); archive its topic, or name it with --journal."
            )
            yield Chapter("journal", "Who asked, and what became of it", text)
            return
        yield Chapter("asked", "Who asked, and what became of it", _ASKED, tuple(self._asked()))
        yield Chapter("read", "Reading: groups, filters, latency, lag", self._read_text(), tuple(self._read()))

    # -- the archive

    def _flow_text(self) -> str:
        if not self._tables["archive_addresses"]:
            return "No archived event was selected."
        piece = words.width(self._terms.seconds)
        return f"Events as they lie in the archive, by the time of their log; each point is {piece}."

    def _flow(self) -> Iterator[Card]:
        addresses = self._tables["archive_addresses"]
        if not addresses:
            return
        traffic = [row for row in self._tables["archive_traffic"] if row["time"] is not None]
        table = _table(
            ("Address", "#Events", "#Bytes", "#Partitions"),
            [(row["address"], words.count(row["events"]), words.size(row["bytes"]), str(row["partitions"]))
             for row in addresses], "archive_addresses",
        )  # fmt: skip
        for title, unit, name in (("Events over time", "events", "events"), ("Bytes over time", "bytes", "bytes")):
            plot = self._over_time(traffic, lambda row: row["address"], name, f"{unit} in {self._piece}", title)
            yield Card(title, plot, table if name == "events" else None)
        yield self._partitions(traffic)
        yield self._keys(addresses)
        yield self._sizes(addresses)

    def _partitions(self, traffic: Sequence[Row]) -> Card:
        found = _sums(traffic, lambda row: (row["address"], row["partition"]), "events", "bytes")
        rows = sorted(found.items(), key=lambda item: (-item[1][0], item[0]))
        bars = [
            Bar(f"{address}, partition {number}", (events,), words.count(events))
            for (address, number), (events, _) in rows[:SHOWN]
        ]
        description = _describe("Events by partition", bars)
        table = _table(
            ("Address", "#Partition", "#Events", "#Bytes"),
            [(key[0], str(key[1]), words.count(events), words.size(size)) for key, (events, size) in rows],
            "archive_traffic",
        )
        return Card("Events by partition", self._bars(bars, ("events",), "events", description), table)

    def _keys(self, addresses: Sequence[Row]) -> Card:
        rows = sorted(self._tables["archive_keys"], key=lambda row: (-row["events"], row["address"], row["rank"]))
        names = [words.key(row["key"]) if self._terms.keys else f"key no. {row['rank']}" for row in rows]
        bars = [
            Bar(f"{row['address']}: {name}", (row["events"],), words.share(row["share"]))
            for name, row in list(zip(names, rows, strict=True))[:SHOWN]
        ]
        table = _table(
            ("Address", "#Keys, about", "#Without key", "#Heaviest key"),
            [(row["address"], words.count(row["keys"]), words.count(row["without_key"]), self._heaviest(row))
             for row in addresses], "archive_addresses",
        )  # fmt: skip
        note = "The share is of the events of the address that have a key." + (
            "" if self._terms.keys else " Keys are data of the clients: --show-keys names them."
        )
        plot = self._bars(bars, ("events",), "events", _describe("Events by key", bars)) if bars else ""
        return Card("Keys that weigh most", plot, table, note)

    def _heaviest(self, address: Row) -> str:
        mine = (row["share"] for row in self._tables["archive_keys"] if row["address"] == address["address"])
        return words.share(max(mine, default=None))

    def _sizes(self, addresses: Sequence[Row]) -> Card:
        rows = [
            (row["address"], *(words.size(row[name]) for name in ("bytes_p50", "bytes_p99", "bytes_max")))
            for row in addresses
        ]
        return Card("Sizes of messages", "", _table(("Address", "#Half up to", "#99 % up to", "#Largest"), rows,
                                                    "archive_addresses"))  # fmt: skip

    # -- links

    def _asked(self) -> Iterator[Card]:
        scopes = self._tables["scopes"]
        title = "Messages by scope"
        plot = self._over_time(
            scopes, lambda row: f"{row['scope']}, {_directions[row['action']]}", "messages",
            f"messages in {self._piece}", title,
        )  # fmt: skip
        found = _sums(scopes, lambda row: (row["scope"], row["action"]), "messages", "bytes", "attached", "denied")
        rows = [
            (f"{scope}, {_directions[action]}", *map(words.count, (sums[2], sums[3], sums[0])))
            for (scope, action), sums in sorted(found.items())
        ]
        yield Card(title, plot, _table(("Scope", "#Links", "#Denied", "#Messages"), rows, "scopes"), _BYTES)
        yield self._addresses()
        yield self._outcomes()
        yield self._denied()
        yield self._crossed()

    def _addresses(self) -> Card:
        allowed = [row for row in self._tables["links"] if row["decision"] == "allow" and row["route"] != "anonymous"]
        found = _sums(allowed, lambda row: (row["scope"], words.place(row), row["action"]), "messages", "attached")
        ranked = sorted(found.items(), key=lambda item: (-item[1][0], item[0]))
        bars = [
            Bar(f"{address} ({scope}, {_directions[action]})", (messages,), words.count(messages))
            for (scope, address, action), (messages, _) in ranked[:SHOWN]
        ]
        rows = [
            (address, f"{scope}, {_directions[action]}", words.count(links), words.count(messages))
            for (scope, address, action), (messages, links) in ranked
        ]
        table = _table(("Address", "Scope", "#Links", "#Messages"), rows, "links")
        return Card(
            "Messages by address", self._bars(bars, ("messages",), "messages", _describe("By address", bars)), table
        )

    def _outcomes(self) -> Card:
        rows = self._tables["outcomes"]
        found: dict[tuple[str, str], dict[str, int]] = {}
        for row in rows:
            place = found.setdefault((words.place(row), row["action"]), {})
            name = "refused" if row["outcome"].startswith("refused") else row["outcome"]
            if name != "refused":  # a refused message is also counted by its outcome
                place[name] = place.get(name, 0) + row["messages"]
        ranked = sorted(found.items(), key=lambda item: -sum(item[1].values()))[:SHOWN]
        parts = [name for name in _OUTCOMES if any(name in each for _, each in ranked)]
        bars = [
            Bar(
                f"{address}, {_directions[action]}",
                [each.get(name, 0) for name in parts],
                words.count(sum(each.values())),
            )
            for (address, action), each in ranked
        ]
        totals = _sums(rows, lambda row: row["outcome"], "messages")
        table = _table(
            ("Outcome", "#Messages"),
            [(name, words.count(sums[0])) for name, sums in sorted(totals.items(), key=lambda item: -item[1][0])],
            "outcomes",
        )
        plot = self._bars(bars, parts, "messages", _describe("Outcomes by address", bars)) if bars else ""
        return Card("What became of messages", plot, table, _REFUSED)

    def _denied(self) -> Card:
        denied = [row for row in self._tables["links"] if row["decision"] == "deny"]
        found = _sums(
            denied, lambda row: (row["user"] or "", words.place(row), row["condition"], row["scope"]), "denied"
        )
        rows = [
            (f"{user} at {address}, {scope}", condition or "", words.count(sums[0]))
            for (user, address, condition, scope), sums in sorted(found.items(), key=lambda item: -item[1][0])
        ]
        note = "" if rows else "Nobody was refused."
        return Card("Links that were refused", "", _table(("Who, where", "Error", "#Links"), rows, "links"), note)

    def _crossed(self) -> Card:
        rows = [
            (f"{row['scope']} → {row['to_scope']}, {row['to_address'] or ''}", row["result"], row["why"] or "",
             words.count(row["messages"]))
            for row in self._tables["crossings"]
        ]  # fmt: skip
        note = "" if rows else "Nothing crossed from one scope into another."
        return Card(
            "Between scopes", "", _table(("From → to", "Messages were", "Why", "#Messages"), rows, "crossings"), note
        )

    # -- reading

    def _read_text(self) -> str:
        if not self._tables["latency"]:
            return "No link read an event log, or the journal is of a gateway that did not tell of it yet."
        return (
            "Links that read event logs. Latency is from the time an event has in its log to the moment it is handed "
            "to the link, of events that came while the link was open; older ones are counted apart."
        )

    def _read(self) -> Iterator[Card]:
        if self._tables["latency"]:
            yield self._groups()
            yield self._selectivity()
            yield self._latency()
            yield self._lag()

    def _groups(self) -> Card:
        rows = [row for row in self._tables["links"] if row["action"] == "receive" and row["decision"] == "allow"]
        rows = [row for row in rows if row["group"] or row["route"] == "kafka" or row["to_topic"]]
        found = _sums(rows, words.reader, "messages", "attached", "accepted")
        ranked = sorted(found.items(), key=lambda item: (-item[1][0], item[0]))
        bars = [Bar(name, (sums[0],), words.count(sums[0])) for name, sums in ranked[:SHOWN]]
        table = _table(
            ("Group, or user", "#Links", "#Delivered", "#Accepted"),
            [(name, *(words.count(sums[place]) for place in (1, 0, 2))) for name, sums in ranked], "links",
        )  # fmt: skip
        plot = self._bars(bars, ("delivered",), "events delivered", _describe("By group", bars)) if bars else ""
        return Card("Events by group", plot, table)

    def _selectivity(self) -> Card:
        rows = [row for row in self._tables["filters"] if row["scanned"]]
        bars = [
            Bar(words.reader(row), (row["matched"], row["scanned"] - row["matched"]), words.share(row["selectivity"]))
            for row in rows[:SHOWN]
        ]
        table = _table(
            ("Reader", "Filter", "#Looked at", "#Matched"),
            [(words.reader(row), row["filters"] or "none", words.count(row["scanned"]), words.count(row["matched"]))
             for row in rows], "filters",
        )  # fmt: skip
        description = _describe("Share of events that the filter lets through", bars)
        plot = self._bars(bars, ("matched", "not wanted"), "events looked at", description) if bars else ""
        return Card("Selectivity of filters", plot, table)

    def _latency(self) -> Card:
        rows = self._tables["latency"]
        timed = [row for row in rows if row["classes"]]
        found = [{each["upto_ms"]: each["events"] for each in row["classes"]} for row in timed]
        used = {bound for each in found for bound in each}
        bounds = [bound for bound in (*BOUNDS, MORE) if used and min(used) <= bound <= max(used)]
        labels = ["more" if bound == MORE else f"≤ {words.duration(bound)}" for bound in bounds]
        series = [
            PlotSeries(words.reader(row), (), [each.get(bound, 0) for bound in bounds])
            for row, each in list(zip(timed, found, strict=True))[:SERIES]
        ]
        table = _table(
            ("Reader", "#Half", "#99 %", "#Slowest", "#Older events"),
            [(words.reader(row), *(words.duration(row[name]) for name in ("p50_ms", "p99_ms", "slowest_ms")),
              words.count(row["older"])) for row in rows], "latency",
        )  # fmt: skip
        quantiles = ((words.duration(row["p50_ms"]), words.duration(row["p99_ms"])) for row in timed[:SERIES])
        description = "Latency: " + "; ".join(
            f"{words.reader(row)} half within {half}, 99 % within {most}"
            for row, (half, most) in zip(timed, quantiles, strict=False)
        )
        plot = plots.columns(next(self._numbers), labels, series, "events", description) if series else ""
        return Card("From append to delivery", plot, table)

    def _lag(self) -> Card:
        rows = self._tables["lag"]
        axis = "events behind the end of the log"
        plot = self._over_time(rows, words.reader, "lag", axis, "Lag over time", gaps=True)
        most: dict[str, int] = {}
        last: dict[str, dict[int, int]] = {}
        for row in rows:  # in the order of time
            name = words.reader(row)
            most[name] = max(most.get(name, 0), row["lag"])
            last.setdefault(name, {})[row["partition"]] = row["end"] - row["position"]
        ranked = sorted(most, key=lambda name: (-most[name], name))
        description = [(name, words.count(most[name]), words.count(sum(last[name].values()))) for name in ranked]
        table = _table(("Reader", "#Most, one partition", "#At the end, all"), description, "lag")
        return Card("Lag over time", plot, table, "Behind: events from where a reader goes on to the end of its log.")

    # -- shared

    @property
    def _piece(self) -> str:
        return words.width(self._terms.seconds)

    def _bars(self, rows: Sequence[Bar], parts: Sequence[str], axis: str, description: str) -> str:
        return plots.bars(next(self._numbers), rows, parts, axis, description)

    def _over_time(
        self, rows: Sequence[Row], name: Callable[[Row], str], value: str, axis: str, title: str, *, gaps: bool = False
    ) -> str:
        """A plot of the largest series and the sum of the others; a missing bucket is zero, or a gap with `gaps`."""
        timed = [row for row in rows if row["time"] is not None]
        totals = {key: sums[0] for key, sums in _sums(timed, name, value).items()}
        named = sorted(totals, key=lambda key: (-totals[key], key))[: SERIES if len(totals) <= SERIES else SERIES - 1]
        times = _times(timed, self._terms.seconds)
        found: dict[str, dict[datetime, float]] = {each: {} for each in named}
        for row in timed:
            points = found.setdefault(name(row) if name(row) in named else f"{len(totals) - len(named)} others", {})
            points[row["time"]] = points.get(row["time"], 0) + (row[value] or 0)
        if not times:
            return ""
        series = [
            PlotSeries(
                key,
                used := [each for each in times if not gaps or each in points],
                [points.get(each, 0) for each in used],
            )
            for key, points in found.items()
        ]
        parts = (f"{each.name}: {words.count(max(each.values))} at most" for each in series)
        return plots.lines(next(self._numbers), series, axis, f"{title}. {'; '.join(parts)}.")


_directions: Final = {"send": "in", "receive": "out"}
_BYTES: Final = "In: clients send; out: they receive. Messages of anonymous links count at the addresses they go to."
_REFUSED: Final = "A refused message is told twice: as its sender heard it, and why. Settled: nobody asked to hear."
_ASKED: Final = "From the gateway's journal: links and messages by scope, address and outcome, and what was refused."


def _times(rows: Sequence[Row], seconds: int) -> list[datetime]:
    """All time buckets from the first row's to the last row's."""
    description = {row["time"] for row in rows}
    if not description:
        return []
    pieces = int((max(description) - min(description)).total_seconds()) // seconds
    return [min(description) + timedelta(seconds=seconds * number) for number in range(pieces + 1)]


def _sums(rows: Iterable[Row], key: Callable[[Row], K], *names: str) -> dict[K, list[int]]:
    found: dict[K, list[int]] = {}
    for row in rows:
        sums = found.setdefault(key(row), [0] * len(names))
        for place, name in enumerate(names):
            sums[place] += row[name] or 0
    return found


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]], name: str) -> PageTable | None:
    left = len(rows) - SHOWN
    return PageTable(columns, rows[:SHOWN], max(left, 0), f"tables/{name}.parquet") if rows else None


def _describe(title: str, bars: Sequence[Bar]) -> str:
    return f"{title}: " + "; ".join(f"{bar.label} {bar.description}" for bar in bars[:SHOWN])
