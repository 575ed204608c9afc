"""The key figures at the top of the report, with their change since the previous period (pure)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from bridges.spark.report.chapters.builder import ReportTerms, Tables
from bridges.spark.report.chapters.refused import REFUSED
from bridges.spark.report.page import format as words
from bridges.spark.report.page.html import Tile


def key_figures(tables: Tables, terms: ReportTerms) -> Iterator[Tile]:
    """The tiles, refusals first; their number is even."""
    if terms.journal:
        yield from _refusals(tables, terms)
    if terms.archive:
        yield from _archive(tables, terms)
        if not terms.journal:
            yield from _files(tables)
    if terms.journal:
        yield from _messages(tables, terms)
        yield from _readers(tables)


def _refusals(tables: Tables, terms: ReportTerms) -> Iterator[Tile]:
    denied, before = _total(tables, "scopes", "denied"), _total(tables, "scopes_before", "denied")
    yield Tile("Links refused", words.count(denied), _change(denied, before, words.count, terms), bad=denied > 0)
    messages = sum(row["messages"] for row in tables["outcomes"] if row["outcome"].startswith(REFUSED))
    yield Tile("Messages refused", words.count(messages), bad=messages > 0)


def _archive(tables: Tables, terms: ReportTerms) -> Iterator[Tile]:
    for name, column, written in (("events", "events", words.count), ("bytes", "bytes", words.size)):
        total, before = (_total(tables, "archive_addresses", each) for each in (column, f"{column}_before"))
        yield Tile(f"Archived {name}", written(total), _change(total, before, written, terms))


def _files(tables: Tables) -> Iterator[Tile]:
    lost = _total(tables, "archive_files", "lost_offsets")
    on_disk = words.size(_total(tables, "archive_files", "bytes"))
    yield Tile("Files", words.count(_total(tables, "archive_files", "files")), f"{on_disk} on disk")
    yield Tile("Lost offsets", words.count(lost), bad=lost > 0)


def _messages(tables: Tables, terms: ReportTerms) -> Iterator[Tile]:
    for name, action in (("in", "send"), ("out", "receive")):
        total, before = (_total(tables, each, "messages", action) for each in ("scopes", "scopes_before"))
        yield Tile(f"Messages {name}", words.count(total), _change(total, before, words.count, terms))


def _readers(tables: Tables) -> Iterator[Tile]:
    timed = [row["p99_ms"] for row in tables["latency"] if row["p99_ms"] is not None]
    if timed:
        yield Tile("99 % delivered within", words.duration(max(timed)), "the slowest reader")
    else:
        yield Tile("99 % delivered within", "–", "no new events while links were open")
    behind = max((row["lag"] for row in tables["lag"]), default=None)
    yield Tile("Most events behind", words.count(behind), "" if behind is not None else "no reader of a log")


def _total(tables: Tables, table: str, column: str, action: str | None = None) -> int:
    rows = tables.get(table, ())
    return sum(row[column] or 0 for row in rows if action is None or row["action"] == action)


def _change(now: int, before: int, written: Callable[[float], str], terms: ReportTerms) -> str:
    if not terms.compared:
        return ""
    return f"{words.change(now, before)}; before: {written(before)}"
